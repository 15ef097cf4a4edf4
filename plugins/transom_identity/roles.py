"""What each role may do: one table, and how an access is judged by it."""

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

import msgspec

from transom_hookspecs import Access, Caller, Verdict

Role = Literal["reader", "member", "operator", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""From the least to the most; who has one has all before it."""

Reach = Literal["any", "own"]
"""How far a permission goes: to every job of the tenant, or to those that the caller started."""

_READER: dict[str, Reach] = {"jobs.read": "any", "catalog.read": "any", "feeds.read": "any"}
_MEMBER: dict[str, Reach] = _READER | {
    "jobs.start": "any",
    "content.read": "any",
    "jobs.cancel": "own",
    "jobs.decide": "own",
    "jobs.answer": "own",
}
_OPERATOR: dict[str, Reach] = _MEMBER | {
    "jobs.cancel": "any",
    "jobs.decide": "any",
    "jobs.answer": "any",
    "jobs.tag": "any",
    "jobs.edit": "any",
    "events.publish": "any",
}
TABLE: Mapping[Role, Mapping[str, Reach]] = {
    "reader": _READER,
    "member": _MEMBER,
    "operator": _OPERATOR,
    "admin": {"*": "any"},
}
"""Role → permission → reach; `*` is every permission. `content.read` is granted apart, see `Member.content`."""

_NAMES_AGENTS = ("jobs.start", "catalog.read")
"""The permissions whose object is an agent's name; that of all others is something with a job."""

_ALLOW = Verdict(ruling="allow")


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A caller and its rights. `content`: whether it may read content; None goes by the role."""

    caller: Caller
    role: Role
    content: bool | None = None

    @property
    def reads_content(self) -> bool:
        """Whether it may read what jobs read and wrote."""
        return self.role != "reader" if self.content is None else self.content


def judge(access: Access, member: Member | None) -> Verdict | None:
    """Judge an access. One that names neither object nor job asks whether the caller could at all.

    Parameters:
        member: what is known of the caller; None when nothing is.

    Returns:
        Allow or deny; None about callers that are not known here.
    """
    caller = access.caller
    if caller.kind in ("operator", "system") and not caller.tenant:
        return _ALLOW
    if member is None:
        return None
    if caller.tenant != access.tenant:
        return _deny("the caller belongs to another tenant")
    for scopes in (caller.scopes, member.caller.scopes):
        if scopes is not None and not _in_scope(access, scopes):
            return _deny("the key's scopes do not reach this")
    return _by_role(access, member)


def _in_scope(access: Access, scopes: Iterable[str]) -> bool:
    if access.parent is not None:
        return access.parent.agent in scopes  # what an agent in reach delegates to is the agent's affair
    if access.permission in _NAMES_AGENTS and access.object:
        return access.object in scopes
    if access.job is not None:
        return access.job.agent in scopes
    return not access.object


def _by_role(access: Access, member: Member) -> Verdict:
    row = TABLE[member.role]
    reach = row.get(access.permission) or row.get("*")
    if access.permission == "content.read":
        return _ALLOW if member.reads_content else _deny("the permission to read content is missing")
    if reach is None:
        return _deny(f"the role {member.role!r} has no permission {access.permission!r}")
    if access.permission in ("jobs.decide", "jobs.answer"):
        return _by_rule(access, member, reach)
    if reach == "own" and not _is_own(access):
        return _deny(f"the role {member.role!r} has {access.permission!r} only for jobs that the caller started")
    return _ALLOW


def _by_rule(access: Access, member: Member, reach: Reach) -> Verdict:
    """Deciding: where the wait names deciders only they may, and an answer needs the permission to read content.

    Four eyes are left to the kernel, which knows whether it is a yes or a no.
    """
    if access.permission == "jobs.answer" and not member.reads_content:
        return _deny("an answer needs the permission to read content")
    if access.rule is not None and access.rule.deciders:
        return _ALLOW if _named(member, access.rule.deciders) else _deny("the wait names others to decide")
    if reach == "any" or (access.rule is None and access.job is None and not access.object):
        return _ALLOW
    starters_turn = access.permission == "jobs.answer" or (access.rule is not None and access.rule.confirm)
    return _ALLOW if starters_turn and _is_own(access) else _deny("an operator or an admin decides this")


def _is_own(access: Access) -> bool:
    """Whether the caller started the job; a person is the same whichever app acts for her."""
    if access.job is None:
        return not access.object
    starter, caller = access.job.caller, access.caller
    return (starter.kind, starter.id, starter.tenant) == (caller.kind, caller.id, caller.tenant)


def _named(member: Member, deciders: Iterable[str]) -> bool:
    held = {f"role:{role}" for role in ROLES[: ROLES.index(member.role) + 1]}
    if member.caller.is_person:
        held.add(f"person:{member.caller.id}")
    return not held.isdisjoint(deciders)


def _deny(reason: str) -> Verdict:
    return Verdict(ruling="deny", reason=reason)
