"""Waits: something stops until a person decides. How one opens, who may decide it, and how people see it.

The rule is taken down when the wait opens; who has a role is asked when it is decided.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from transom_hookspecs import (
    Access,
    Caller,
    Job,
    Json,
    JsonObject,
    Rule,
    Step,
    TransomError,
    Vote,
    Wait,
    WaitKind,
    WaitOpened,
    WaitView,
)

from . import ids, schemas
from .operations import OperationCall, authorize

if TYPE_CHECKING:
    from .core import Core

RESTART_CHOICES = ("done", "again", "fail")


def make_token(secret: bytes, wait: str, arguments: Json, rule: Rule) -> str:
    """What an answer names: covers the wait, its whole arguments and its rule."""
    covered = schemas.canonical([wait, arguments, msgspec.to_builtins(rule)])
    mac = hmac.new(secret, covered, hashlib.sha256).digest()
    return "ozi1." + base64.urlsafe_b64encode(mac).rstrip(b"=").decode()


def make_wait(
    core: "Core",
    tenant: str,
    job: Job,
    step: Step,
    *,
    kind: WaitKind,
    message: str,
    rule: Rule,
    arguments: Json = None,
    shown: Json = None,
    schema: JsonObject | None = None,
    choices: Sequence[str] = (),
    seconds: float | None = None,
) -> Wait:
    """A wait for a person, not yet written; `seconds` until it is declined, else what the tenant's admins set."""
    now = core.clock.now()
    identity = ids.new_id("wait")
    return Wait(
        id=identity,
        job=job.id,
        tree=job.tree,
        step=step.key,
        agent=job.agent,
        kind=kind,
        token=make_token(core.secret, identity, arguments, rule),
        rule=rule,
        opened_at=now,
        expires_at=now + int((core.settings(tenant).wait_seconds if seconds is None else seconds) * 1000),
        starter=starter_of(job.caller),
        message=message,
        function=step.name if step.kind == "call" else "",
        call=step.call,
        arguments=arguments,
        shown=shown,
        schema=schema if schema is not None else answer_schema(kind, rule, choices),
        choices=tuple(choices),
    )


def starter_of(caller: Caller) -> str:
    """Who counts as the one who started a job: the person, whatever app she used."""
    return f"{caller.kind}:{caller.id}"


def answer_schema(kind: WaitKind, rule: Rule, choices: Sequence[str]) -> JsonObject:
    """The schema of an answer: what a client shows as a form."""
    comment: JsonObject = {"type": "string"}
    if kind == "question":
        answer: JsonObject = {"type": "string"}
        if choices:
            answer["enum"] = list(choices)
        return {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}
    if kind == "restart":
        properties: JsonObject = {"answer": {"type": "string", "enum": list(RESTART_CHOICES)}, "result": {}, "comment": comment}
        return {"type": "object", "properties": properties, "required": ["answer"]}
    properties = {"approved": {"type": "boolean"}, "comment": comment}
    required: list[Json] = ["approved"]
    if rule.typed:
        properties["confirm"] = {"type": "string"}
    return {"type": "object", "properties": properties, "required": required}


def opened(wait: Wait) -> WaitOpened:
    """The log's word of a new wait."""
    return WaitOpened(
        job=wait.job,
        wait=wait.id,
        kind=wait.kind,
        token=wait.token,
        expires=wait.expires_at,
        message=wait.message,
        call=wait.call,
        function=wait.function,
        shown=wait.shown,
        schema=wait.schema,
        choices=wait.choices,
        rule=wait.rule,
    )


async def find(call: OperationCall, name: str, permission: str) -> tuple[Wait, Job]:
    """A wait by its ID or its token, and its job; for who may see the job, and wants to do something with it.

    Raises:
        TransomError: not_found; permission_denied, in the same words whether it is there or not.
    """
    store, tenant = call.core.store, call.origin.tenant
    wait = await store.get(tenant, Wait, name)
    if wait is None and name.startswith("ozi1."):
        wait = next(iter(await store.select(tenant, Wait, "token", {"token": name}, limit=1)), None)
    job = await store.get(tenant, Job, wait.job) if wait is not None else None
    await call.require_sight(permission, name, job)
    if wait is None or job is None:
        raise TransomError("not_found", f"there is no wait {name!r} here")
    return wait, job


async def may_decide(core: "Core", tenant: str, caller: Caller, wait: Wait, job: Job, *, yes: bool = True) -> str:
    """Why a yes (or a no) of this caller's would not count; empty when it would."""
    rule = wait.rule
    is_starter = starter_of(caller) == wait.starter
    if rule.four_eyes and is_starter and yes:
        return "another person must decide (four eyes)"
    if rule.four_eyes and yes and not caller.is_person:
        return "a person must decide (four eyes)"
    if rule.count > 1 and not caller.is_person and (yes or not rule.veto):
        return f"{rule.count} people must decide; nobody else's word counts"
    if rule.confirm and not is_starter:
        return "only the person who started the job confirms this"
    if wait.kind == "outputs" and yes and (wait.shown is None or not (await content_of(core, tenant, caller, job)).allowed):
        return "outputs are approved only by who is shown what waits"
    permission = "jobs.answer" if wait.kind == "question" else "jobs.decide"
    access = Access(caller=caller, tenant=tenant, permission=permission, object=wait.id, job=job, rule=rule)
    verdict = await authorize(core, access)
    return "" if verdict.ruling == "allow" else (verdict.reason or "not permitted")


async def no_longer_deciders(core: "Core", tenant: str, wait: Wait, job: Job) -> frozenset[str]:
    """Those who voted and may not decide any more: their votes do not count."""
    lost = set()
    for vote in wait.votes:
        kind, _, name = vote.by.partition(":")
        voter = msgspec.convert({"kind": kind, "id": name, "tenant": tenant, "via": vote.via}, Caller)
        if await may_decide(core, tenant, voter, wait, job, yes=vote.approved):
            lost.add(vote.by)
    return frozenset(lost)


class Sight(msgspec.Struct, frozen=True):
    """Whether a caller may read a job's content, and the label under which a data rule withholds it, if one does."""

    allowed: bool
    label: str


async def content_of(core: "Core", tenant: str, caller: Caller, job: Job) -> Sight:
    """What a caller may read of a job."""
    access = Access(caller=caller, tenant=tenant, permission="content.read", object=job.id, job=job)
    verdict = await authorize(core, access)
    return Sight(verdict.ruling == "allow", verdict.label)


def name_for(core: "Core", tenant: str, caller: Caller, name: str) -> str:
    """A principal's name as lists show it to a caller: nobody's but its own, where the tenant keeps people's names."""
    hidden = core.settings(tenant).works_council and name.startswith("person:")
    return "" if hidden and name.partition("@")[0] != starter_of(caller) else name


def vote_for(core: "Core", tenant: str, caller: Caller, vote: Vote, *, content: bool) -> Vote:
    """A vote as a caller sees it."""
    by = name_for(core, tenant, caller, vote.by)
    via, comment = (vote.via, vote.comment if content else "") if by else ("", "")
    return msgspec.structs.replace(vote, by=by, via=via, comment=comment)


async def view(core: "Core", tenant: str, caller: Caller, wait: Wait, job: Job) -> WaitView:
    """A wait as this caller sees it."""
    sight = await content_of(core, tenant, caller, job)
    content = sight.allowed
    return WaitView(
        id=wait.id,
        tenant=tenant,
        job=wait.job,
        tree=wait.tree,
        agent=wait.agent,
        kind=wait.kind,
        token=wait.token,
        message=wait.message if content else "",
        opened_at=wait.opened_at,
        expires_at=wait.expires_at,
        rule=wait.rule,
        can_decide=not await may_decide(core, tenant, caller, wait, job),
        starter=name_for(core, tenant, caller, wait.starter),
        function=wait.function,
        call=wait.call,
        shown=wait.shown if content else None,
        schema=wait.schema if content else {},
        choices=wait.choices if content else (),
        votes=tuple(vote_for(core, tenant, caller, vote, content=content) for vote in wait.votes),
        redacted=sight.label,
    )
