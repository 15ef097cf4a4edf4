"""A store in memory, for tests: the contract's Store over plain dicts, without threads, the same on every run.

It keeps what it has when it is closed, so that a second kernel opened on the same object sees a restart. Values go
through JSON in both directions, as in a store on disk: nothing a caller holds is the store's own.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, TypeVar

import anyio
import msgspec
from msgspec.structs import replace

from transom_hookspecs import (
    SYSTEM,
    AuditChain,
    AuditCut,
    AuditEntry,
    AuditFilter,
    AuditRow,
    Change,
    Cursor,
    Entry,
    Event,
    Record,
    Scalar,
    Store,
    StoreUnavailable,
    TransomError,
    Tx,
    Where,
    hookimpl,
)

from .memory_table import MemoryTable, Undo, absent, encode
from .memory_trail import MemoryLog, MemoryTrail

R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T")

OWN = frozenset(("audit", "audit_chain", "audit_details", "change", "event", "log", "schema"))
"""Names that stores on disk use for tables of their own; no record may be called so."""


class MemoryStore:
    """Keeps everything in memory, until the object is gone."""

    name = "memory"

    def __init__(self) -> None:
        self.worker = self.data = ""
        self.clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000
        """The store's clock; a test may set it."""
        self._tables: dict[type[msgspec.Struct], MemoryTable[Any]] = {}
        self._logs: dict[tuple[str, str], MemoryLog] = {}
        self._trails: dict[str, MemoryTrail] = {}
        self._opened = 0
        self._is_open = False
        self._feed: _Feed | None = None

    @asynccontextmanager
    async def open(self, records: Sequence[Record]) -> AsyncIterator[None]:
        """Open the store for these records; what an earlier opening stored is there."""
        self._tables = dict(self._declared(records))
        self._opened += 1
        self.worker = f"memory-{self._opened}"
        self._is_open = True
        try:
            yield
        finally:
            self._is_open = False
            if self._feed:
                self._feed.close()

    def _declared(self, records: Sequence[Record]) -> "Iterator[tuple[type[msgspec.Struct], MemoryTable[Any]]]":
        names = set(OWN)
        for record in records:
            if record.name in names:
                raise TransomError(
                    "invalid_argument", f"record {record.type.__name__!r}: the table name {record.name!r} is taken; rename it"
                )
            names.add(record.name)
            yield record.type, MemoryTable(record, self._tables.get(record.type))

    async def transact(self, tenant: str, fn: Callable[[Tx], T], *, relaxed: bool = False) -> T:
        """Run `fn` in a transaction and return its result."""
        await anyio.lowlevel.checkpoint()
        tx = MemoryTx(self, tenant, self.clock(), _Effects())
        try:
            result = fn(tx)
        except BaseException:
            tx.undo()
            raise
        changes = self._commit(tx)
        if self._feed and changes:
            self._feed.push(changes)
        return result

    def _commit(self, tx: "MemoryTx") -> list[Change]:
        for tenant, entry in tx.effects.audits:
            self.trail(tenant).add(entry)
        return [Change(topic, tuple(entries)) for topic, entries in tx.effects.topics.items()]

    async def get(self, tenant: str, type: type[R], *key: Scalar) -> R | None:
        """The record with this key, or None."""
        return self.table(type).get(tenant, key)

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
        """Records in the order of a declared index."""
        return self.table(type).select(tenant, index, where or {}, after)[:limit]

    async def read(self, tenant: str, tree: str, after: int = 0, limit: int = 200) -> list[Entry]:
        """The tree's log after a seq."""
        return self.log(tenant, tree).read(after, limit)

    async def last(self, tenant: str, tree: str) -> int:
        """The seq of the tree's last event; 0 when it has none."""
        return self.log(tenant, tree).last

    async def audit(self, tenant: str, after: int = 0, limit: int = 200) -> list[AuditRow]:
        """The tenant's audit trail after a number, oldest first."""
        return self.trail(tenant).after(after, limit)

    async def find_audit(self, tenant: str, wanted: AuditFilter, limit: int = 200) -> list[AuditRow]:
        """Entries of the tenant's audit trail that a filter wants, newest first."""
        return self.trail(tenant).find(wanted, limit)

    async def audit_chains(self) -> Mapping[str, AuditChain]:
        """Each tenant's chain of audit entries."""
        self._check_open()
        return {tenant: trail.chain for tenant, trail in self._trails.items() if trail.chain.number}

    async def scrub(self) -> None:
        """Nothing of what was removed is left in memory."""
        self._check_open()

    def changes(self) -> AsyncIterator[Sequence[Change]]:
        """What was committed from now on. For one reader: a new one ends the one before."""
        if self._feed:
            self._feed.close()
        self._feed = _Feed()
        return self._feed

    async def alive(self, worker: str) -> bool:
        """Whether it is this opening's own worker."""
        return self._is_open and worker == self.worker

    def table(self, type: type[R]) -> "MemoryTable[R]":
        """One record's rows."""
        self._check_open()
        try:
            return self._tables[type]
        except KeyError:
            raise TransomError(
                "invalid_argument", f"record {type.__name__!r} is not registered; return it from register_records"
            ) from None

    def log(self, tenant: str, tree: str) -> MemoryLog:
        """A tree's log."""
        self._check_open()
        return self._logs.setdefault((tenant, tree), MemoryLog())

    def trail(self, tenant: str) -> MemoryTrail:
        """A tenant's audit trail."""
        self._check_open()
        return self._trails.setdefault(tenant, MemoryTrail(tenant))

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreUnavailable("the store is not open")


class _Effects:
    """What a transaction does beside its tables, and how to undo what it did in them."""

    def __init__(self) -> None:
        self.topics: dict[str, list[Entry]] = {}
        self.audits: list[tuple[str, AuditEntry]] = []
        self.undo: list[Undo] = []


class MemoryTx:
    """One transaction, bound to a tenant."""

    def __init__(self, store: MemoryStore, tenant: str, now: int, effects: _Effects) -> None:
        self.tenant = tenant
        self.now = now
        self.effects = effects
        self._store = store
        self._table = store.table
        self._log = store.log
        self._trail = store.trail

    @property
    def system(self) -> "MemoryTx":
        """The same transaction, for the tenant of tenants."""
        return MemoryTx(self._store, SYSTEM, self.now, self.effects)

    def undo(self) -> None:
        """Put everything back as it was."""
        for step in reversed(self.effects.undo):
            step()

    def get(self, type: type[R], *key: Scalar) -> R | None:
        """The record with this key, or None."""
        return self._table(type).get(self.tenant, key)

    def put(self, record: msgspec.Struct) -> None:
        """Insert the record, or replace the one with its key."""
        self.effects.undo.append(self._table(type(record)).put(self.tenant, record))

    def insert(self, record: msgspec.Struct) -> bool:
        """Insert the record; False, and nothing changed, when its key is taken."""
        table = self._table(type(record))
        if table.get(self.tenant, table.key_of(record)) is not None:
            return False
        self.put(record)
        return True

    def update(self, record: R, **changes: object) -> R:
        """Write these fields of a record that was read in this transaction; returns it changed."""
        if not changes:
            return record
        table = self._table(type(record))
        table.check_fields(changes)
        if (stored := table.get(self.tenant, table.key_of(record))) is None:
            raise absent(table.record.type, table.key_of(record))
        self.put(replace(stored, **changes))
        return replace(record, **changes)

    def delete(self, type: type[msgspec.Struct], *key: Scalar) -> bool:
        """Remove the record with this key; whether there was one."""
        undo = self._table(type).delete(self.tenant, key)
        self.effects.undo.extend([undo] if undo else [])
        return undo is not None

    def clear(self, type: type[msgspec.Struct], where: Where, limit: int = 1_000) -> int:
        """Remove up to `limit` records that have these values; returns how many."""
        undo = self._table(type).clear(self.tenant, where, limit)
        self.effects.undo.extend(undo)
        return len(undo)

    def select(
        self, type: type[R], index: str, where: Where | None = None, *, after: Cursor | None = None, limit: int = 200
    ) -> list[R]:
        """Records in the order of a declared index."""
        return self._table(type).select(self.tenant, index, where or {}, after)[:limit]

    def count(self, type: type[msgspec.Struct], index: str, where: Where | None = None, *, limit: int = 10_000) -> int:
        """How many records `select` would give, counted up to `limit`."""
        return len(self.select(type, index, where, limit=limit))

    def add(self, type: type[msgspec.Struct], key: Sequence[Scalar], field: str, by: int, *, cap: int | None = None) -> int:
        """Add to an integer field and return its new value."""
        record = self._table(type).get(self.tenant, tuple(key))
        if record is None:
            raise absent(type, key)
        value: int = getattr(record, field) + by
        if cap is not None and by > 0 and value > cap:
            raise TransomError(
                "resource_exhausted", f"{field} of {type.__name__} {'/'.join(map(str, key))} would be {value}, over {cap}"
            )
        self.update(record, **{field: value})
        return value

    def append(self, tree: str, events: Sequence[Event]) -> int:
        """Append to a tree's log; returns the last event's seq."""
        log = self._log(self.tenant, tree)
        if events:
            entries, undo = log.append(self.now, events)
            self.effects.undo.append(undo)
            self.effects.topics.setdefault(f"tree/{self.tenant}/{tree}", []).extend(entries)
        return log.last

    def last(self, tree: str) -> int:
        """The seq of the tree's last event; 0 when it has none."""
        return self._log(self.tenant, tree).last

    def thin(self, tree: str, limit: int = 1_000) -> int:
        """Remove text events whose whole text is in the log too; returns how many."""
        return self._undoable(self._log(self.tenant, tree).thin(limit))

    def drop(self, tree: str, limit: int = 1_000) -> int:
        """Remove events of a tree's log, and with fewer than `limit` the log; returns how many."""
        return self._undoable(self._log(self.tenant, tree).drop(limit))

    def audit_purge(self, before: int, limit: int = 1_000) -> int:
        """Remove details of the oldest audit entries; returns how many."""
        return self._undoable(self._trail(self.tenant).purge(before, limit))

    def audit_cut(self, before: int, limit: int = 1_000) -> AuditCut | None:
        """Remove the oldest audit entries, and keep the last one's number and hash."""
        return self._undoable(self._trail(self.tenant).cut(before, limit))

    def _undoable(self, done: tuple[T, Undo]) -> T:
        self.effects.undo.append(done[1])
        return done[0]

    def audit(self, entry: AuditEntry) -> None:
        """Add to the audit trail, chained when the transaction commits."""
        copy = msgspec.json.decode(encode(entry), type=AuditEntry)
        self.effects.audits.append((self.tenant, copy if copy.at else replace(copy, at=self.now)))

    def touch(self, topic: str) -> None:
        """Name a topic that followers of `changes` are told of after the commit."""
        self.effects.topics.setdefault(topic, [])


class _Feed(AsyncIterator[Sequence[Change]]):
    """Hands changes to one reader, in order and each once."""

    def __init__(self) -> None:
        self._waiting: list[Change] = []
        self._wake = anyio.Event()
        self._closed = False

    def push(self, changes: Sequence[Change]) -> None:
        self._waiting.extend(changes)
        self._wake.set()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    def __aiter__(self) -> "_Feed":
        return self

    async def __anext__(self) -> Sequence[Change]:
        await self._wake.wait()
        if not self._waiting:
            raise StopAsyncIteration
        changes, self._waiting = self._waiting, []
        if not self._closed:
            self._wake = anyio.Event()
        return changes


class MemoryStorePlugin:
    """Offers the store `memory`, or the very object that it is given."""

    spec: ClassVar[str] = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """No settings."""

    def __init__(self, config: Config | None = None, store: MemoryStore | None = None) -> None:
        self.store = store or MemoryStore()

    @hookimpl
    def register_stores(self) -> Sequence[Store]:
        """The store, not yet opened."""
        return [self.store]


__all__ = ["MemoryStore", "MemoryStorePlugin", "MemoryTx"]
