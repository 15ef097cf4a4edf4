"""The audit trail: each tenant's entries in a chain, each hash covering the one before; see `transom_hookspecs.trail`.

Three tables: `audit` has the facts and the digests, `audit_details` what was digested (a row goes when it is purged),
and `audit_chain` where each tenant's chain ends. Rows are read as bytes: what somebody changed by hand is told as it
is, for `audit verify` to find, and stops nobody from reading the rest.
"""

import os
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from transom_hookspecs import (
    AUDIT_RULE,
    SYSTEM,
    AuditChain,
    AuditCut,
    AuditEntry,
    AuditFilter,
    AuditRow,
    Json,
    JsonObject,
    Scalar,
    audit_hash,
    details_digest,
    details_text,
)

from .fields import stored

TABLES = """
CREATE TABLE audit (tenant TEXT NOT NULL, number INTEGER NOT NULL, at INTEGER NOT NULL, action TEXT NOT NULL,
    caller TEXT NOT NULL, door TEXT NOT NULL, object TEXT NOT NULL, outcome TEXT NOT NULL, via TEXT NOT NULL,
    digest TEXT NOT NULL, rule INTEGER NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL,
    PRIMARY KEY (tenant, number)) WITHOUT ROWID;
CREATE TABLE audit_details (tenant TEXT NOT NULL, number INTEGER NOT NULL, salt TEXT NOT NULL, details TEXT NOT NULL,
    PRIMARY KEY (tenant, number)) WITHOUT ROWID;
CREATE TABLE audit_chain (tenant TEXT PRIMARY KEY NOT NULL, number INTEGER NOT NULL, hash TEXT NOT NULL, at INTEGER NOT NULL,
    cut INTEGER NOT NULL DEFAULT 0, cut_hash TEXT NOT NULL DEFAULT '') WITHOUT ROWID;
"""

FROM_1 = f"""
DROP INDEX audit_tenant;
ALTER TABLE audit RENAME TO audit_1;
{TABLES.strip()}
INSERT INTO audit
    SELECT tenant, number, at, action, caller, door, object, outcome, via, details, 1, previous, hash FROM audit_1;
INSERT INTO audit_chain (tenant, number, hash, at) SELECT tenant, number, hash, at FROM audit_1
    WHERE number IN (SELECT max(number) FROM audit_1 GROUP BY tenant);
DROP TABLE audit_1;
"""  # noqa: S608 - our own statements
"""From the schema whose details were in the chain themselves: they stay in it, where a digest stands now."""

_INSERT = (
    "INSERT INTO audit (tenant, number, at, action, caller, door, object, outcome, via, digest, rule, previous, hash) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_DETAILS = "INSERT OR REPLACE INTO audit_details (tenant, number, salt, details) VALUES (?, ?, ?, ?)"
_HEAD = (
    "SELECT max(ifnull((SELECT number FROM audit_chain WHERE tenant = ?1), 0), "
    "ifnull((SELECT max(number) FROM audit WHERE tenant = ?1), 0)), "
    "ifnull((SELECT hash FROM audit_chain WHERE tenant = ?1), '')"
)
"""The last number and hash. A row of `audit_chain` that somebody set back must not keep new entries from their place."""
_SET_HEAD = (
    "INSERT INTO audit_chain (tenant, number, hash, at) VALUES (?, ?, ?, ?) ON CONFLICT (tenant) "
    "DO UPDATE SET number = excluded.number, hash = excluded.hash, at = excluded.at"
)

_TEXTS = ("action", "caller", "door", "object", "outcome", "via", "previous", "hash", "digest")
_SELECT = (
    f"SELECT a.number, a.rule, a.at, {', '.join(f'CAST(a.{name} AS BLOB)' for name in _TEXTS)}, "  # noqa: S608 - our own names
    "CAST(d.salt AS BLOB), CAST(d.details AS BLOB) FROM audit a LEFT JOIN audit_details d USING (tenant, number) "
)
ROWS = f"{_SELECT} WHERE tenant = ? AND number > ? ORDER BY number LIMIT ?"
CHAINS = "SELECT tenant, number, CAST(hash AS BLOB), at, cut, CAST(cut_hash AS BLOB) FROM audit_chain"

_OLDEST_DETAILS = (
    "SELECT number, at FROM audit_details LEFT JOIN audit USING (tenant, number) WHERE tenant = ? ORDER BY number LIMIT ?"
)
_OLDEST = "SELECT number, at, hash FROM audit WHERE tenant = ? ORDER BY number LIMIT ?"
_PURGE = "DELETE FROM audit_details WHERE tenant = ? AND number <= ?"
_CUT = "DELETE FROM audit WHERE tenant = ? AND number <= ?"
_SET_CUT = "UPDATE audit_chain SET cut = ?, cut_hash = ? WHERE tenant = ?"


def chain(connection: sqlite3.Connection, audits: Sequence[tuple[str, AuditEntry]]) -> None:
    """Write entries at the end of their tenants' chains, inside the group's transaction."""
    execute = connection.execute
    heads: dict[str, tuple[int, str, int]] = {}
    for tenant, entry in audits:
        column = stored(tenant)
        number, previous = heads[tenant][:2] if tenant in heads else execute(_HEAD, (column,)).fetchone()
        number, digest = number + 1, ""
        if text := details_text(entry):
            salt = os.urandom(16).hex()
            digest = details_digest(salt, text)
            execute(_DETAILS, (column, number, salt, text))
        hash = audit_hash(previous, number, tenant, entry, digest)
        e = entry
        facts = (e.at, e.action, e.caller, e.door, e.object, e.outcome, e.via)
        execute(_INSERT, (column, number, *facts, digest, AUDIT_RULE, previous, hash))
        heads[tenant] = number, hash, e.at
    for tenant, head in heads.items():
        execute(_SET_HEAD, (stored(tenant), *head))


def purge(connection: sqlite3.Connection, tenant: str, before: int, limit: int) -> int:
    """See `transom_hookspecs.Tx.audit_purge`."""
    oldest = connection.execute(_OLDEST_DETAILS, (tenant, limit)).fetchall()
    old = _older(oldest, before)
    return connection.execute(_PURGE, (tenant, old[-1][0])).rowcount if old else 0


def cut(connection: sqlite3.Connection, tenant: str, before: int, limit: int) -> AuditCut | None:
    """See `transom_hookspecs.Tx.audit_cut`."""
    old = _older(connection.execute(_OLDEST, (tenant, limit)).fetchall(), before)
    if not old:
        return None
    number, _, hash = old[-1]
    for statement in (_CUT, _PURGE):
        connection.execute(statement, (tenant, number))
    connection.execute(_SET_CUT, (number, hash, tenant))
    return AuditCut(entries=len(old), number=number, hash=hash)


def _older(rows: list[tuple[Any, ...]], before: int) -> list[tuple[Any, ...]]:
    """The rows up to the first that is not older; details that no entry has are older than all."""
    kept = next((i for i, row in enumerate(rows) if row[1] is not None and row[1] >= before), len(rows))
    return rows[:kept]


def find(tenant: str, wanted: AuditFilter, limit: int) -> tuple[str, tuple[Scalar, ...]]:
    """The query for the entries that a filter wants, newest first."""
    bounds = "WHERE tenant = ? AND number > ? AND number < ? AND at >= ? AND at < ?"
    values: list[Scalar] = [tenant, wanted.after, wanted.before, wanted.since, wanted.until]
    for name in ("action", "caller", "object"):
        if value := getattr(wanted, name):
            bounds += f" AND {name} = ?"
            values.append(value)
    return f"{_SELECT} {bounds} ORDER BY number DESC LIMIT ?", (*values, limit)


def audit_row(tenant: str, row: Sequence[Any]) -> AuditRow:
    """A tenant's audit row as the contract has it."""
    number, rule, at, *blobs = row
    action, caller, door, object, outcome, via, previous, hash, digest, salt, details = map(_text, blobs)
    entry = AuditEntry(
        action=action,
        caller=caller,
        door=door,
        object=object,
        outcome=outcome,
        via=via,
        at=_number(at),
        details=_details(digest if rule == 1 else details),
    )
    return AuditRow(
        number=number,
        tenant=tenant,
        entry=entry,
        previous=previous,
        hash=hash,
        rule=_number(rule),
        digest=digest,
        salt=salt,
        details=details,
    )


def chains(rows: Sequence[Sequence[Any]]) -> Mapping[str, AuditChain]:
    """Each tenant's chain."""
    return {
        SYSTEM if tenant == stored(SYSTEM) else tenant: AuditChain(
            number=_number(number), hash=_text(hash), at=_number(at), cut=_number(cut), cut_hash=_text(cut_hash)
        )
        for tenant, number, hash, at, cut, cut_hash in rows
    }


def _text(value: bytes | None) -> str:
    return value.decode(errors="replace") if value else ""


def _number(value: Json | bytes) -> int:
    return value if isinstance(value, int) else -1


def _details(text: str) -> JsonObject:
    """What a text says; nothing when it is no JSON object any more, which its digest tells."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any]) if text else {}
    except (msgspec.DecodeError, RecursionError):
        return {}
