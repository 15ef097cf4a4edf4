"""Checking a chain, entry by entry: no store and no clock in here."""

from collections.abc import Sequence

import msgspec

from transom_hookspecs import AUDIT_CUT, AUDIT_RULE, AuditChain, AuditRow, audit_hash, details_digest, details_text


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """An entry that a chain ended with at a time: number, hash, and its time in milliseconds (Unix)."""

    number: int
    hash: str
    at: int


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """The first thing that is wrong with a chain.

    Parameters:
        kind: `changed`, `missing`, `details`, `cut_tail`, `head`, `head_file` or `cut`.
        number: the entry at which it shows.
    """

    kind: str
    number: int
    message: str


class Walk:
    """A walk along a chain, from its beginning or from where it was cut.

    Parameters:
        chain: as the store had it before the walk began.
        witness: the head that the file had before that, or None.
    """

    def __init__(self, chain: AuditChain, witness: Head | None) -> None:
        self.checked = 0
        self._chain = chain
        self._witness = witness
        self._witnessed = False
        self._place(chain)

    def _place(self, chain: AuditChain) -> None:
        self.cut, self._cut_hash = chain.cut, chain.cut_hash
        self.number, self.hash, self.at = chain.cut, chain.cut_hash, 0
        self._vouched = chain.cut == 0 and not chain.cut_hash

    def jump(self, chain: AuditChain) -> bool:
        """Go on behind what was cut off meanwhile; whether anything was that the walk has not passed."""
        if chain.cut <= self.number:
            return False
        self._place(chain)
        return True

    def check(self, rows: Sequence[AuditRow]) -> Fault | None:
        """Check the next entries; what is wrong with the first that is."""
        for row in rows:
            if (fault := self._check(row)) is not None:
                return fault
            self.number, self.hash, self.at = row.number, row.hash, row.entry.at
            self.checked += 1
            self._vouched |= row.entry.action == AUDIT_CUT and row.entry.object == f"{self.cut}:{self._cut_hash}"
        return None

    def _check(self, row: AuditRow) -> Fault | None:
        head, witness = self._chain, self._witness
        if row.previous != self.hash or (row.rule == AUDIT_RULE and row.number != self.number + 1):
            return _fault("missing", row, f"does not follow on entry {self.number}: one is missing, or they changed places")
        if row.hash != audit_hash(row.previous, row.number, row.tenant, row.entry, row.digest, row.rule):
            return _fault("changed", row, "does not have its hash: it was changed")
        if not (row.purged or details_are_whole(row)):
            return _fault("details", row, "has other details than those that were digested")
        if row.number == head.number and (row.hash, row.entry.at) != (head.hash, head.at):
            return _fault("head", row, "is not the one that the chain's head names")
        if witness is not None and row.number == witness.number:
            if (row.hash, row.entry.at) != (witness.hash, witness.at):
                return _fault("head_file", row, "is not the one that audit.head names")
            self._witnessed = True
        return None

    def end(self, after: AuditChain) -> Fault | None:
        """Check the end of the walk, past the last entry.

        Parameters:
            after: the chain as the store has it now.
        """
        if self.number < self._chain.number:
            return self._at_end("cut_tail", f"is the last, and there were {self._chain.number}: the rest was cut off")
        if after.number < self.number or (after.number == self.number and after.hash != self.hash):
            return self._at_end("head", "is the last, and the chain's head names another")
        if not self._vouched:
            return self._at_end("cut", f"is reached, and no entry vouches for the cut after entry {self.cut}")
        return self._disagreement()

    def _disagreement(self) -> Fault | None:
        """What speaks against the head that the file has, when no entry was it."""
        witness = self._witness
        if witness is None or self._witnessed or witness.number < self.cut:
            return None
        if witness.number == self.cut:
            same = witness.hash == self._cut_hash
            return None if same else self._at_end("head_file", f"is the last, and audit.head had another entry {self.cut}")
        return self._at_end("head_file", f"is the last, and audit.head names entry {witness.number}, which is not there")

    def _at_end(self, kind: str, what: str) -> Fault:
        return Fault(kind=kind, number=self.number, message=f"entry {self.number} {what}")


def details_are_whole(row: AuditRow) -> bool:
    """Whether the details are those that were digested; under the first rule they stand where the digest does."""
    if row.rule != AUDIT_RULE:
        return not (row.salt or row.details) and (details_text(row.entry) or "{}") == row.digest
    if not row.digest:
        return not (row.salt or row.details)
    try:
        return details_digest(row.salt, row.details) == row.digest
    except ValueError:  # the salt is no hexadecimal number any more
        return False


def _fault(kind: str, row: AuditRow, what: str) -> Fault:
    return Fault(kind=kind, number=row.number, message=f"entry {row.number} {what}")
