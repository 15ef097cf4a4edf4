"""The store family: where records and logs are kept.

A transaction is a plain function: `await store.transact(tenant, fn)`. `fn(tx)` is synchronous, touches nothing
but `tx`, may run twice, and raises to undo itself alone.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

import msgspec

from .events import Entry, Event
from .markers import hookspec
from .records import AuditEntry, Record
from .trail import AuditChain, AuditCut, AuditFilter, AuditRow
from .values import Json

R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T")

Scalar = None | bool | int | float | str
Where = Mapping[str, Scalar]
Cursor = Sequence[Scalar]


class Change(msgspec.Struct, frozen=True):
    """Something was committed.

    Topics are `tree/<tenant>/<id>` (its log grew), `dropped/<tenant>/<id>` (its log is gone), `job/<tenant>/<id>` (it can
    go on, or has ended), `worker` (another one came), what plugins touch (`policy`, `feed/…`), and `*` (anything may have
    changed: look again).

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

    def clear(self, type: type[msgspec.Struct], where: Where, limit: int = 1_000) -> int:
        """Remove up to `limit` records that have these values; returns how many.

        Parameters:
            where: equal values, the first of them the first field of the key or of an index.
        """

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

    def thin(self, tree: str, limit: int = 1_000) -> int:
        """Remove up to `limit` text events of a tree's log whose whole text is in it (`text.ended`); returns how many.

        The others keep their seqs.
        """

    def drop(self, tree: str, limit: int = 1_000) -> int:
        """Remove up to `limit` events of a tree's log; returns how many.

        With fewer than `limit` the log is gone: what is appended then begins anew, with seq 1.
        """

    def last(self, tree: str) -> int:
        """The seq of the tree's last event; 0 when it has none."""

    def audit(self, entry: AuditEntry) -> None:
        """Add to the audit trail, chained when the transaction commits. The details get a random salt of their own."""

    def audit_purge(self, before: int, limit: int = 1_000) -> int:
        """Remove details and salts, oldest first, of up to `limit` entries; returns how many. Their chain still verifies.

        Parameters:
            before: a time in milliseconds (Unix); the first entry that is not older ends it.
        """

    def audit_cut(self, before: int, limit: int = 1_000) -> AuditCut | None:
        """Remove up to `limit` entries at the beginning of the chain, and keep the last one's number and hash.

        Returns None when there was none.

        Parameters:
            before: a time in milliseconds (Unix); the first entry that is not older ends it.
        """

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
        """The tree's log after a seq: up to `limit` entries, fewer when they are long, none only at its end.

        Seqs are missing where text events were removed (`Tx.thin`).
        """

    async def last(self, tenant: str, tree: str) -> int:
        """The seq of the tree's last event; 0 when it has none."""

    async def audit(self, tenant: str, after: int = 0, limit: int = 200) -> list[AuditRow]:
        """The tenant's audit trail after a number, oldest first."""

    async def find_audit(self, tenant: str, wanted: AuditFilter, limit: int = 200) -> list[AuditRow]:
        """Entries of the tenant's audit trail that a filter wants, newest first."""

    async def audit_chains(self) -> Mapping[str, AuditChain]:
        """Each tenant's chain of audit entries, as each transaction with an entry writes it."""

    async def scrub(self) -> None:
        """Wait until nothing of what was removed is left in the store's files.

        Raises:
            StoreUnavailable: the store is closed.
        """

    def changes(self) -> AsyncIterator[Sequence[Change]]:
        """What was committed, by this process and by others, from now on. For one reader."""

    async def alive(self, worker: str) -> bool:
        """Whether a worker's process still holds what it claimed."""


class StoreHooks:
    """Hooks of the store family."""

    @hookspec
    def register_stores(self) -> Sequence[Store]:  # type: ignore[empty-body]
        """Return stores, not yet opened. The setting `store` names the one that is used; no other is opened."""

    @hookspec
    def register_records(self) -> Sequence[Record]:  # type: ignore[empty-body]
        """Return the records that this plugin keeps; the store makes their tables."""


__all__ = ["Change", "Cursor", "Json", "Scalar", "Store", "StoreHooks", "Tx", "Where"]
