"""Decisions: how a wait for a person is decided, declined by time, or changed.

A decision is checked, recorded, audited, and wakes the job, in one transaction; the first one stands.
"""

from typing import TYPE_CHECKING, cast

import msgspec

from transom_hookspecs import (
    AuditEntry,
    CallEnded,
    Caller,
    DecideApproval,
    Decided,
    EditWait,
    ErrorInfo,
    Job,
    Json,
    JsonObject,
    ListApprovals,
    Outcome,
    Step,
    ToolUse,
    TransomError,
    Vote,
    Wait,
    WaitDecided,
    WaitEdited,
    WaitPage,
    WaitView,
    WaitVoted,
)

from . import schemas
from .operations import OperationCall
from .tree import TreeWork
from .waits import RESTART_CHOICES, find, make_token, may_decide, view

if TYPE_CHECKING:
    from .core import Core

SYSTEM_EXPIRY = "system:expiry"
MOST_OPEN = 10_000
"""Open waits that are looked through for those that a caller may see."""


async def decide(call: OperationCall, request: DecideApproval) -> Decided:
    """Decide a wait; the first decision stands, and the same one again is answered as it was made."""
    core, tenant, caller = call.core, call.origin.tenant, call.origin.caller
    wait = await find(core.store, tenant, request.wait)
    job = await core.store.get(tenant, Job, wait.job)
    if job is None:
        raise TransomError("not_found", f"there is no wait {request.wait!r} here")
    if wait.open and core.clock.now() >= wait.expires_at:
        await expire(core, tenant, wait)
        wait = await find(core.store, tenant, wait.id)
    if why := await may_decide(core, tenant, caller, wait, job, yes=request.approved is not False):
        raise TransomError("permission_denied", f"wait {wait.id}: {why}", {"reason": "not_a_decider", "wait": wait.id})
    if not wait.open:
        return decided_before(wait, request, caller)
    check_request(wait, request)
    request = filtered(core, job, tenant, request)
    verdict = Choice.of(wait, request, core)
    try:
        return await call.transact(
            lambda tx: apply(TreeWork(tx, wait.tree), wait, verdict, caller, request),
            object=wait.job,
            details={"wait": wait.id, "kind": wait.kind, "function": wait.function, "outcome": verdict.outcome},
        )
    except AlreadyOver as over:
        return decided_before(over.wait, request, caller)


class AlreadyOver(Exception):
    """The wait was decided between the look at it and the transaction."""

    def __init__(self, wait: Wait) -> None:
        super().__init__(wait.id)
        self.wait = wait


def filtered(core: "Core", job: Job, tenant: str, request: DecideApproval) -> DecideApproval:
    """The person's words as they are recorded."""
    filters = core.filters_for(job, tenant)
    answer, comment = filters.value("person", request.answer), filters.text("person", request.comment)
    return msgspec.structs.replace(request, answer=answer, comment=comment)


def decided_before(wait: Wait, request: DecideApproval, caller: Caller) -> Decided:
    """The answer to a decision of a wait that is over: as made, or a conflict with how it came out."""
    by = f"{caller.kind}:{caller.id}"
    same = wait.answer == request.answer if request.approved is None else (wait.outcome == "approved") == request.approved
    if wait.decided_by == by and same:
        return Decided(wait=wait.id, job=wait.job, result="already_decided", outcome=wait.outcome or "", by=wait.decided_by)
    raise TransomError(
        "aborted",
        f"wait {wait.id} is already over: {wait.outcome} by {wait.decided_by}",
        {"reason": "already_decided", "wait": wait.id, "outcome": wait.outcome or "", "by": wait.decided_by},
    )


def check_request(wait: Wait, request: DecideApproval) -> None:
    """What can be said of a request without anybody's rights: shown, typed, schema, choice."""
    if request.token and request.token != wait.token:
        raise TransomError(
            "failed_precondition",
            f"wait {wait.id} changed since it was shown; look at it again",
            {"reason": "interrupt_changed", "wait": wait.id},
        )
    answering = wait.kind in ("question", "restart")
    if wait.kind == "question" and request.approved:
        raise TransomError("invalid_argument", f"wait {wait.id} is a question: answer it, or decline it by a no")
    if request.approved is None and not answering:
        raise TransomError("invalid_argument", f"wait {wait.id} ({wait.kind}): say approve or deny")
    if answering and request.approved is None:
        check_answer(wait, request.answer)
    if wait.rule.typed and request.approved:
        wanted = (wait.arguments or {}).get(wait.rule.typed) if isinstance(wait.arguments, dict) else None
        if request.confirm != (wanted if isinstance(wanted, str) else msgspec.json.encode(wanted).decode()):
            raise TransomError(
                "failed_precondition",
                f"wait {wait.id}: type the value of {wait.rule.typed!r} to confirm (field `confirm`)",
                {"reason": "confirm", "wait": wait.id, "argument": wait.rule.typed},
            )


def check_answer(wait: Wait, answer: Json) -> None:
    """The answer to a question or a restart."""
    if wait.kind == "restart":
        word = answer.get("answer") if isinstance(answer, dict) else answer
        if word not in RESTART_CHOICES:
            raise TransomError("invalid_argument", f"answer: {word!r} is none of done, again, fail")
        return
    properties = cast(JsonObject, wait.schema.get("properties") or {})
    if set(properties) == {"answer"}:
        schemas.require(wait.schema, {"answer": answer}, f"answer (wait {wait.id})")
    else:
        schemas.require(wait.schema, answer, f"answer (wait {wait.id})")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision means for the step that waits.

    Parameters:
        go: the step may run now; else it is over, with result or error.
        retry: it runs as another attempt.
        fatal: its error ends the job.
    """

    outcome: Outcome
    go: bool = False
    retry: bool = False
    result: Json = None
    error: ErrorInfo | None = None
    fatal: bool = False

    @classmethod
    def of(cls, wait: Wait, request: DecideApproval, core: "Core") -> "Choice":
        """Read a request that passed its checks."""
        if wait.kind == "restart" and request.approved is not False:
            return restart_choice(wait, request.answer if request.approved is None else "again", core)
        if wait.kind == "question" and request.approved is None:
            return cls(outcome="answered", result=request.answer)
        if request.approved:
            return cls(outcome="approved", go=True, result=True)
        return declined(wait, "denied", request.comment)


def declined(wait: Wait, outcome: Outcome, comment: str) -> Choice:
    """A no, by a person or by time."""
    if wait.kind == "question":
        return Choice(outcome=outcome, result=None)
    word = "expired unanswered" if outcome == "expired" else "was denied"
    error = ErrorInfo(
        code="permission_denied",
        message=f"{wait.function or wait.kind} {word}{': ' + comment if comment else ''}",
        details={"reason": outcome},
    )
    if wait.kind == "restart":
        return Choice(outcome=outcome, error=error, fatal=True)
    if wait.function:
        return Choice(outcome=outcome, error=error)
    return Choice(outcome=outcome, result=False)


def restart_choice(wait: Wait, answer: Json, core: "Core") -> Choice:
    """`done` with an optional result that fits the function's output schema, `again`, or fail."""
    word, result = (answer.get("answer"), answer.get("result")) if isinstance(answer, dict) else (answer, None)
    if word == "again":
        return Choice(outcome="approved", go=True, retry=True)
    if word == "done":
        function = core.catalog.functions.get(wait.function)
        if function is not None and function.output_schema is not None and result is not None:
            schemas.require(function.output_schema, result, "answer.result")
        return Choice(outcome="answered", result=result)
    message = f"a person ended the job: {wait.function or 'it'} was in flight when its worker stopped"
    return Choice(outcome="denied", fatal=True, error=ErrorInfo(code="aborted", message=message, details={"reason": "restart"}))


def apply(work: TreeWork, seen: Wait, choice: Choice, caller: Caller, request: DecideApproval) -> Decided:
    """Vote, or decide, inside a transaction; `seen` is the wait that the request was checked against.

    Raises:
        AlreadyOver: somebody else was first.
        TransomError: failed_precondition, when its arguments were changed meanwhile.
    """
    tx = work.tx
    wait = tx.get(Wait, seen.id)
    assert wait is not None
    if not wait.open:
        raise AlreadyOver(wait)
    if wait.token != seen.token:
        raise TransomError("failed_precondition", f"wait {wait.id} changed since it was shown", {"reason": "interrupt_changed"})
    by = f"{caller.kind}:{caller.id}"
    approved = choice.outcome in ("approved", "answered")
    vote = Vote(by=by, via=caller.via, approved=approved, at=tx.now, comment=request.comment)
    votes = (*(v for v in wait.votes if v.by != by), vote)
    yes = sum(v.approved for v in votes)
    no = len(votes) - yes
    if (approved and yes < wait.rule.count) or (not approved and not wait.rule.veto and no < wait.rule.count):
        tx.update(wait, votes=votes)
        work.log(WaitVoted(job=wait.job, wait=wait.id, by=by, approved=approved))
        work.finish()
        return Decided(wait=wait.id, job=wait.job, result="acknowledged", by=by)
    close(work, tx.update(wait, votes=votes), choice, by, caller.via, request)
    work.finish()
    return Decided(wait=wait.id, job=wait.job, result="decided", outcome=choice.outcome, by=by)


def close(work: TreeWork, wait: Wait, choice: Choice, by: str, via: str, request: DecideApproval) -> None:
    """End a wait with a choice, and let its step and job go on."""
    tx = work.tx
    work.closed(
        wait,
        outcome=choice.outcome,
        answer=request.answer,
        decided_by=by,
        decided_via=via,
        decided_at=tx.now,
        comment=request.comment,
        run=request.run,
    )
    work.log(
        WaitDecided(
            job=wait.job, wait=wait.id, outcome=choice.outcome, by=by, via=via, run=request.run, comment=request.comment
        )
    )
    step = tx.get(Step, wait.job, wait.step)
    if step is None or step.state != "waiting":
        return
    if choice.go and (wait.function or choice.retry):
        edited = wait.arguments if wait.arguments != step.arguments and wait.function else step.edited
        tx.put(msgspec.structs.replace(step, state="ready", edited=edited, attempt=step.attempt + choice.retry))
        if (job := tx.get(Job, wait.job)) is not None:
            work.wake(job)
        return
    work.settle_step(step, result=choice.result, error=choice.error, fatal=choice.fatal)
    if step.call:
        work.log(CallEnded(job=wait.job, call=step.call, content=choice.result, error=choice.error))


async def expire(core: "Core", tenant: str, wait: Wait) -> None:
    """Decline a wait whose time is over."""
    await core.store.transact(tenant, lambda tx: _expire(TreeWork(tx, wait.tree), wait.id))


def _expire(work: TreeWork, identity: str) -> None:
    wait = work.tx.get(Wait, identity)
    if wait is not None and wait.open and work.tx.now >= wait.expires_at:
        expire_in(work, wait)
    work.finish()


def expire_in(work: TreeWork, wait: Wait) -> None:
    """Decline a wait in a transaction that is under way."""
    details: JsonObject = {"wait": wait.id, "kind": wait.kind, "function": wait.function, "outcome": "expired"}
    work.tx.audit(AuditEntry(action="approval.decide", caller=SYSTEM_EXPIRY, door="runtime", object=wait.job, details=details))
    work.tx.touch("audit")
    close(work, wait, declined(wait, "expired", ""), SYSTEM_EXPIRY, "", DecideApproval(wait=wait.id))


async def check_edit(core: "Core", tenant: str, job: Job, wait: Wait, arguments: JsonObject) -> None:
    """New arguments pass what the first ones passed: schema, size and policy."""
    function = core.catalog.functions.get(wait.function)
    if function is None:
        raise TransomError("failed_precondition", f"wait {wait.id}: there is no function {wait.function!r} any more")
    schemas.require(function.input_schema, arguments, "arguments")
    if len(msgspec.json.encode(arguments)) > core.config.limits.arguments:
        raise TransomError("invalid_argument", f"arguments: larger than {core.config.limits.arguments} bytes")
    tool = core.catalog.tools[wait.function.partition(".")[0]][1]
    sends_out = tool.remote or function.annotations.open_world_hint
    use = ToolUse(tenant=tenant, job=job, function=wait.function, arguments=arguments, sends_out=sends_out)
    verdict = await core.hooks.strictest("before_tool", use)
    if verdict is not None and verdict.ruling == "deny":
        raise TransomError("permission_denied", f"{wait.function} is not permitted with these arguments: {verdict.reason}")


async def edit(call: OperationCall, request: EditWait) -> WaitView:
    """Change the arguments that wait; votes are cleared, and what was shown before no longer counts."""
    core, tenant = call.core, call.origin.tenant
    wait = await find(core.store, tenant, request.wait)
    job = await core.store.get(tenant, Job, wait.job)
    assert job is not None
    await call.require("jobs.edit", wait.id, job, wait.rule)
    if not wait.rule.edit or not wait.function:
        raise TransomError("failed_precondition", f"wait {wait.id}: its rule allows no change of the arguments")
    await check_edit(core, tenant, job, wait, request.arguments)
    arguments = core.filters_for(job, tenant).value("person", request.arguments)

    def write(work: TreeWork) -> Wait:
        current = work.tx.get(Wait, wait.id)
        if current is None or not current.open:
            raise TransomError("aborted", f"wait {wait.id} is already over", {"reason": "already_decided"})
        token = make_token(core.secret, wait.id, arguments, wait.rule)
        changed = work.tx.update(current, arguments=arguments, shown=arguments, token=token, votes=())
        by = f"{call.origin.caller.kind}:{call.origin.caller.id}"
        work.log(WaitEdited(job=wait.job, wait=wait.id, by=by, token=token, shown=arguments))
        work.finish()
        return changed

    changed = await call.transact(lambda tx: write(TreeWork(tx, wait.tree)), object=wait.job, details={"wait": wait.id})
    return await view(core, tenant, call.origin.caller, changed, job)


async def approvals(call: OperationCall, request: ListApprovals) -> WaitPage:
    """What waits for a person, oldest first; whatever is past its deadline is declined on the way."""
    core, tenant = call.core, call.origin.tenant
    if not 1 <= request.limit <= 200:
        raise TransomError("invalid_argument", "limit: must be 1 to 200")
    if request.job:
        job = await core.job(call, request.job, "jobs.read")
        inside = await core.descendants(tenant, job) if request.tree else {job.id}
        waits = await core.store.select(tenant, Wait, "tree", {"tree": job.tree, "open": True})
        waits = [w for w in waits if w.job in inside]
    else:
        waits = await core.store.select(tenant, Wait, "open", {"open": True}, limit=MOST_OPEN)
    views: list[WaitView] = []
    for wait in waits:
        if len(views) == request.limit:
            break
        if core.clock.now() >= wait.expires_at:
            await expire(core, tenant, wait)
            continue
        owner = await core.store.get(tenant, Job, wait.job)
        if owner is not None and (await core.may(call.origin.caller, tenant, "jobs.read", owner.id, owner)).ruling == "allow":
            views.append(await view(core, tenant, call.origin.caller, wait, owner))
    return WaitPage(waits=tuple(views))
