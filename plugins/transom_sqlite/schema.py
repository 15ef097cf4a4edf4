"""The schema: makes the tables of a fresh file, and widens those of an older one, in one transaction."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transom_hookspecs import TransomError

from . import trail
from .changes import Others
from .files import begin, undo, unusable
from .tables import Table, Tables

OWN_VERSION = 2
OWN = "(store)"
"""The row of `schema` that has the version of the store's own tables."""

OWN_TABLES = """
CREATE TABLE schema (record TEXT PRIMARY KEY, version INTEGER NOT NULL, fields TEXT NOT NULL);
CREATE TABLE log (key INTEGER PRIMARY KEY, tenant TEXT NOT NULL, tree TEXT NOT NULL, seq INTEGER NOT NULL,
    UNIQUE (tenant, tree));
CREATE TABLE event (id INTEGER PRIMARY KEY, tree INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL,
    type TEXT NOT NULL, data TEXT NOT NULL, UNIQUE (tree, seq));
CREATE TABLE change (id INTEGER PRIMARY KEY, worker TEXT NOT NULL, topic TEXT NOT NULL);
"""


def migrate(connection: sqlite3.Connection, tables: Tables, database: Path, others: Others) -> None:
    """Make or widen what the records need, and tell the others of this process.

    Raises:
        TransomError: failed_precondition when the file is of a newer version or another program's.
    """
    begin(connection, database)
    try:
        versions = _versions(connection, database)
        for table in tables:
            _bring_up(connection, table, versions.get(table.record.name), database)
        others.enter()
        connection.execute("COMMIT")
    except BaseException:
        undo(connection)
        raise


def _versions(connection: sqlite3.Connection, database: Path) -> dict[str, int]:
    """The version of each record's table; makes the store's own tables in a fresh file."""
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if names and "schema" not in names:
        raise unusable(database, "is another program's database; name another path")
    if not names:
        _run(connection, OWN_TABLES + trail.TABLES)
        _note(connection, OWN, OWN_VERSION, ())
    versions: dict[str, int] = dict(connection.execute("SELECT record, version FROM schema"))
    _refuse_newer(OWN, versions[OWN], OWN_VERSION, database)
    if versions[OWN] < OWN_VERSION:
        _run(connection, trail.FROM_1)
        _note(connection, OWN, OWN_VERSION, ())
    return versions


def _run(connection: sqlite3.Connection, statements: str) -> None:
    """Run statements inside the transaction (`executescript` would commit it)."""
    for statement in statements.split(";\n"):
        connection.execute(statement)


def _refuse_newer(name: str, found: int, known: int, database: Path) -> None:
    if found > known:
        raise unusable(
            database,
            f"was written by a newer version ({name}: schema {found}, known here {known}); "
            "install that version again, or restore the backup from before the upgrade",
        )


def _note(connection: sqlite3.Connection, name: str, version: int, fields: tuple[str, ...]) -> None:
    connection.execute("INSERT OR REPLACE INTO schema VALUES (?, ?, ?)", (name, version, " ".join(fields)))


def _bring_up(connection: sqlite3.Connection, table: Table[Any], version: int | None, database: Path) -> None:
    record = table.record
    if version is None:
        kind = " WITHOUT ROWID" if table.is_small else ""
        connection.execute(f"CREATE TABLE {table.quoted} ({', '.join(_definitions(table))}){kind}")
    else:
        _refuse_newer(record.name, version, record.schema, database)
        _widen(connection, table)
    _index(connection, table)
    _note(connection, record.name, record.schema, tuple(table.fields))


def _definitions(table: Table[Any]) -> Iterator[str]:
    """The columns and the key of CREATE TABLE."""
    yield "tenant TEXT NOT NULL"
    for name in table.fields:
        yield _column(table, name)
    yield f"PRIMARY KEY (tenant, {', '.join(table.fields[part].column for part in table.record.key)})"


def _column(table: Table[Any], name: str) -> str:
    field = table.fields[name]
    required = " NOT NULL" if name in table.record.key else ""
    default = f" DEFAULT {field.default}" if field.default else ""
    return f"{field.column} {field.affinity}{required}{default}"


def _widen(connection: sqlite3.Connection, table: Table[Any]) -> None:
    """Add the columns of new fields; rows that are there already get the field's default."""
    present = {row[1] for row in connection.execute(f"PRAGMA table_info({table.quoted})")}
    for name, field in table.fields.items():
        if field.column.strip('"') in present:
            continue
        if not field.default:
            raise TransomError(
                "failed_precondition",
                f"record {table.type.__name__!r}: its new field {name!r} needs a default, for the rows stored before it",
            )
        connection.execute(f"ALTER TABLE {table.quoted} ADD COLUMN {_column(table, name)}")


def _index(connection: sqlite3.Connection, table: Table[Any]) -> None:
    """Make the indexes that are new or were declared otherwise before."""
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL"
    present: dict[str, str] = dict(connection.execute(query, (table.record.name,)))
    wanted = {
        name: f'CREATE INDEX "{name}" ON {table.quoted} ({order.columns})'
        for order in table.indexes.values()
        if not order.is_key
        for name in [f"{table.record.name}_{order.index.name}"]
    }
    for name in present.keys() - {name for name, sql in wanted.items() if present.get(name) == sql}:
        connection.execute(f'DROP INDEX "{name}"')
    for name, sql in wanted.items():
        if present.get(name) != sql:
            connection.execute(sql)
