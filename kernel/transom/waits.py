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
    Store,
    TransomError,
    Wait,
    WaitKind,
    WaitOpened,
    WaitView,
)

from . import ids, schemas
from .operations import authorize

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
    """A wait for a person, not yet written."""
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
        expires_at=now + int((core.config.limits.wait if seconds is None else seconds) * 1000),
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


async def find(store: Store, tenant: str, name: str) -> Wait:
    """A wait by its ID or its token.

    Raises:
        TransomError: not_found.
    """
    wait = await store.get(tenant, Wait, name)
    if wait is None and name.startswith("ozi1."):
        wait = next(iter(await store.select(tenant, Wait, "token", {"token": name}, limit=1)), None)
    if wait is None:
        raise TransomError("not_found", f"there is no wait {name!r} here")
    return wait


async def may_decide(core: "Core", tenant: str, caller: Caller, wait: Wait, job: Job, *, yes: bool = True) -> str:
    """Why a yes (or a no) of this caller's would not count; empty when it would."""
    rule = wait.rule
    is_starter = starter_of(caller) == wait.starter
    if rule.four_eyes and is_starter and yes:
        return "another person must decide (four eyes)"
    if rule.confirm and not is_starter:
        return "only the person who started the job confirms this"
    permission = "jobs.answer" if wait.kind == "question" else "jobs.decide"
    access = Access(caller=caller, tenant=tenant, permission=permission, object=wait.id, job=job, rule=rule)
    verdict = await authorize(core, access)
    return "" if verdict.ruling == "allow" else (verdict.reason or "not permitted")


async def view(core: "Core", tenant: str, caller: Caller, wait: Wait, job: Job) -> WaitView:
    """A wait as this caller sees it."""
    access = Access(caller=caller, tenant=tenant, permission="content.read", object=job.id, job=job)
    content = (await authorize(core, access)).ruling == "allow"
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
        starter=wait.starter,
        function=wait.function,
        call=wait.call,
        shown=wait.shown if content else None,
        schema=wait.schema if content else {},
        choices=wait.choices if content else (),
        votes=wait.votes if content else tuple(msgspec.structs.replace(v, comment="") for v in wait.votes),
    )
