"""Editing what waits: the arguments are others from then on, votes are cleared, and what was shown no longer counts."""

from typing import TYPE_CHECKING, cast

import msgspec

from transom_hookspecs import EditWait, Job, JsonObject, Rule, TransomError, Tx, Wait, WaitEdited, WaitView

from . import permits, schemas
from .operations import OperationCall
from .tree import TreeWork
from .waits import find, make_token, may_decide, view

if TYPE_CHECKING:
    from .core import Core


async def edit(call: OperationCall, request: EditWait) -> WaitView:
    """EditWait: whoever may decide the wait, and read what waits, may change it, where its rule allows."""
    core, tenant, caller = call.core, call.origin.tenant, call.origin.caller
    wait, job = await find(call, request.wait, "jobs.edit")
    await call.require("jobs.edit", wait.id, job, wait.rule)
    if why := await may_decide(core, tenant, caller, wait, job):
        raise TransomError("permission_denied", f"wait {wait.id}: {why}", {"reason": "not_a_decider", "wait": wait.id})
    if not wait.rule.edit or not wait.function:
        raise TransomError("failed_precondition", f"wait {wait.id}: its rule allows no change of the arguments")
    await check_edit(core, tenant, job, wait, request.arguments)
    arguments = cast(JsonObject, core.filters_for(job, tenant).value("person", request.arguments))

    def write(tx: Tx) -> Wait:
        work = TreeWork(tx, wait.tree)
        changed = put_edit(work, wait, arguments, call)
        work.finish()
        return changed

    changed = await call.transact(write, object=wait.job, details={"wait": wait.id})
    return await view(core, tenant, caller, changed, job)


def put_edit(work: TreeWork, wait: Wait, arguments: JsonObject, call: OperationCall) -> Wait:
    """Put other arguments in their place, inside a transaction.

    Raises:
        TransomError: aborted, when the wait is over.
    """
    tx, caller = work.tx, call.origin.caller
    current = tx.get(Wait, wait.id)
    if current is None or not current.open or tx.now >= current.expires_at:
        raise TransomError("aborted", f"wait {wait.id} is already over", {"reason": "already_decided", "wait": wait.id})
    token = make_token(call.core.secret, wait.id, arguments, wait.rule)
    changed = tx.update(current, arguments=arguments, shown=arguments, token=token, votes=())
    work.log(WaitEdited(job=wait.job, wait=wait.id, by=f"{caller.kind}:{caller.id}", token=token, shown=arguments))
    if call.origin.taint and (running := tx.get(Job, wait.job)) is not None:
        work.taint(running, call.origin.taint)
    return changed


async def check_edit(core: "Core", tenant: str, job: Job, wait: Wait, arguments: JsonObject) -> None:
    """New arguments pass what the first ones passed: schema, size and policy."""
    function = core.catalog.functions.get(wait.function)
    if function is None:
        raise TransomError("failed_precondition", f"wait {wait.id}: there is no function {wait.function!r} any more")
    schemas.require(function.input_schema, arguments, "arguments")
    if len(msgspec.json.encode(arguments)) > core.config.limits.arguments:
        raise TransomError("invalid_argument", f"arguments: larger than {core.config.limits.arguments} bytes")
    verdict = await core.hooks.strictest("before_tool", permits.use_of(core, tenant, job, wait.function, arguments))
    if verdict is not None and verdict.ruling == "deny":
        raise TransomError("permission_denied", f"{wait.function} is not permitted with these arguments: {verdict.reason}")
    if verdict is not None and verdict.ruling == "ask":
        asked = wait.rule.stricter(verdict.rule or Rule())
        if msgspec.structs.replace(asked, reason=wait.rule.reason, edit=wait.rule.edit) != wait.rule:
            raise TransomError(
                "permission_denied",
                f"{wait.function} with these arguments needs other people to agree; deny it, and have it called anew",
                {"reason": "edit", "wait": wait.id},
            )
