"""How an access is judged.

The rules are asked in this order, and the first that has a say decides: another tenant, a kill switch or a retired agent,
the operator of the process, scopes, what apps may not do, walls, what was taken away from the caller, grants of agents,
what was given apart, and last the role.
"""

from collections.abc import Iterable

from transom_hookspecs import Access, Caller, Job, Member, Verdict

from .book import Book
from .table import ABOUT_AGENTS, BY_ROLE, HELD, KNOWN, NAMES_AGENTS, Reach, reach

OPERATOR = Verdict(ruling="allow", by="operator")
GRANT = Verdict(ruling="allow", by="grant")
RIGHT = Verdict(ruling="allow", by="right")
NAMED = Verdict(ruling="allow", by="rule")
CONTENT = Verdict(ruling="allow", by="content")
NEED_CONTENT = frozenset({"content.read", "jobs.answer", "jobs.edit"})
"""What a wall, or no permission to read content, refuses."""


def judge(access: Access, member: Member | None, book: Book, *, works_council: bool = False) -> Verdict | None:
    """Judge an access. One that names neither object nor job asks whether the caller could at all.

    Parameters:
        member: what the tenant knows of the caller; None when nothing.
        works_council: whether names are kept from lists, and the audit trail for its auditors.

    Returns:
        Allow or deny; None of a caller that is not known here.
    """
    caller = access.caller
    if caller.tenant and caller.tenant != access.tenant:
        return deny("tenant", "the caller belongs to another tenant")
    if access.permission in ("jobs.start", "jobs.continue") and (stopped := _stopped(access, book)) is not None:
        return stopped
    if caller.kind in ("operator", "system") and not caller.tenant:
        return OPERATOR
    if member is None:
        return None
    return _limits(access, member) or _member(access, member, book, works_council=works_council)


def _limits(access: Access, member: Member) -> Verdict | None:
    """What a caller's credential keeps it from, whatever its rights: scopes, and acting through an app."""
    for scopes in (access.caller.scopes, member.scopes):
        if scopes is not None and not _in_scope(access, scopes):
            return deny("scope", "the key's scopes do not reach this")
    if access.caller.via.startswith("app:") and access.permission not in ABOUT_AGENTS:
        return deny("app", "an app acts for a person in jobs, not in what the tenant sets")
    return None


def _stopped(access: Access, book: Book) -> Verdict | None:
    """A kill switch, or an agent that is retired. Nobody is exempt."""
    if (rule := book.stopped(access.object)) is not None:
        what = "every agent here" if rule.agent == "*" else f"agent {rule.agent!r}"
        return deny("kill-switch", f"{what} is disabled{_because(rule.reason)}")
    rule = book.agent(access.object)
    if rule.state == "retired" and access.permission == "jobs.start":
        return deny("retired", f"agent {rule.agent!r} is retired{_because(rule.reason)}")
    return None


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _in_scope(access: Access, scopes: Iterable[str]) -> bool:
    if access.permission not in ABOUT_AGENTS:
        return False
    if access.permission in NAMES_AGENTS and access.object:
        return access.object in scopes
    if access.job is not None:
        return access.job.agent in scopes
    return not access.object


def whose(caller: Caller, teams: Iterable[str]) -> frozenset[str]:
    """The words by which rules name a caller: `person:anna`, and `team:…` of each of its teams."""
    return frozenset((f"{caller.kind}:{caller.id}", *(f"team:{team}" for team in teams)))


def _member(access: Access, member: Member, book: Book, *, works_council: bool) -> Verdict:
    permission = access.permission
    if access.job is not None and permission in NEED_CONTENT:
        found = book.wall(access.job, whose(access.caller, member.teams))
        if found is not None:
            wall, label = found
            return Verdict(ruling="deny", reason=f"withheld under {label!r}", by=f"wall:{wall.name}", label=label)
    if f"-{permission}" in member.rights:
        return deny("right", f"the permission {permission!r} was taken away")
    if permission in ("jobs.start", "jobs.continue"):
        return _start(access, member, book)
    if permission == "content.read":
        return CONTENT if reads_content(member) else deny("content", "the permission to read content is missing")
    return _by_right(access, member) or _by_role(access, member, works_council=works_council)


def reads_content(member: Member) -> bool:
    """Whether a member may read what jobs read and wrote: as it was set, or from the role `member` on."""
    if "content.read" in member.rights:
        return True
    return member.role not in (None, "reader") if member.content is None else member.content


def _start(access: Access, member: Member, book: Book) -> Verdict:
    """Starting an agent, and going on with its job: by role, or by a grant; some agents by a grant alone."""
    only = bool(access.object) and book.agent(access.object).granted_only
    if not only and member.role is not None and reach(member.role, "jobs.start"):
        return BY_ROLE[member.role]
    if book.granted(access.object, whose(access.caller, member.teams)):
        return GRANT
    if only:
        return deny("grant", f"agent {access.object!r} may be started only by those whom it was granted to")
    return RIGHT if "jobs.start" in member.rights else _lacks(member, access.permission)


def _by_right(access: Access, member: Member) -> Verdict | None:
    """What was given apart from the role; to who has no role, only for its own jobs."""
    if access.permission not in member.rights:
        return None
    if access.permission in ("jobs.decide", "jobs.answer"):
        return _by_rule(access, member, "any" if member.role else "own")
    if member.role is None and KNOWN.get(access.permission, _OTHER).about_agents and not is_own(access):
        return deny("right", f"{access.permission!r} was given only for jobs that the caller started")
    return RIGHT


_OTHER = KNOWN["policy.manage"]


def _by_role(access: Access, member: Member, *, works_council: bool) -> Verdict:
    permission = access.permission
    found = reach(member.role, permission) if member.role is not None else None
    if works_council and permission == "audit.read":
        return deny("works-council", "in works-council mode only its auditors read the audit trail")
    if found is None or member.role is None:
        return _lacks(member, permission)
    if permission in ("jobs.decide", "jobs.answer"):
        return _by_rule(access, member, found)
    if permission == "jobs.edit" and not reads_content(member):
        return deny("content", "changing arguments needs the permission to read content")
    named = permission == "jobs.edit" and access.rule is not None and bool(access.rule.deciders)
    if found == "own" and not named and not is_own(access):
        return deny(f"role:{member.role}", f"the role {member.role!r} has {permission!r} only for jobs that the caller started")
    return BY_ROLE[member.role]


def _lacks(member: Member, permission: str) -> Verdict:
    if member.role is None:
        return deny("role", f"the caller has no role here, and was not given {permission!r}")
    return deny(f"role:{member.role}", f"the role {member.role!r} has no permission {permission!r}")


def _by_rule(access: Access, member: Member, found: Reach) -> Verdict:
    """Deciding: where the wait names deciders only they may, and an answer needs the permission to read content.

    Four eyes are left to the kernel, which knows whether it is a yes or a no.
    """
    if access.permission == "jobs.answer" and not reads_content(member):
        return deny("content", "an answer needs the permission to read content")
    if access.rule is not None and access.rule.deciders:
        return NAMED if _named(access.caller, member, access.rule.deciders) else deny("rule", "the wait names others to decide")
    if found == "any" or (access.rule is None and access.job is None and not access.object):
        return BY_ROLE[member.role] if member.role is not None else RIGHT
    starters_turn = access.permission == "jobs.answer" or (access.rule is not None and access.rule.confirm)
    if starters_turn and is_own(access):
        return BY_ROLE[member.role] if member.role is not None else RIGHT
    return deny("rule", "an operator or an admin decides this")


def is_own(access: Access) -> bool:
    """Whether the caller started the job; a person is the same whichever app acts for her."""
    return not access.object if access.job is None else started_by(access.job, access.caller)


def started_by(job: Job, caller: Caller) -> bool:
    """Whether a job is this caller's."""
    starter = job.caller
    return (starter.kind, starter.id, starter.tenant) == (caller.kind, caller.id, caller.tenant)


def _named(caller: Caller, member: Member, deciders: Iterable[str]) -> bool:
    held = set(whose(caller, member.teams))
    if member.role is not None:
        held.update(f"role:{role}" for role in HELD[member.role])
    return not held.isdisjoint(deciders)


def deny(by: str, reason: str) -> Verdict:
    """A refusal, by a rule and in words."""
    return Verdict(ruling="deny", reason=reason, by=by)
