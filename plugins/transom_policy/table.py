"""The table of permissions: what each is, how far it reaches, and from which role on it is held."""

from collections.abc import Mapping
from typing import Literal, get_args

import msgspec

from transom_hookspecs import Role, Verdict

ROLES: tuple[Role, ...] = get_args(Role)
"""From the least to the most; who has one has all before it."""

Reach = Literal["any", "own"]
"""How far a permission goes: to every job of the tenant, or to those that the caller started."""


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table.

    Parameters:
        what: in words, what it lets one do.
        role: from this role on it is held; None means that it is given apart.
        own: from this lower role on it is held for jobs that the caller started.
        about_agents: what keys that are limited to agents, and apps that act for a person, may be given.
    """

    name: str
    what: str
    role: Role | None
    own: Role | None = None
    about_agents: bool = False


def _row(name: str, what: str, role: Role | None, own: Role | None = None, *, about_agents: bool = False) -> Permission:
    return Permission(name=name, what=what, role=role, own=own, about_agents=about_agents)


PERMISSIONS: tuple[Permission, ...] = (
    _row("jobs.read", "see jobs, their steps, waits and boards, without content", "reader", about_agents=True),
    _row("catalog.read", "see agents and flows", "reader", about_agents=True),
    _row("feeds.read", "follow jobs as they run", "reader", about_agents=True),
    _row("content.read", "read inputs, answers, notes and what waits", "member", about_agents=True),
    _row("jobs.start", "start agents and flows that are not kept for those who were granted them", "member", about_agents=True),
    _row("jobs.continue", "have one's jobs take their next step", "member", about_agents=True),
    _row("jobs.cancel", "cancel jobs", "operator", own="member", about_agents=True),
    _row("jobs.answer", "answer questions", "operator", own="member", about_agents=True),
    _row("jobs.decide", "approve and deny; where a wait names deciders, they do", "operator", own="member", about_agents=True),
    _row("jobs.edit", "change arguments that wait, where the caller decides them", "operator", own="member", about_agents=True),
    _row("jobs.tag", "tag jobs", "operator", about_agents=True),
    _row("conversations.continue", "go on with conversations of others", "admin", about_agents=True),
    _row("events.publish", "tell of outside events", "operator"),
    _row("agents.manage", "disable, enable and retire agents", "operator"),
    _row("policy.read", "see the rules, and have decisions explained", "operator"),
    _row("policy.manage", "set the tool policy, walls, and what tainted jobs may send", "admin"),
    _row("grants.manage", "grant agents to people, teams and keys", "admin"),
    _row("audit.read", "read the audit trail; in works-council mode only when given apart", "admin"),
    _row("retention.run", "purge content that is due", "admin"),
    _row("secrets.read", "see which secrets there are", "operator"),
    _row("secrets.manage", "set and delete secrets", "admin"),
    _row("secrets.allow", "let a local tool have a secret's value", "operator"),
    _row("spend.read", "see everybody's quotas and budgets", "operator"),
    _row("spend.manage", "set quotas, budgets and prices", "admin"),
    _row("tenants.read", "see the tenant's settings", "operator"),
    _row("tenants.manage", "change the tenant's settings", "admin"),
    _row("people.read", "see people and teams", "operator"),
    _row("people.manage", "add, change and disable people", "admin"),
    _row("teams.manage", "set teams and who is in them", "admin"),
    _row("keys.manage", "make, change and revoke API keys", "admin"),
    _row("apps.manage", "register apps", "admin"),
    _row("capability.subjects", "make tokens for an app's own users; for API keys", None, about_agents=True),
    _row("sessions.manage", "see and end sessions", "admin"),
)  # fmt: skip
"""Every permission that is known by name. What else plugins ask for is held by admins alone."""

KNOWN: Mapping[str, Permission] = {row.name: row for row in PERMISSIONS}
ABOUT_AGENTS: frozenset[str] = frozenset(row.name for row in PERMISSIONS if row.about_agents)
NAMES_AGENTS: frozenset[str] = frozenset({"jobs.start", "jobs.continue", "catalog.read"})
"""The permissions whose object is an agent's name; that of all others is something with a job."""

HELD: Mapping[Role, frozenset[str]] = {role: frozenset(ROLES[: i + 1]) for i, role in enumerate(ROLES)}
"""Each role, and those that who has it has as well."""

BY_ROLE: Mapping[Role, Verdict] = {role: Verdict(ruling="allow", by=f"role:{role}") for role in ROLES}


def reach(role: Role, permission: str) -> Reach | None:
    """How far a role's permission goes; None when it does not have it."""
    return _REACH[role].get(permission, "any" if role == "admin" and permission not in KNOWN else None)


def _reach(role: Role, row: Permission) -> Reach | None:
    if row.role in HELD[role]:
        return "any"
    return "own" if row.own in HELD[role] else None


_REACH: Mapping[Role, Mapping[str, Reach]] = {
    role: {row.name: found for row in PERMISSIONS if (found := _reach(role, row)) is not None} for role in ROLES
}
