"""Audit trails in tables of the SQLite store, without the store around them."""

import sqlite3
from contextlib import closing

from transom_hookspecs import AuditEntry
from transom_sqlite import trail

DAY = 86_400_000


def entry(number: int, **details: object) -> AuditEntry:
    """The entry of a number, a day after the one before."""
    return AuditEntry(
        action=f"act.{number % 3}",
        caller="person:anna",
        door="rest",
        object=f"job-{number}",
        via="app:desk" if number % 2 else "",
        at=number * DAY,
        details=details,
    )


def fresh() -> "closing[sqlite3.Connection]":
    """A database in memory that has the tables of the trail."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in trail.TABLES.split(";\n"):
        connection.execute(statement)
    return closing(connection)


def write(connection: sqlite3.Connection, details: list[bool], purged: int = 0, cut: int = 0) -> None:
    """So many entries of tenant `a`, with details or without, one of tenant `b`, and what retention did to the first ones."""
    trail.chain(connection, [("b", entry(1, n=1))])
    for number, has_details in enumerate(details, 1):
        trail.chain(connection, [("a", entry(number, n=number) if has_details else entry(number))])
    trail.purge(connection, "a", purged * DAY, 1_000)
    if (done := trail.cut(connection, "a", cut * DAY, 1_000)) is not None:
        trail.chain(connection, [("a", done.entry("system:retention", "runtime"))])
