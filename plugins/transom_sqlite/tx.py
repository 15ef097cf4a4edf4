"""A transaction as its function sees it: the contract's Tx over one connection, inside the group's transaction."""

import sqlite3
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from transom_hookspecs import (
    SYSTEM,
    AuditCut,
    AuditEntry,
    Cursor,
    Entry,
    Event,
    Scalar,
    TransomError,
    Where,
)

from . import trail
from .fields import stored
from .tables import Tables

R = TypeVar("R", bound=msgspec.Struct)

NEXT_SEQ = (
    "INSERT INTO log (tenant, tree, seq) VALUES (?, ?, ?) "
    "ON CONFLICT (tenant, tree) DO UPDATE SET seq = seq + excluded.seq RETURNING key, seq"
)
EVENT = "INSERT INTO event (tree, seq, at, type, data) VALUES (?, ?, ?, ?, ?)"
LAST = "SELECT seq FROM log WHERE tenant = ? AND tree = ?"
_KEY = "SELECT key FROM log WHERE tenant = ? AND tree = ?"
_THIN = (
    "DELETE FROM event WHERE id IN (SELECT id FROM event WHERE tree = ?1 AND type = 'text' AND data ->> 'message' IN "
    "(SELECT data ->> 'message' FROM event WHERE tree = ?1 AND type = 'text.ended') ORDER BY seq LIMIT ?2)"
)
_DROP = "DELETE FROM event WHERE id IN (SELECT id FROM event WHERE tree = ? ORDER BY seq LIMIT ?)"
_FORGET = "DELETE FROM log WHERE key = ?"

_encode = msgspec.json.Encoder().encode


class Effects:
    """What a transaction does beside its tables, carried out when the group commits.

    Parameters:
        topics: each topic touched, with the entries appended when it is a tree's.
        audits: tenant and entry, in order.
    """

    __slots__ = ("audits", "topics")

    def __init__(self) -> None:
        self.topics: dict[str, list[Entry]] = {}
        self.audits: list[tuple[str, AuditEntry]] = []

    def merge(self, other: "Effects") -> None:
        """Take over what a transaction that stands has done."""
        for topic, entries in other.topics.items():
            self.topics.setdefault(topic, []).extend(entries)
        self.audits.extend(other.audits)


class SqliteTx:
    """One transaction, bound to a tenant."""

    __slots__ = ("_connection", "_effects", "_execute", "_stored", "_tables", "now", "tenant")

    def __init__(self, connection: sqlite3.Connection, tables: Tables, effects: Effects, tenant: str, now: int) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._tables = tables
        self._effects = effects
        self._stored = stored(tenant)
        self.tenant = tenant
        self.now = now

    @property
    def system(self) -> "SqliteTx":
        """The same transaction, for the tenant of tenants."""
        return SqliteTx(self._connection, self._tables, self._effects, SYSTEM, self.now)

    def get(self, type: type[R], *key: Scalar) -> R | None:
        """The record with this key, or None."""
        table = self._tables[type]
        row = self._execute(table.get, (self._stored, *key)).fetchone()
        return None if row is None else table.load(row)

    def put(self, record: msgspec.Struct) -> None:
        """Insert the record, or replace the one with its key."""
        table = self._tables[type(record)]
        self._execute(table.put, table.dump(self._stored, record))

    def insert(self, record: msgspec.Struct) -> bool:
        """Insert the record; False, and nothing changed, when its key is taken."""
        table = self._tables[type(record)]
        return self._execute(table.insert, table.dump(self._stored, record)).rowcount == 1

    def update(self, record: R, **changes: object) -> R:
        """Write these fields of a record that was read in this transaction; returns it changed."""
        if not changes:
            return record
        table = self._tables[type(record)]
        sql, values = table.update(changes)
        key = table.key_of(record)
        if not self._execute(sql, (*values, self._stored, *key)).rowcount:
            raise absent(table.type, key)
        return replace(record, **changes)

    def delete(self, type: type[msgspec.Struct], *key: Scalar) -> bool:
        """Remove the record with this key; whether there was one."""
        return self._execute(self._tables[type].delete, (self._stored, *key)).rowcount == 1

    def clear(self, type: type[msgspec.Struct], where: Where, limit: int = 1_000) -> int:
        """Remove up to `limit` records that have these values; returns how many."""
        sql, values = self._tables[type].clear(where)
        return self._execute(sql, (self._stored, *values, limit)).rowcount

    def select(
        self, type: type[R], index: str, where: Where | None = None, *, after: Cursor | None = None, limit: int = 200
    ) -> list[R]:
        """Records in the order of a declared index."""
        table = self._tables[type]
        rows = self._execute(*table.select(self._stored, index, where, after, limit)).fetchall()
        return [table.load(row) for row in rows]

    def count(self, type: type[msgspec.Struct], index: str, where: Where | None = None, *, limit: int = 10_000) -> int:
        """How many records `select` would give, counted up to `limit`."""
        query = self._tables[type].count(self._stored, index, where, limit)
        return int(self._execute(*query).fetchone()[0])

    def add(self, type: type[msgspec.Struct], key: Sequence[Scalar], field: str, by: int, *, cap: int | None = None) -> int:
        """Add to an integer field and return its new value."""
        table = self._tables[type]
        sql = table.add(field)
        row = self._execute(sql, (by, self._stored, *key)).fetchone()
        if row is None:
            raise absent(type, key)
        if cap is not None and by > 0 and row[0] > cap:
            self._execute(sql, (-by, self._stored, *key)).fetchone()
            raise TransomError(
                "resource_exhausted", f"{field} of {type.__name__} {'/'.join(map(str, key))} would be {row[0]}, over {cap}"
            )
        return int(row[0])

    def append(self, tree: str, events: Sequence[Event]) -> int:
        """Append to a tree's log; returns the last event's seq."""
        if not events:
            return self.last(tree)
        key, last = self._execute(NEXT_SEQ, (self._stored, tree, len(events))).fetchone()
        entries = self._effects.topics.setdefault(f"tree/{self.tenant}/{tree}", [])
        rows: list[tuple[Any, ...]] = []
        for seq, event in enumerate(events, last - len(events) + 1):
            entries.append(Entry(seq, self.now, event))  # type: ignore[arg-type]
            rows.append((key, seq, self.now, event.__struct_config__.tag, _encode(event).decode()))
        self._connection.executemany(EVENT, rows)
        return int(last)

    def last(self, tree: str) -> int:
        """The seq of the tree's last event; 0 when it has none."""
        row = self._execute(LAST, (self._stored, tree)).fetchone()
        return row[0] if row else 0

    def thin(self, tree: str, limit: int = 1_000) -> int:
        """Remove text events whose whole text is in the log too; returns how many."""
        log = self._execute(_KEY, (self._stored, tree)).fetchone()
        return self._execute(_THIN, (log[0], limit)).rowcount if log else 0

    def drop(self, tree: str, limit: int = 1_000) -> int:
        """Remove events of a tree's log, and with fewer than `limit` the log; returns how many."""
        log = self._execute(_KEY, (self._stored, tree)).fetchone()
        if log is None:
            return 0
        dropped = self._execute(_DROP, (log[0], limit)).rowcount
        if dropped < limit:
            self._execute(_FORGET, log)
        return dropped

    def audit(self, entry: AuditEntry) -> None:
        """Add to the audit trail, chained when the group commits."""
        self._effects.audits.append((self.tenant, entry if entry.at else replace(entry, at=self.now)))

    def audit_purge(self, before: int, limit: int = 1_000) -> int:
        """Remove details of the oldest audit entries; returns how many."""
        return trail.purge(self._connection, self._stored, before, limit)

    def audit_cut(self, before: int, limit: int = 1_000) -> AuditCut | None:
        """Remove the oldest audit entries, and keep the last one's number and hash."""
        return trail.cut(self._connection, self._stored, before, limit)

    def touch(self, topic: str) -> None:
        """Name a topic that followers of `changes` are told of after the commit."""
        self._effects.topics.setdefault(topic, [])


def absent(type: type[msgspec.Struct], key: Sequence[Scalar]) -> TransomError:
    """There is no such record."""
    return TransomError("not_found", f"there is no {type.__name__} {'/'.join(map(str, key))}")
