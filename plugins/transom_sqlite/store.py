"""The store: opens the file, and puts writer, reader and changes together to the contract's Store."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from typing import TypeVar

import msgspec
from anyio import CancelScope, to_thread

from transom_hookspecs import (
    NEVER,
    AnyEvent,
    AuditChain,
    AuditFilter,
    AuditRow,
    Change,
    Cursor,
    Entry,
    Record,
    Scalar,
    StoreUnavailable,
    TransomError,
    Tx,
    Where,
)

from . import trail
from .changes import Feed, Others
from .fields import stored
from .files import connect_writer, opening, prepare
from .reader import Reader
from .schema import migrate
from .tables import Tables
from .tx import LAST
from .workers import Workers
from .writer import Deliver, Outcome, Synchronous, Work, Writer

R = TypeVar("R", bound=msgspec.Struct)
T = TypeVar("T")

SLICE_BYTES = 256 * 1024
"""A short slice of a log ends with the event that passes this."""

READ = (
    "SELECT event.seq, event.at, event.data FROM event JOIN log ON event.tree = log.key "
    "WHERE log.tenant = ? AND log.tree = ? AND event.seq > ? ORDER BY event.seq LIMIT ?"
)


class SqliteStore:
    """Keeps everything in one SQLite file of the data folder.

    Parameters:
        path: the file, relative to the data folder.
        synchronous: how durable commits are: `full`, `normal`, or `needed`: full but for relaxed ones.
    """

    name = "sqlite"

    def __init__(self, path: str = "transom.db", synchronous: Synchronous = "needed") -> None:
        self.data = "transom-data"
        """The data folder; set before the store is opened."""
        self.worker = ""
        self.clock: Callable[[], int] = _milliseconds
        """The store's clock; set before the store is opened."""
        self._path = path
        self._synchronous: Synchronous = synchronous
        self._feed: Feed | None = None
        self._opened: _Parts | None = None

    @asynccontextmanager
    async def open(self, records: Sequence[Record]) -> AsyncIterator[None]:
        """Open the file for these records, making or widening their tables."""
        loop = asyncio.get_running_loop()

        def deliver(outcomes: Sequence[Outcome], changes: Sequence[Change]) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody is left who could be told
                loop.call_soon_threadsafe(self._deliver, outcomes, changes)

        if self._opened:
            raise TransomError("failed_precondition", "the store is open already; one object opens it once at a time")
        self._opened = opened = await to_thread.run_sync(self._open_parts, Tables(records), deliver)
        self.worker = opened.workers.worker
        try:
            yield
        finally:
            self._opened = None
            with CancelScope(shield=True):
                await to_thread.run_sync(opened.close)
            if self._feed:
                self._feed.close()

    def _open_parts(self, tables: Tables, deliver: Deliver) -> "_Parts":
        folder = Path(self.data)
        database = folder / self._path
        with ExitStack() as undo, opening(database):
            file = prepare(folder, database)
            undo.callback(os.close, file)
            workers = Workers(folder / "workers")
            undo.callback(workers.release)
            workers.hold()
            connection = undo.enter_context(closing(connect_writer(database)))
            others = Others(connection, workers)
            migrate(connection, tables, database, others)
            reader = undo.enter_context(closing(Reader(database)))
            writer = Writer(
                connection,
                database=database,
                file=file,
                tables=tables,
                others=others,
                synchronous=self._synchronous,
                clock=self.clock,
                deliver=deliver,
            )
            writer.start()
            undo.callback(writer.stop)
            return _Parts(tables=tables, workers=workers, reader=reader, writer=writer, close=undo.pop_all().close)

    def _deliver(self, outcomes: Sequence[Outcome], changes: Sequence[Change]) -> None:
        for future, result, error in outcomes:
            if future.done():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        if self._feed and changes:
            self._feed.push(changes)

    @property
    def _parts(self) -> "_Parts":
        if self._opened is None:
            raise StoreUnavailable("the store is not open")
        return self._opened

    async def transact(self, tenant: str, fn: Callable[[Tx], T], *, relaxed: bool = False) -> T:
        """Run `fn` in a transaction and return its result once that is durable."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._parts.writer.submit(Work(tenant, fn, relaxed, future))
        return await future

    async def get(self, tenant: str, type: type[R], *key: Scalar) -> R | None:
        """The record with this key, or None."""
        parts = self._parts
        table = parts.tables[type]
        rows = await parts.reader.rows(table.get, (stored(tenant), *key))
        return table.load(rows[0]) if rows else None

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
        parts = self._parts
        table = parts.tables[type]
        rows = await parts.reader.rows(*table.select(stored(tenant), index, where, after, limit), limit)
        return [table.load(row) for row in rows]

    async def read(self, tenant: str, tree: str, after: int = 0, limit: int = 200) -> list[Entry]:
        """The tree's log after a seq."""
        rows = await self._parts.reader.rows(READ, (stored(tenant), tree, after, limit), limit, SLICE_BYTES)
        return [Entry(seq, at, _decode(data)) for seq, at, data in rows]

    async def last(self, tenant: str, tree: str) -> int:
        """The seq of the tree's last event; 0 when it has none."""
        rows = await self._parts.reader.rows(LAST, (stored(tenant), tree))
        return rows[0][0] if rows else 0

    async def audit(self, tenant: str, after: int = 0, limit: int = 200) -> list[AuditRow]:
        """The tenant's audit trail after a number, oldest first."""
        rows = await self._parts.reader.rows(trail.ROWS, (stored(tenant), after, limit), limit)
        return [trail.audit_row(tenant, row) for row in rows]

    async def find_audit(self, tenant: str, wanted: AuditFilter, limit: int = 200) -> list[AuditRow]:
        """Entries of the tenant's audit trail that a filter wants, newest first."""
        query = trail.find(stored(tenant), wanted, limit)
        rows = await self._parts.reader.rows(*query, NEVER)  # a filter may look at far more rows than it wants
        return [trail.audit_row(tenant, row) for row in rows]

    async def audit_chains(self) -> Mapping[str, AuditChain]:
        """Each tenant's chain of audit entries."""
        return trail.chains(await self._parts.reader.rows(trail.CHAINS, ()))

    async def scrub(self) -> None:
        """Wait until nothing of what was removed is left in the file, its WAL included."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parts.writer.scrub(future)
        await self.transact("", lambda tx: None, relaxed=True)  # wakes the writer, which sleeps while it has no work
        await future

    def changes(self) -> AsyncIterator[Sequence[Change]]:
        """What was committed, by this process and by others, from now on. For one reader: a new one ends the one before."""
        if self._feed:
            self._feed.close()
        self._feed = Feed()
        return self._feed

    async def alive(self, worker: str) -> bool:
        """Whether a worker's process still holds what it claimed."""
        return await to_thread.run_sync(self._parts.workers.alive, worker)


class _Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What an open store consists of.

    Parameters:
        close: commits what is queued and closes all; the writer's connection last, which folds the WAL into the file.
    """

    tables: Tables
    workers: Workers
    reader: Reader
    writer: Writer
    close: Callable[[], None]


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000


_decode = msgspec.json.Decoder(AnyEvent).decode
