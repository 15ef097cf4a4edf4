"""The audit trail: each tenant's entries in a chain, each hash covering the one before; see `audit_hash`."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from transom_hookspecs import AuditEntry, AuditRow, audit_hash

from .fields import stored

ROWS = (
    "SELECT number, at, action, caller, door, object, outcome, via, details, previous, hash "
    "FROM audit WHERE tenant = ? AND number > ? ORDER BY number LIMIT ?"
)
_INSERT = (
    "INSERT INTO audit (number, tenant, at, action, caller, door, object, outcome, via, details, previous, hash) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_HEAD = "SELECT hash FROM audit WHERE tenant = ? ORDER BY number DESC LIMIT 1"
_LAST = "SELECT seq FROM sqlite_sequence WHERE name = 'audit'"

_encode = msgspec.json.Encoder(order="sorted").encode


def chain(connection: sqlite3.Connection, audits: Sequence[tuple[str, AuditEntry]]) -> None:
    """Write entries at the end of their tenants' chains, inside the group's transaction."""
    heads: dict[str, str] = {}
    last = connection.execute(_LAST).fetchone()
    for number, (tenant, entry) in enumerate(audits, last[0] + 1 if last else 1):
        if tenant not in heads:
            head = connection.execute(_HEAD, (stored(tenant),)).fetchone()
            heads[tenant] = head[0] if head else ""
        previous = heads[tenant]
        heads[tenant] = audit_hash(previous, number, tenant, entry)
        connection.execute(_INSERT, _row(number, tenant, entry, previous, heads[tenant]))


def _row(number: int, tenant: str, entry: AuditEntry, previous: str, hash: str) -> tuple[Any, ...]:
    e = entry
    facts = (e.at, e.action, e.caller, e.door, e.object, e.outcome, e.via, _encode(e.details).decode())
    return (number, stored(tenant), *facts, previous, hash)


def audit_row(tenant: str, row: Sequence[Any]) -> AuditRow:
    """A tenant's audit row as the contract has it."""
    number, at, action, caller, door, object, outcome, via, details, previous, hash = row
    entry = AuditEntry(
        action=action,
        caller=caller,
        door=door,
        object=object,
        outcome=outcome,
        via=via,
        at=at,
        details=msgspec.json.decode(details),
    )
    return AuditRow(number=number, tenant=tenant, entry=entry, previous=previous, hash=hash)
