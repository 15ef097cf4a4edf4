"""Several decisions of one person at once, and the run that made them: all checked, then all decided, or none.

Beside the one decision of `decisions`, for doors whose clients answer everything that waits in one request.
"""

from collections.abc import Sequence
from typing import cast

import msgspec

from transom_hookspecs import (
    DecideApproval,
    Decided,
    DecidedTogether,
    DecideTogether,
    GetWait,
    Job,
    JsonObject,
    Run,
    TransomError,
    Tx,
    Wait,
    WaitView,
)

from . import permits
from .auditing import audit
from .decisions import AlreadyOver, Choice, apply, check_request, expire_in, filtered, refuse_late, unchanged
from .edits import check_edit, put_edit
from .operations import OperationCall
from .tree import TreeWork
from .waits import find, may_decide, no_longer_deciders, view


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that passed its checks."""

    wait: Wait
    request: DecideApproval
    choice: Choice
    lost: frozenset[str]
    arguments: JsonObject | None = None


async def get_wait(call: OperationCall, request: GetWait) -> WaitView:
    """GetWait."""
    wait, job = await find(call, request.wait, "jobs.read")
    shown = await view(call.core, call.origin.tenant, call.origin.caller, wait, job)
    return msgspec.structs.replace(shown, open=wait.open, outcome=wait.outcome or "")


async def decide_together(call: OperationCall, request: DecideTogether) -> DecidedTogether:
    """DecideTogether: every check of every decision, then one transaction for all.

    A late yes that no longer counts is the exception: it is denied, and the others stay undecided.
    """
    core, tenant = call.core, call.origin.tenant
    checked = [await check(call, each, request.edits.get(each.wait)) for each in request.decisions]
    for each in checked:
        if each.choice.go and (why := await late(call, each)):
            raise TransomError(
                "permission_denied",
                f"wait {each.wait.id}: {why}; it is denied, and nothing else was decided",
                {"reason": "recheck", "wait": each.wait.id},
            )
    return await core.store.transact(tenant, lambda tx: commit(call, tx, checked, request))


async def check(call: OperationCall, request: DecideApproval, arguments: JsonObject | None) -> Checked:
    """A decision as it will be made, when nothing speaks against it.

    Parameters:
        arguments: what the call is to run with instead.
    """
    core, tenant, caller = call.core, call.origin.tenant, call.origin.caller
    wait, job = await find(call, request.wait, "jobs.decide")
    if why := await may_decide(core, tenant, caller, wait, job, yes=request.approved is not False):
        raise TransomError("permission_denied", f"wait {wait.id}: {why}", {"reason": "not_a_decider", "wait": wait.id})
    request = filtered(core, job, tenant, request)
    with about(wait):
        check_request(wait if arguments is None else msgspec.structs.replace(wait, arguments=arguments), request)
        if arguments is not None:
            await call.require("jobs.edit", wait.id, job, wait.rule)
            if not wait.rule.edit or not wait.function:
                raise TransomError("failed_precondition", "its rule allows no change of the arguments", {"reason": "edit"})
            await check_edit(core, tenant, job, wait, arguments)
            arguments = cast(JsonObject, core.filters_for(job, tenant).value("person", arguments))
        choice = Choice.of(wait, request, core)
    lost = await no_longer_deciders(core, tenant, wait, job)
    return Checked(wait=wait, request=request, choice=choice, lost=lost, arguments=arguments)


class about:  # noqa: N801 - used as a statement
    """Names the wait in an error that a check raises."""

    def __init__(self, wait: Wait) -> None:
        self._wait = wait

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Add the wait's ID."""
        if isinstance(error, TransomError):
            error.details.setdefault("wait", self._wait.id)


async def late(call: OperationCall, checked: Checked) -> str:
    """Why a late yes does not count any more; it is denied then."""
    core, tenant, wait = call.core, call.origin.tenant, checked.wait
    job = await core.store.get(tenant, Job, wait.job)
    why = await permits.recheck(core, tenant, wait, job) if job is not None else ""
    if why and wait.open:
        try:
            await core.store.transact(tenant, lambda tx: refuse_late(TreeWork(tx, wait.tree), wait, why, call))
        except AlreadyOver:
            return ""
    return why


def commit(call: OperationCall, tx: Tx, checked: Sequence[Checked], request: DecideTogether) -> DecidedTogether:
    """Decide all, and keep the run that did; inside a transaction."""
    run, start = request.run, request.start
    before = tx.get(Run, run.conversation, run.run) if run is not None else None
    if before is not None and checked and before.outcomes.keys() >= {each.wait.id for each in checked}:
        return DecidedTogether(results=tuple(as_made(before, each.wait) for each in checked), start=before.start)
    if start < 0:
        start = tx.last(request.tree)
    results = tuple(decide_one(call, tx, each) for each in checked)
    if run is not None:
        made = Run(
            conversation=run.conversation,
            run=run.run,
            job=request.tree,
            start=start,
            created_at=tx.now,
            view=run.view,
            outcomes={each.wait: {"result": each.result, "outcome": each.outcome} for each in results},
        )
        tx.put(made)
    return DecidedTogether(results=results, start=start)


def as_made(run: Run, wait: Wait) -> Decided:
    """What the same run decided a moment before."""
    made = cast(dict[str, str], run.outcomes[wait.id])
    return Decided(wait=wait.id, job=wait.job, result=made["result"], outcome=made["outcome"], by=wait.decided_by)


def decide_one(call: OperationCall, tx: Tx, checked: Checked) -> Decided:
    """One decision of several; a wait that is over by now stays as it came out."""
    wait, choice, request = checked.wait, checked.choice, checked.request
    work = TreeWork(tx, wait.tree)
    try:
        if checked.arguments is not None:
            unchanged(work, wait)
            wait = put_edit(work, wait, checked.arguments, call)
            work.finish()
            work = TreeWork(tx, wait.tree)
        decided = apply(work, wait, choice, call.origin, request, checked.lost)
    except AlreadyOver as over:
        if over.wait.open:
            if request.approved is not False:
                details: JsonObject = {"reason": "interrupt_expired", "wait": wait.id}
                raise TransomError("failed_precondition", f"wait {wait.id}: its deadline has passed", details) from None
            expire_in(work, over.wait)
            work.finish()
        outcome = over.wait.outcome or "expired"
        return Decided(wait=wait.id, job=wait.job, result="already_decided", outcome=outcome, by=over.wait.decided_by)
    details = {"wait": wait.id, "kind": wait.kind, "function": wait.function, "outcome": choice.outcome}
    audit(call.core, tx, call.entry(wait.job, details=details))
    return decided
