"""Who calls: the result of `authenticate`, and where a call came in."""

from typing import Literal

import msgspec

CallerKind = Literal["person", "subject", "key", "service", "operator", "system"]


class Caller(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who acts. Rights are no part of it: they are asked anew at each check.

    Parameters:
        kind: person (also when an app acts for one), subject, key, service, operator or system (the runtime itself).
        id: unique in tenant and kind.
        tenant: where the caller belongs; `""` for an operator and the system, who belong nowhere.
        via: the app or session that acts for a person (`app:desk`), else empty.
        label: what an API key puts on all that it creates.
        scopes: the agents and flows it may reach; None means no such limit.
    """

    kind: CallerKind
    id: str
    tenant: str = ""
    via: str = ""
    label: str = ""
    scopes: tuple[str, ...] | None = None

    @property
    def principal(self) -> str:
        """The identity that retries are compared by: `person:anna`, with its app `person:anna@app:desk`."""
        return f"{self.kind}:{self.id}@{self.via}" if self.via.startswith("app:") else f"{self.kind}:{self.id}"

    @property
    def is_person(self) -> bool:
        """Whether a human being acts, herself or through an app."""
        return self.kind == "person"


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where an operation's call came from.

    Parameters:
        tenant: the tenant that the call is about.
        caller: who calls.
        door: the door's name, as the audit trail shows it (`rest`, `agui`, `cli`).
        key: the Idempotency-Key, 1–128 visible ASCII characters, or empty.
        taint: why what comes through this door is outside input (`agui`, `mcp`, `webhook`), or empty.
    """

    tenant: str
    caller: Caller
    door: str
    key: str = ""
    taint: str = ""
