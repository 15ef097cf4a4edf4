"""Tenants, and who belongs to them: the services that an identity plugin offers the kernel, doors and policy."""

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from .callers import Caller

Role = Literal["reader", "member", "operator", "admin"]
"""From the least to the most; who has one has all before it."""


class TenantSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tenant's admins set.

    Parameters:
        ai_label: what answers of agents are marked with; empty turns it off.
        retention_days: how long the content of ended jobs is kept, and their IDs stay taken.
        audit_days: how long entries of the audit trail are kept.
        allowed_origins: origins (`https://app.example`) whose pages may read streams.
        works_council: lists and figures name nobody but the caller; the audit trail does, to its auditors.
        public_url: where people reach the console, for links; empty when there is none.
        link_domains: hosts that links of cards and notes may lead to.
        time_zone: an IANA name; days of quotas begin at its midnight.
        wait_seconds: how long an unanswered wait stays open.
        recheck_seconds: how long after a wait opened a yes is checked against policy once more.
    """

    ai_label: str = "AI"
    retention_days: int = 90
    audit_days: int = 400
    allowed_origins: tuple[str, ...] = ()
    works_council: bool = False
    public_url: str = ""
    link_domains: tuple[str, ...] = ()
    time_zone: str = "UTC"
    wait_seconds: int = 86_400
    recheck_seconds: int = 900


@runtime_checkable
class Tenants(Protocol):
    """The tenants beside those of transom.toml, and the settings of all, from memory."""

    def names(self) -> Sequence[str]:
        """The names of the tenants that were made; those of transom.toml are there anyway."""

    def settings(self, tenant: str) -> TenantSettings:
        """What its admins set; the defaults for a tenant that nobody set anything for."""


class Member(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tenant knows of a caller now, however it was authenticated.

    Parameters:
        role: None for who has no role here (an app by itself, a subject).
        teams: the names of the teams it is in.
        content: whether it may read content; None goes by the role: members and above may.
        rights: permissions given apart from the role (`audit.read`, `feeds.read`); `-feeds.read` takes one away.
        scopes: the agents that it reaches now; None means no such limit.
    """

    role: Role | None = None
    teams: tuple[str, ...] = ()
    content: bool | None = None
    rights: tuple[str, ...] = ()
    scopes: tuple[str, ...] | None = None


@runtime_checkable
class Directory(Protocol):
    """Who belongs to a tenant."""

    async def member(self, caller: Caller, tenant: str) -> Member | None:
        """What the tenant knows of a caller; None when it is not of this tenant, was revoked or is gone."""

    async def has_team(self, tenant: str, team: str) -> bool:
        """Whether the tenant has such a team."""
