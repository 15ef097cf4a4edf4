"""The reader: short reads on the loop, long ones on a thread; none leaves a transaction open."""

import asyncio
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from transom_hookspecs import Scalar

from .files import connect, is_busy, translated

SHORT = 200
"""Rows that are read on the loop at most."""

Rows = list[tuple[Any, ...]]


class Reader:
    """Read-only connections: the loop's own, and one for each thread of long reads."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._connection = connect(database, read_only=True)
        self._connection.execute("PRAGMA busy_timeout = 0")  # the loop never waits; a thread does
        self._connection.execute("PRAGMA cache_size = -16384")
        self._connection.execute("PRAGMA mmap_size = 268435456")
        self._own = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._threads = ThreadPoolExecutor(2, "transom-sqlite-reader", self._open)

    def close(self) -> None:
        """Close all connections, when the reads under way are done."""
        self._threads.shutdown()
        for connection in (*self._opened, self._connection):
            connection.close()

    async def rows(self, sql: str, values: tuple[Scalar, ...], limit: int = 1, most: int = 0) -> Rows:
        """The rows of a query that gives up to `limit` of them, fewer when they have over `most` bytes."""
        try:
            if 0 <= limit <= SHORT:
                return self.until(sql, values, most) if most else self.short(sql, values)
        except sqlite3.Error as error:
            if not is_busy(error):
                raise translated(error, self._database) from error
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._long, sql, values)

    def until(self, sql: str, values: tuple[Scalar, ...], most: int) -> Rows:
        """A query's rows up to so many bytes of their last column (one row at least), read here and now."""
        found: Rows = []
        cursor = self._connection.execute(sql, values)
        for row in cursor:
            found.append(row)
            most -= len(row[-1])
            if most <= 0:
                break
        cursor.close()
        return found

    def short(self, sql: str, values: tuple[Scalar, ...]) -> Rows:
        """A query's rows, read here and now: the one blocking call that is allowed on the loop (about 5 µs)."""
        return self._connection.execute(sql, values).fetchall()

    def _open(self) -> None:
        self._own.connection = connect(self._database, read_only=True)
        self._opened.append(self._own.connection)

    def _long(self, sql: str, values: tuple[Scalar, ...]) -> Rows:
        connection: sqlite3.Connection = self._own.connection
        try:
            return connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise translated(error, self._database) from error
