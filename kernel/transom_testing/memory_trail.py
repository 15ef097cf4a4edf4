"""The audit trail and the logs of the store in memory."""

import os
from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter

import msgspec
from msgspec.structs import replace

from transom_hookspecs import (
    AuditChain,
    AuditCut,
    AuditEntry,
    AuditFilter,
    AuditRow,
    Entry,
    Event,
    Text,
    TextEnded,
    audit_hash,
    details_digest,
    details_text,
)

from .memory_table import Undo, encode


class MemoryTrail:
    """One tenant's audit trail."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.rows: list[AuditRow] = []
        self.chain = AuditChain(number=0, hash="", at=0)

    def add(self, entry: AuditEntry) -> None:
        """Write an entry at the end of the chain."""
        number, previous, digest = self.chain.number + 1, self.chain.hash, ""
        salt, text = os.urandom(16).hex(), details_text(entry)
        if text:
            digest = details_digest(salt, text)
        row = AuditRow(
            number=number,
            tenant=self.tenant,
            entry=entry,
            previous=previous,
            hash=audit_hash(previous, number, self.tenant, entry, digest),
            digest=digest,
            salt=salt if text else "",
            details=text,
        )
        self.rows.append(row)
        self.chain = replace(self.chain, number=number, hash=row.hash, at=entry.at)

    def after(self, number: int, limit: int) -> list[AuditRow]:
        """The entries after a number, oldest first."""
        return [row for row in self.rows if row.number > number][:limit]

    def find(self, wanted: AuditFilter, limit: int) -> list[AuditRow]:
        """The entries that a filter wants, newest first."""
        return [row for row in reversed(self.rows) if wanted.wants(row.number, row.entry)][:limit]

    def purge(self, before: int, limit: int) -> tuple[int, Undo]:
        """Remove the oldest details; returns how many, and how to undo that."""
        kept, old = self.rows, [row for row in self.rows[: self._older(before)] if row.details][:limit]
        bare = {row.number: replace(row, salt="", details="", entry=replace(row.entry, details={})) for row in old}
        self.rows = [bare.get(row.number, row) for row in kept]
        return len(old), lambda: setattr(self, "rows", kept)

    def cut(self, before: int, limit: int) -> tuple[AuditCut | None, Undo]:
        """Remove the oldest entries; returns what went, and how to undo that."""
        rows, chain = self.rows, self.chain
        old = rows[: min(limit, self._older(before))]

        def undo() -> None:
            self.rows, self.chain = rows, chain

        if not old:
            return None, undo
        self.rows = rows[len(old) :]
        self.chain = replace(chain, cut=old[-1].number, cut_hash=old[-1].hash)
        return AuditCut(entries=len(old), number=old[-1].number, hash=old[-1].hash), undo

    def _older(self, before: int) -> int:
        """How many entries are older, up to the first that is not."""
        return next((i for i, row in enumerate(self.rows) if row.entry.at >= before), len(self.rows))


class MemoryLog:
    """One tree's log: seqs and entries as JSON, in order."""

    def __init__(self) -> None:
        self.last = 0
        self._entries: list[tuple[int, bytes]] = []

    def append(self, at: int, events: Sequence[Event]) -> tuple[list[Entry], Undo]:
        """Append events; returns the entries, and how to undo that."""
        entries, before = self._entries, len(self._entries)
        for event in events:
            self.last += 1
            entries.append((self.last, encode(Entry(self.last, at, event))))  # type: ignore[arg-type]

        def undo() -> None:
            self.last -= len(events)
            del entries[before:]

        return [_entry.decode(data) for _, data in entries[before:]], undo

    def read(self, after: int, limit: int) -> list[Entry]:
        """The entries after a seq."""
        first = bisect_right(self._entries, after, key=itemgetter(0))
        return [_entry.decode(data) for _, data in self._entries[first : first + limit]]

    def thin(self, limit: int) -> tuple[int, Undo]:
        """Remove text events whose whole text is there; returns how many, and how to undo that."""
        entries = self.read(0, len(self._entries))
        whole = {entry.event.message for entry in entries if isinstance(entry.event, TextEnded)}
        gone = [entry.seq for entry in entries if isinstance(entry.event, Text) and entry.event.message in whole][:limit]
        return len(gone), self._keep([entry for entry in self._entries if entry[0] not in gone], self.last)

    def drop(self, limit: int) -> tuple[int, Undo]:
        """Remove the first events; returns how many, and how to undo that."""
        gone = min(limit, len(self._entries))
        return gone, self._keep(self._entries[gone:], self.last if gone == limit else 0)

    def _keep(self, entries: list[tuple[int, bytes]], last: int) -> Undo:
        before = self._entries, self.last
        self._entries, self.last = entries, last

        def undo() -> None:
            self._entries, self.last = before

        return undo


_entry = msgspec.json.Decoder(Entry)

__all__ = ["MemoryLog", "MemoryTrail"]
