"""Changes: what was committed, from the writer of this process, and from the table `change` for what others committed."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Sequence

from transom_hookspecs import Change

from .workers import Workers

ROOM = 20_000
"""Changes and entries that wait for a slow reader; beyond, it is told that anything may have changed."""

KEPT = 10_000
"""Rows of the table `change` that stay for other processes."""

NEAR = 0.005
LOOK = 0.25
"""Seconds between two looks at what others committed, and at whether there are others."""


class Feed(AsyncIterator[Sequence[Change]]):
    """Hands changes to its one reader, in order and each once. Lives on the loop."""

    def __init__(self) -> None:
        self._waiting: list[Change] = []
        self._size = 0
        self._wake = asyncio.Event()
        self._closed = False

    def push(self, changes: Sequence[Change]) -> None:
        """Add what was committed; when the reader is too slow, all of it becomes `*`."""
        self._waiting.extend(changes)
        self._size += sum([1 + len(change.entries) for change in changes])
        if self._size > ROOM:
            self._waiting = [Change("*")]
        self._wake.set()

    def close(self) -> None:
        """End the reader's iteration."""
        self._closed = True
        self._wake.set()

    def __aiter__(self) -> "Feed":
        return self

    async def __anext__(self) -> Sequence[Change]:
        await self._wake.wait()
        if not self._waiting:
            raise StopAsyncIteration
        changes, self._waiting, self._size = self._waiting, [], 0
        if not self._closed:
            self._wake.clear()
        return changes


class Others:
    """What other processes committed, and what they are told: for the writer's thread, on its own connection.

    A process writes its topics only while another one has the store open. None is missed: who opens the store takes
    its lock, then commits a row (`enter`), which moves everybody's data_version; and a group compares that inside its
    transaction before it leaves its topics out.
    """

    def __init__(self, connection: sqlite3.Connection, workers: Workers) -> None:
        self._connection = connection
        self._workers = workers
        self._present = True
        self._looked = 0.0
        self._polled = 0.0
        self._version = -1
        self._position = 0
        self._noted = 0

    def enter(self) -> None:
        """Tell the others of this process, inside the transaction that opens the store; their changes count from here."""
        self._position = self._insert("worker")

    @property
    def worker(self) -> str:
        """This process, as others are told of it."""
        return self._workers.worker

    @property
    def pause(self) -> float:
        """How long the writer may sleep before the next look, in seconds."""
        return NEAR if self._present else LOOK

    def news(self) -> list[Change]:
        """What others committed since the last look; mostly nothing, and then cheap."""
        now = time.monotonic()
        looks = now - self._looked >= LOOK
        if not looks and not (self._present and now - self._polled >= NEAR):
            return []
        self._polled = now
        moved = self._moved()
        if looks:  # after the version was read: who committed by then holds a lock, and is seen
            self._looked = now
            self._present = self._workers.others()
        return self._read() if moved else []

    def note(self, topics: Sequence[str]) -> None:
        """Write this process's topics for the others, inside the group's transaction; `stand` follows its commit."""
        self._noted = self._position
        if not self._present and self._version == self._data_version():
            return
        last = 0
        for topic in topics:
            last = self._insert(topic)
            if last == self._noted + 1:  # nothing of others stands between: it need not be read
                self._noted = last
        if last // 1000 != (last - len(topics)) // 1000:
            self._connection.execute("DELETE FROM change WHERE id <= ?", (last - KEPT,))

    def stand(self) -> None:
        """What was noted is committed."""
        self._position = self._noted

    def _moved(self) -> bool:
        """Whether others committed anything since the last call."""
        before, self._version = self._version, self._data_version()
        return before != self._version

    def _data_version(self) -> int:
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def _insert(self, topic: str) -> int:
        row = (self._workers.worker, topic)
        return self._connection.execute("INSERT INTO change (worker, topic) VALUES (?, ?)", row).lastrowid or 0

    def _read(self) -> list[Change]:
        query = "SELECT id, worker, topic FROM change WHERE id > ? ORDER BY id"
        rows = self._connection.execute(query, (self._position,)).fetchall()
        if not rows:
            return []
        pruned = rows[0][0] > self._position + 1
        self._position = rows[-1][0]
        if pruned:
            return [Change("*")]
        return [Change(topic) for topic in dict.fromkeys(topic for _, worker, topic in rows if worker != self._workers.worker)]
