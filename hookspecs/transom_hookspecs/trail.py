"""The audit trail: how its entries are chained, so that whoever has them can tell that none was changed or left out.

The chain covers an entry's facts and a salted digest of its details. Details and their salt stand beside it and can be
purged by themselves; the digest stays, and without the salt nobody can find out from it what they were.
"""

import hashlib

import msgspec

from .records import AuditEntry
from .values import NEVER, JsonObject

AUDIT_RULE = 2
"""The rule by which new entries are hashed; see `audit_hash`."""

AUDIT_CUT = "audit.cut"
"""The action of the entry that vouches for what was cut off; its object is `<number>:<hash>` of the last entry that was."""

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """An audit entry where it stands in its tenant's chain.

    Parameters:
        number: counts from 1 in the tenant.
        entry: its `details` are empty when there were none, when they were purged, and when they are no JSON any more.
        previous: the hash of the entry before; empty in the first.
        rule: how `hash` is made.
        digest: the salted digest of the details, empty without; under the first rule the JSON of the details themselves.
        salt: 16 random bytes in hexadecimal; empty when there are no details (any more).
        details: the JSON text that was digested; empty when there is none (any more).
    """

    number: int
    tenant: str
    entry: AuditEntry
    previous: str
    hash: str
    rule: int = AUDIT_RULE
    digest: str = ""
    salt: str = ""
    details: str = ""

    @property
    def purged(self) -> bool:
        """Whether it had details that were purged."""
        return self.rule == AUDIT_RULE and self.digest != "" and not (self.salt or self.details)


class AuditChain(msgspec.Struct, frozen=True, kw_only=True):
    """Where a tenant's chain ends, and where what is kept of it begins.

    Parameters:
        number, hash, at: of the last entry.
        cut, cut_hash: number and hash of the last entry that was cut off at the beginning; 0 and empty when none was.
    """

    number: int
    hash: str
    at: int
    cut: int = 0
    cut_hash: str = ""


class AuditCut(msgspec.Struct, frozen=True, kw_only=True):
    """What was cut off at the beginning of a chain: how many entries, and number and hash of the last of them."""

    entries: int
    number: int
    hash: str

    def entry(self, caller: str, door: str) -> AuditEntry:
        """The entry that vouches for the cut; who cuts adds it in the same transaction."""
        details: JsonObject = {"entries": self.entries}
        return AuditEntry(action=AUDIT_CUT, caller=caller, door=door, object=f"{self.number}:{self.hash}", details=details)


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which entries of a trail are wanted; empty words want any.

    Parameters:
        since, until: times in milliseconds (Unix); `until` itself is not wanted any more.
        after, before: only entries with numbers between the two.
    """

    action: str = ""
    caller: str = ""
    object: str = ""
    since: int = 0
    until: int = NEVER
    after: int = 0
    before: int = NEVER

    def wants(self, number: int, entry: AuditEntry) -> bool:
        """Whether an entry is wanted."""
        return (
            self.after < number < self.before
            and self.since <= entry.at < self.until
            and self.action in ("", entry.action)
            and self.caller in ("", entry.caller)
            and self.object in ("", entry.object)
        )


def audit_hash(previous: str, number: int, tenant: str, entry: AuditEntry, digest: str, rule: int = AUDIT_RULE) -> str:
    """The hash of an entry that stands after `previous` in its tenant's chain.

    It is the SHA-256, in hexadecimal, of a JSON array without white space: [2, previous, number, tenant, at, action, caller,
    door, object, outcome, via, digest]. Entries of versions that knew no digest have rule 1: [previous, number, tenant,
    entry], where the entry is an object of all its fields with sorted keys, details among them. Under an unknown rule
    no hash is right, and an empty one is returned.
    """
    e = entry
    if rule == AUDIT_RULE:
        facts = [e.at, e.action, e.caller, e.door, e.object, e.outcome, e.via]
        return hashlib.sha256(_encode([AUDIT_RULE, previous, number, tenant, *facts, digest])).hexdigest()
    if rule == 1:
        fields = {name: getattr(e, name) for name in e.__struct_fields__}
        return hashlib.sha256(_encode_sorted([previous, number, tenant, fields])).hexdigest()
    return ""


def details_text(entry: AuditEntry) -> str:
    """An entry's details as JSON without white space and with sorted keys; empty when there are none."""
    return _encode_sorted(entry.details).decode() if entry.details else ""


def details_digest(salt: str, details: str) -> str:
    """The SHA-256, in hexadecimal, of a salt's bytes and the details' text; empty without details."""
    return hashlib.sha256(bytes.fromhex(salt) + details.encode()).hexdigest() if details else ""


_encode = msgspec.json.Encoder().encode

__all__ = [
    "AUDIT_CUT",
    "AUDIT_RULE",
    "AuditChain",
    "AuditCut",
    "AuditFilter",
    "AuditRow",
    "audit_hash",
    "details_digest",
    "details_text",
]
