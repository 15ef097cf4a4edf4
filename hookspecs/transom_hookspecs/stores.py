"""The store family: where records and logs are kept.

A transaction is a plain function: `await store.transact(tenant, fn)`. `fn(tx)` is synchronous, touches nothing
but `tx`, may run twice, and raises to undo itself alone.
"""

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

import msgspec

from .events import Entry, Event
from .markers import hookspec
from .records import AuditEntry, Record
from .values import Json

R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T")

Scalar = None | bool | int | float | str
Where = Mapping[str, Scalar]
Cursor = Sequence[Scalar]


class Change(msgspec.Struct, frozen=True):
    """Something was committed.

    Topics are `tree/<tenant>/<id>` (its log grew), `job/<tenant>/<id>` (it can go on, or has ended), `worker` (another
    one came), what plugins touch (`policy`, `feed/…`), and `*` (anything may have changed: look again).

    `entries` are the log entries of a tree's change when this process made it; else they are to be read.
    """

    topic: str
    entries: tuple[Entry, ...] = ()


class Tx(Protocol):
    """One transaction, bound to a tenant. Every method is synchronous."""

    @property
    def tenant(self) -> str:
        """The tenant that every call is about."""

    @property
    def now(self) -> int:
        """The store's clock, in milliseconds (Unix); the same in the whole transaction."""

    @property
    def system(self) -> "Tx":
        """The same transaction, for the tenant of tenants: kernel and identity plugins only."""

    def get(self, type: type[R], *key: Scalar) -> R | None:
        """The record with this key, or None."""

    def put(self, record: msgspec.Struct) -> None:
        """Insert the record, or replace the one with its key."""

    def insert(self, record: msgspec.Struct) -> bool:
        """Insert the record; False, and nothing changed, when its key is taken."""

    def update(self, record: R, **changes: object) -> R:
        """Write these fields of a record that was read in this transaction; returns it changed.

        Raises:
            TransomError: not_found when the record is gone, invalid_argument for a key or an unknown field.
        """

    def delete(self, type: type[msgspec.Struct], *key: Scalar) -> bool:
        """Remove the record with this key; whether there was one."""

    def select(
        self, type: type[R], index: str, where: Where | None = None, *, after: Cursor | None = None, limit: int = 200
    ) -> list[R]:
        """Records in the order of a declared index.

        Parameters:
            where: equal values for the index's leading fields.
            after: the values of the index's other fields in the last row seen.
        """

    def count(self, type: type[msgspec.Struct], index: str, where: Where | None = None, *, limit: int = 10_000) -> int:
        """How many records `select` would give, counted up to `limit`."""

    def add(self, type: type[msgspec.Struct], key: Sequence[Scalar], field: str, by: int, *, cap: int | None = None) -> int:
        """Add to an integer field and return its new value.

        Parameters:
            cap: what the value may reach by adding; taking away is never capped.

        Raises:
            TransomError: resource_exhausted, and nothing changed, when the value would pass `cap`; not_found.
        """

    def append(self, tree: str, events: Sequence[Event]) -> int:
        """Append to a tree's log; returns the last event's seq. Seq counts from 1, without a gap, in commit order."""

    def last(self, tree: str) -> int:
        """The seq of the tree's last event; 0 when it has none."""

    def audit(self, entry: AuditEntry) -> None:
        """Add to the audit trail, chained when the transaction commits."""

    def touch(self, topic: str) -> None:
        """Name a topic that followers of `changes` are told of after the commit."""


class Store(Protocol):
    """Where everything is kept. Opened once; every call names the tenant."""

    name: str
    data: str
    """The data folder; set by the kernel before the store is opened."""
    clock: Callable[[], int]
    """The time in milliseconds (Unix); set by the kernel before the store is opened."""
    worker: str
    """This process's own ID as a worker, set when the store is opened."""

    def open(self, records: Sequence[Record]) -> AbstractAsyncContextManager[None]:
        """Open the store for these records, making or widening their tables.

        Raises:
            TransomError: failed_precondition when the data is of a newer version, is damaged or cannot be used here.
        """

    async def transact(self, tenant: str, fn: Callable[[Tx], T], *, relaxed: bool = False) -> T:
        """Run `fn` in a transaction and return its result once that is durable.

        A caller that is cancelled while it waits does not learn whether the transaction was committed; it was as a
        whole or not at all.

        Parameters:
            relaxed: it holds nothing but text deltas and results that may be made again: a loss of power
                (never a crash of the process) may take the last of it.

        Raises:
            StoreUnavailable: it could not be committed; nothing of it was kept.
        """

    async def get(self, tenant: str, type: type[R], *key: Scalar) -> R | None:
        """The record with this key, or None."""

    async def select(
        self,
        tenant: str,
        type: type[R],
        index: str,
        where: Where | None = None,
        *,
        after: Cursor | None = None,
        limit: int = 200,
    ) -> list[R]:
        """Records in the order of a declared index; see `Tx.select`."""

    async def read(self, tenant: str, tree: str, after: int = 0, limit: int = 200) -> list[Entry]:
        """The tree's log after a seq: up to `limit` entries, fewer when they are long, none only at its end."""

    async def last(self, tenant: str, tree: str) -> int:
        """The seq of the tree's last event; 0 when it has none."""

    async def audit(self, tenant: str, after: int = 0, limit: int = 200) -> "list[AuditRow]":
        """The tenant's audit trail after a number, oldest first."""

    def changes(self) -> AsyncIterator[Sequence[Change]]:
        """What was committed, by this process and by others, from now on. For one reader."""

    async def alive(self, worker: str) -> bool:
        """Whether a worker's process still holds what it claimed."""


_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def audit_hash(previous: str, number: int, tenant: str, entry: AuditEntry) -> str:
    """The hash of an audit row that stands after `previous` in its tenant's chain.

    It is the SHA-256, in hexadecimal, of the JSON array [previous, number, tenant, entry], where the entry has all its
    fields (defaults too); objects' keys are sorted, and there is no white space. The first row's previous is empty.
    """
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
    return hashlib.sha256(_encode_sorted([previous, number, tenant, fields])).hexdigest()


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """An audit entry where it stands in the chain: `hash` covers `previous` and everything else."""

    number: int
    tenant: str
    entry: AuditEntry
    previous: str
    hash: str


class StoreHooks:
    """Hooks of the store family."""

    @hookspec
    def register_stores(self) -> Sequence[Store]:  # type: ignore[empty-body]
        """Return stores, not yet opened. The setting `store` names the one that is used; no other is opened."""

    @hookspec
    def register_records(self) -> Sequence[Record]:  # type: ignore[empty-body]
        """Return the records that this plugin keeps; the store makes their tables."""


__all__ = ["AuditRow", "Change", "Cursor", "Json", "Scalar", "Store", "StoreHooks", "Tx", "Where", "audit_hash"]
