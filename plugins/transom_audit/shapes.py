"""What the operations of the audit trail take and answer."""

import msgspec

from transom_hookspecs import JsonObject


class ListAudit(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of the audit trail, newest first. Reading them is an entry, too.

    Parameters:
        action: only entries of an action, such as `run.start`.
        caller: only of a caller, such as `person:anna`.
        object: only about a job's ID, an agent's name, …
        since, until: only from a time on, and before one: RFC 3339, a date alone is its beginning (UTC).
        limit: 1 to 200.
        cursor: from the last page.
    """

    action: str = ""
    caller: str = ""
    object: str = ""
    since: str = ""
    until: str = ""
    limit: int = 50
    cursor: str = ""


class AuditView(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as people see it.

    Parameters:
        at: in milliseconds (Unix).
        details: None when they were purged.
    """

    number: int
    at: int
    action: str
    caller: str
    door: str
    object: str
    outcome: str
    via: str
    details: JsonObject | None


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """Entries, newest first. A page may have fewer than asked for, or none, and a cursor: there may be more after it."""

    entries: tuple[AuditView, ...]
    cursor: str = ""


class ExportAudit(msgspec.Struct, frozen=True, kw_only=True):
    """The whole audit trail, oldest first, with what is needed to verify it elsewhere.

    Parameters:
        limit: 1 to 5000.
        cursor: from the last page.
    """

    limit: int = 1_000
    cursor: str = ""


class AuditExport(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the trail.

    Parameters:
        lines: one JSON object an entry, an `AuditLine`.
        cursor: empty on the last page.
    """

    lines: tuple[str, ...]
    cursor: str = ""


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as it is exported.

    Parameters:
        rule: how `hash` was made; see the documentation of the audit trail.
        details: the JSON text that was digested with the salt; both are empty without details, or when they were purged.
    """

    number: int
    tenant: str
    at: int
    action: str
    caller: str
    door: str
    object: str
    outcome: str
    via: str
    rule: int
    previous: str
    digest: str
    hash: str
    salt: str
    details: str


class VerifyAudit(msgspec.Struct, frozen=True, kw_only=True):
    """Check that nothing in the audit trail was changed, taken out or cut off; fails with the first fault."""


class AuditVerified(msgspec.Struct, frozen=True, kw_only=True):
    """The audit trail is whole.

    Parameters:
        entries: how many were checked.
        cut: the number of the last entry that retention cut off before them.
        number, hash, at: of the last entry.
        head_file: whether `audit.head` of the data folder agreed; there is none before its first second.
    """

    entries: int
    cut: int
    number: int
    hash: str
    at: int
    head_file: bool
