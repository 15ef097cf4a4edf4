"""Scrubbing: what SQLite leaves of removed rows in the file is overwritten.

With secure_delete, SQLite overwrites the cells and pages that it frees. But when it moves cells between neighbouring
pages, it leaves copies of some in the unused middle of a page, between the array of its cells and their content, and
nothing in SQLite overwrites those but a VACUUM of the whole file, for which everybody would have to wait. Here those
middles are filled with zeros, some MiB at a time. They are never read, so a crash in between, or a reader at the same
time, finds nothing wrong.

It is done while nobody can write (the WAL's lock is held) and the file has everything (the WAL is empty). Then a row is
written, upon which every connection, of this process or another, forgets the pages it remembers, with their middles.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from .files import connect_writer, ignoring_busy, undo

SLICE = 16 * 1024 * 1024
"""Bytes of the file that are looked through at once; nobody can write for about ten milliseconds."""

PASSES = 3
"""Passes at most. While others write, a page can change places with one that was looked at before."""

TREES = frozenset((2, 5, 10, 13))
"""The first byte of a page of a table or an index."""

MOST_PAGES = 1 << 24
"""With more, the first byte of other pages, a page number's first, could be the same; such a file is left as it is."""


class Scrubber:
    """Looks through a file until a pass finds nothing. For the writer's thread, between its own transactions.

    Parameters:
        database: the file.
        file: a descriptor of it. It is not closed here: POSIX would take away the locks of the process's connections.
        worker: in whose name the row is written.
    """

    def __init__(self, database: Path, file: int, worker: str) -> None:
        self._worker, self._file = worker, file
        self._wal = database.with_name(f"{database.name}-wal")
        self._connection = connect_writer(database)
        self._at = 0
        self._passes = 0
        self._found = False

    def close(self) -> None:
        """Close its connection."""
        self._connection.close()

    def step(self) -> bool:
        """Empty the WAL and look through the next part of the file; whether all is done. Not every step gets further."""
        if not self._emptied():
            return False
        if self._passes >= PASSES:
            return True
        with ignoring_busy():
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            if self._connection.in_transaction and not self._wal.stat().st_size:
                self._look()
        finally:
            undo(self._connection)
        return False

    def _emptied(self) -> bool:
        busy = 1
        with ignoring_busy():
            (busy, _, _) = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    def _look(self) -> None:
        """Fill the middles of the next pages."""
        head = os.pread(self._file, 100, 0)
        size = int.from_bytes(head[16:18], "big")
        size = 65_536 if size == 1 else size
        holes = list(self._holes(size, head))
        for at, length in holes:
            os.pwrite(self._file, bytes(length), at)
        if holes:
            os.fsync(self._file)
            self._found = True
            self._connection.execute("INSERT INTO change (worker, topic) VALUES (?, 'scrub')", (self._worker,))
            self._connection.execute("COMMIT")
        self._at += SLICE
        if self._at >= os.fstat(self._file).st_size:
            self._at, self._passes, self._found = 0, self._passes + 1 if self._found else PASSES, False

    def _holes(self, size: int, head: bytes) -> Iterator[tuple[int, int]]:
        """Where in the slice something stands that is no part of anything, and how long it is."""
        if int.from_bytes(head[28:32], "big") >= MOST_PAGES or head[52:56] != bytes(4):
            return
        data = os.pread(self._file, SLICE, self._at)
        for start in range(0, len(data), size):
            first = start + (100 if self._at + start == 0 else 0)
            kind = data[first]
            if kind not in TREES:
                continue
            cells = int.from_bytes(data[first + 3 : first + 5], "big")
            begin = first + (12 if kind in (2, 5) else 8) + 2 * cells
            end = start + (int.from_bytes(data[first + 5 : first + 7], "big") or 65_536)
            if begin < end <= start + size and data.count(0, begin, end) < end - begin:
                yield self._at + begin, end - begin
