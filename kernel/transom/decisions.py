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
    ErrorInfo,
    Job,
    Json,
    JsonObject,
    ListApprovals,
    Origin,
    Outcome,
    Step,
    TransomError,
    Vote,
    Wait,
    WaitDecided,
    WaitPage,
    WaitView,
    WaitVoted,
    Where,
)

from . import permits, schemas
from .auditing import audit
from .jobs import parse_cursor
from .operations import OperationCall
from .tree import TreeWork
from .waits import RESTART_CHOICES, find, may_decide, no_longer_deciders, view
from .words import check_words

if TYPE_CHECKING:
    from .core import Core

SYSTEM_EXPIRY = "system:expiry"
SYSTEM_RECHECK = "system:recheck"
MOST_LOOKED_AT, AT_A_TIME = 1_000, 50
"""Open waits that are looked at for one page of those that a caller may see, and how many of them are read at once."""


async def decide(call: OperationCall, request: DecideApproval) -> Decided:
    """Decide a wait; the first decision stands, and the same one again is answered as it was made."""
    core, tenant, caller = call.core, call.origin.tenant, call.origin.caller
    wait, job = await find(call, request.wait, "jobs.decide")
    if wait.open and core.clock.now() >= wait.expires_at:
        wait = await expired(core, tenant, wait)
    if why := await may_decide(core, tenant, caller, wait, job, yes=request.approved is not False):
        raise TransomError("permission_denied", f"wait {wait.id}: {why}", {"reason": "not_a_decider", "wait": wait.id})
    request = filtered(core, job, tenant, request)
    if not wait.open:
        return decided_before(wait, request, caller)
    check_request(wait, request)
    choice = Choice.of(wait, request, core)
    lost = await no_longer_deciders(core, tenant, wait, job)
    try:
        if choice.go and (why := await permits.recheck(core, tenant, wait, job)):
            return await core.store.transact(tenant, lambda tx: refuse_late(TreeWork(tx, wait.tree), wait, why, call))
        return await call.transact(
            lambda tx: apply(TreeWork(tx, wait.tree), wait, choice, call.origin, request, lost),
            object=wait.job,
            outcome=choice.outcome,
            details={"wait": wait.id, "kind": wait.kind, "function": wait.function},
        )
    except AlreadyOver as over:
        return decided_before(await expired(core, tenant, over.wait) if over.wait.open else over.wait, request, caller)


def refuse_late(work: TreeWork, seen: Wait, why: str, call: OperationCall) -> Decided:
    """Deny in the platform's name what a late yes may not allow any more, inside a transaction.

    Raises:
        AlreadyOver: somebody else was first.
    """
    wait = unchanged(work, seen)
    details: JsonObject = {"wait": wait.id, "kind": wait.kind, "function": wait.function}
    caller = call.origin.caller
    entry = AuditEntry(
        action="approval.decide",
        caller=SYSTEM_RECHECK,
        door=call.origin.door,
        object=wait.job,
        outcome="denied",
        details={**details, "reason": why, "asked_by": f"{caller.kind}:{caller.id}"},
    )
    audit(call.core, work.tx, entry)
    said = DecideApproval(wait=wait.id, comment=why)
    close(work, wait, declined(wait, "denied", why), SYSTEM_RECHECK, "", said)
    work.finish()
    return Decided(wait=wait.id, job=wait.job, result="decided", outcome="denied", by=SYSTEM_RECHECK, reason=why)


class AlreadyOver(Exception):
    """The wait was decided, or its time was over, between the look at it and the transaction."""

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
    check_words("comment", request.comment)
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
    if wait.kind == "budget":
        refused = msgspec.convert(wait.arguments, ErrorInfo)
        message = f"{refused.message}; more {word}{': ' + comment if comment else ''}"
        return Choice(outcome=outcome, error=msgspec.structs.replace(refused, message=message))
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


def unchanged(work: TreeWork, seen: Wait) -> Wait:
    """The wait that a request was checked against, when it still is the same.

    Raises:
        AlreadyOver: somebody else was first, or its time is over.
        TransomError: failed_precondition, when its arguments were changed meanwhile.
    """
    wait = work.tx.get(Wait, seen.id)
    assert wait is not None
    if not wait.open or work.tx.now >= wait.expires_at:
        raise AlreadyOver(wait)
    if wait.token != seen.token:
        raise TransomError("failed_precondition", f"wait {wait.id} changed since it was shown", {"reason": "interrupt_changed"})
    return wait


def apply(
    work: TreeWork, seen: Wait, choice: Choice, origin: Origin, request: DecideApproval, lost: frozenset[str] = frozenset()
) -> Decided:
    """Vote, or decide, inside a transaction.

    Parameters:
        seen: the wait that the request was checked against.
        lost: those whose votes do not count any more.

    Raises:
        AlreadyOver: somebody else was first, or its time is over.
        TransomError: failed_precondition, when its arguments were changed meanwhile.
    """
    tx, caller = work.tx, origin.caller
    wait = unchanged(work, seen)
    by = f"{caller.kind}:{caller.id}"
    approved = choice.outcome in ("approved", "answered")
    vote = Vote(by=by, via=caller.via, approved=approved, at=tx.now, comment=request.comment)
    votes = (*(v for v in wait.votes if v.by != by and v.by not in lost), vote)
    if choice.outcome == "answered" and origin.taint and (job := tx.get(Job, wait.job)) is not None:
        work.taint(job, origin.taint)
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
    if choice.go and wait.kind == "budget":
        tx.put(msgspec.structs.replace(step, state="ready", verdict=by))
        if (job := tx.get(Job, wait.job)) is not None:
            work.wake(job)
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


async def expired(core: "Core", tenant: str, wait: Wait) -> Wait:
    """Decline a wait whose time is over; as it is then."""
    await expire(core, tenant, wait)
    return await core.store.get(tenant, Wait, wait.id) or wait


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
    details: JsonObject = {"wait": wait.id, "kind": wait.kind, "function": wait.function}
    entry = AuditEntry(action="approval.decide", caller=SYSTEM_EXPIRY, door="runtime", object=wait.job, outcome="expired")
    work.tx.audit(msgspec.structs.replace(entry, details=details))
    work.tx.touch("audit")
    close(work, wait, declined(wait, "expired", ""), SYSTEM_EXPIRY, "", DecideApproval(wait=wait.id))


async def approvals(call: OperationCall, request: ListApprovals) -> WaitPage:
    """What waits for a person, oldest first; whatever is past its deadline is declined on the way.

    A cursor is the place of the last wait that was looked at, whether or not the caller may see it; so many are looked at a
    page, and no more, that a page can be short and have a cursor all the same.
    """
    core, tenant = call.core, call.origin.tenant
    if not 1 <= request.limit <= 200:
        raise TransomError("invalid_argument", "limit: must be 1 to 200")
    index, where, inside = await within(call, request)
    after = parse_cursor(request.cursor)
    views: list[WaitView] = []
    looked_at = 0
    while looked_at < MOST_LOOKED_AT and len(views) < request.limit:
        waits = await core.store.select(tenant, Wait, index, where, after=after, limit=AT_A_TIME)
        for wait in waits:
            looked_at, after = looked_at + 1, (wait.opened_at, wait.id)
            if inside is None or wait.job in inside:
                views += await seen(call, wait)
            if len(views) == request.limit:
                break
        else:
            if len(waits) < AT_A_TIME:
                return WaitPage(waits=tuple(views))
    return WaitPage(waits=tuple(views), cursor=f"{after[0]}.{after[1]}" if after else "")


async def within(call: OperationCall, request: ListApprovals) -> tuple[str, Where, set[str] | None]:
    """Where to look: the index, what is equal in it, and the jobs whose waits are meant, or None for all."""
    if not request.job:
        return "open", {"open": True}, None
    job = await call.core.job(call, request.job, "jobs.read")
    inside = await call.core.descendants(call.origin.tenant, job) if request.tree else {job.id}
    return "tree", {"tree": job.tree, "open": True}, inside


async def seen(call: OperationCall, wait: Wait) -> list[WaitView]:
    """An open wait as the caller sees it, or nothing: it is past its deadline, or of a job that the caller may not read."""
    core, tenant, caller = call.core, call.origin.tenant, call.origin.caller
    if core.clock.now() >= wait.expires_at:
        await expire(core, tenant, wait)
        return []
    owner = await core.store.get(tenant, Job, wait.job)
    if owner is None or (await core.may(caller, tenant, "jobs.read", owner.id, owner)).ruling != "allow":
        return []
    return [await view(core, tenant, caller, wait, owner)]
