"""The writer: one thread that owns the one connection that writes.

It takes what was queued while its last commit ran and commits it as one group. One that raises is undone alone: the
group is then made again, each function in a savepoint. The futures of a group are resolved by one call into
the loop. A caller that is cancelled leaves nothing behind: its function never runs, or stands or falls whole.
"""

import asyncio
import logging
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from transom_hookspecs import Change, StoreUnavailable, TransomError

from .changes import Others
from .files import begin, check_place, translated, undo
from .scrub import Scrubber
from .tables import Tables
from .trail import chain
from .tx import Effects, SqliteTx

Synchronous = Literal["full", "needed", "normal"]

GROUP = 1000
"""Transactions of one group at most."""

IDLE = 1.0
"""The WAL is truncated after so many seconds without work; under load SQLite keeps to the journal_size_limit."""

SCRUB = 0.002
"""Seconds between two parts of the file that are scrubbed, when there is nothing else to do."""

LOOK = 1.0
"""Seconds after which a commit looks whether the file is still in its place."""

log = logging.getLogger(__name__)


class Work(NamedTuple):
    """A transaction that waits for its group."""

    tenant: str
    fn: Callable[[Any], Any]
    relaxed: bool
    future: asyncio.Future[Any]


class Outcome(NamedTuple):
    """What became of a transaction."""

    future: asyncio.Future[Any]
    result: Any
    error: BaseException | None


Deliver = Callable[[Sequence[Outcome], Sequence[Change]], None]


class Writer:
    """The writer thread.

    Parameters:
        connection: its own; nobody else uses it while the thread runs.
        file: a descriptor of the database's file, open for as long as any connection is.
        deliver: called on the writer's thread with what a group came to.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        database: Path,
        file: int,
        tables: Tables,
        others: Others,
        synchronous: Synchronous,
        clock: Callable[[], int],
        deliver: Deliver,
    ) -> None:
        self._connection = connection
        self._database = database
        self._descriptor = file
        self._tables = tables
        self._others = others
        self._synchronous = synchronous
        self._clock = clock
        self._deliver = deliver
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._scrubs: deque[asyncio.Future[None]] = deque()
        self._scrubber: Scrubber | None = None
        self._asked = 0
        self._level = ""
        self._worked = 0.0
        self._truncated = True
        self._tried = 0.0
        self._trouble = ""
        self._file = database.stat().st_ino
        self._looked = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="transom-sqlite-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, work: Work) -> None:
        """Queue a transaction for the next group."""
        self._queue.put(work)

    def scrub(self, future: asyncio.Future[None]) -> None:
        """Overwrite what is left of removed rows, as soon as others let it; then resolve the future."""
        self._scrubs.append(future)

    def stop(self) -> None:
        """Commit what is queued, then end; waits for that."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        going = True
        while going:
            batch, going = self._take()
            if batch:
                self._deliver(*self._commit(batch))
            self._keep_house()
        if self._scrubber:
            self._scrubber.close()
        closed = StoreUnavailable("the store is closed")
        self._deliver([Outcome(future, None, closed) for future in self._scrubs], [])

    def _take(self) -> tuple[list[Work], bool]:
        """What is queued, and whether to go on; waits when there is nothing, but never long."""
        batch: list[Work] = []
        try:
            work = self._queue.get(timeout=SCRUB if self._scrubs else self._others.pause)
            while work is not None:
                batch.append(work)
                if len(batch) == GROUP:
                    return batch, True
                work = self._queue.get_nowait()
        except queue.Empty:
            return batch, True
        return batch, False

    def _commit(self, batch: list[Work], *, apart: bool = False) -> tuple[list[Outcome], list[Change]]:
        """Commit a group; returns what became of each, and what changed.

        Parameters:
            apart: each in a savepoint of its own. That costs, and most functions do not raise, so a group is tried
                without at first.
        """
        try:
            self._look()
            self._set_level(batch)
            begin(self._connection, self._database)
        except (sqlite3.Error, TransomError) as error:
            return [Outcome(work.future, None, self._told(error)) for work in batch], []
        effects = Effects()
        attempt = self._attempt_apart if apart else self._attempt
        try:
            outcomes = [attempt(work, effects) for work in batch if not work.future.cancelled()]
            if effects.audits:
                chain(self._connection, effects.audits)
            self._others.note(list(effects.topics))
            self._connection.execute("COMMIT")
        except BaseException as error:  # noqa: BLE001 - whatever it is, the callers are told and the thread goes on
            undo(self._connection)
            if len(batch) == 1:
                return [Outcome(batch[0].future, None, self._told(error))], []
            return self._one_by_one(batch) if apart else self._commit(batch, apart=True)
        self._others.stand()
        self._worked, self._truncated = time.monotonic(), False
        return outcomes, [Change(topic, tuple(entries)) for topic, entries in effects.topics.items()]

    def _one_by_one(self, batch: list[Work]) -> tuple[list[Outcome], list[Change]]:
        """Commit each alone after their group could not be: one that does not fit on the disk takes none with it."""
        outcomes: list[Outcome] = []
        changes: list[Change] = []
        for work in batch:
            outcome, change = self._commit([work])
            outcomes += outcome
            changes += change
        return outcomes, changes

    def _attempt(self, work: Work, effects: Effects) -> Outcome:
        """Run one transaction's function; when it raises, the whole group is undone."""
        tx = SqliteTx(self._connection, self._tables, effects, work.tenant, self._clock())
        return Outcome(work.future, work.fn(tx), None)

    def _attempt_apart(self, work: Work, effects: Effects) -> Outcome:
        """Run one transaction's function in a savepoint; when it raises, it alone is undone."""
        self._connection.execute("SAVEPOINT work")
        own = Effects()
        try:
            result = work.fn(SqliteTx(self._connection, self._tables, own, work.tenant, self._clock()))
        except BaseException as error:
            if not self._connection.in_transaction:
                raise  # SQLite has undone the whole group
            self._connection.execute("ROLLBACK TO work")
            self._connection.execute("RELEASE work")
            return Outcome(work.future, None, self._told(error))
        self._connection.execute("RELEASE work")
        effects.merge(own)
        return Outcome(work.future, result, None)

    def _look(self) -> None:
        """Now and then, see that the file is still the one that was opened."""
        now = time.monotonic()
        if now - self._looked >= LOOK:
            check_place(self._database, self._file)
            self._looked = now

    def _set_level(self, batch: list[Work]) -> None:
        """Set how durable the group's commit is; SQLite takes that only between transactions."""
        level = self._synchronous.upper()
        if self._synchronous == "needed":
            level = "NORMAL" if all(work.relaxed for work in batch) else "FULL"
        if level != self._level:
            self._connection.execute(f"PRAGMA synchronous = {level}")
            self._level = level

    def _told(self, error: BaseException) -> BaseException:
        """An error as callers are told of it."""
        own = error.__cause__ if isinstance(error, TransomError) else error
        if isinstance(own, sqlite3.Error):  # it may have passed through a plugin's part of the transaction
            return translated(own, self._database)
        # A future takes no StopIteration; Python makes the same of one that leaves a coroutine.
        return RuntimeError("the transaction raised StopIteration") if isinstance(error, StopIteration) else error

    def _keep_house(self) -> None:
        """Tell of what others committed, and shorten the WAL when there is time."""
        try:
            if changes := self._others.news():
                self._deliver([], changes)
            self._scrub()
            self._truncate()
            self._trouble = ""
        except (sqlite3.Error, TransomError, OSError) as error:
            if str(error) != self._trouble:  # it comes again every few milliseconds until it is gone
                self._trouble = str(error)
                log.warning("the store at %s cannot look after its file: %s", self._database, error)

    def _truncate(self) -> None:
        now = time.monotonic()
        if self._truncated or now - self._worked < IDLE or now - self._tried < IDLE:
            return
        self._tried = now
        (busy, _, _) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._truncated = not busy

    def _scrub(self) -> None:
        """Go on with a part of the file when somebody waits for that; who asks meanwhile waits for the next whole pass."""
        if not self._scrubs:
            return
        if self._scrubber is None:
            self._scrubber = Scrubber(self._database, self._descriptor, self._others.worker)
            self._asked = len(self._scrubs)
        if self._scrubber.step():
            self._scrubber.close()
            self._scrubber = None
            self._deliver([Outcome(self._scrubs.popleft(), None, None) for _ in range(self._asked)], [])
