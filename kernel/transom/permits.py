"""What policy says of a running job: whether it may go on, what becomes of its calls, and whether a late yes still holds."""

from typing import TYPE_CHECKING

from transom_hookspecs import Access, Function, Job, JsonObject, Rule, ToolUse, TransomError, Verdict, Wait

from .dispatch import STRICTNESS
from .operations import authorize, refusal

if TYPE_CHECKING:
    from .core import Core


async def go_on(core: "Core", tenant: str, job: Job) -> None:
    """Ask whether a job's caller may have it take another step now.

    Raises:
        TransomError: permission_denied: a kill switch, or the caller's rights of today.
    """
    access = Access(caller=job.caller, tenant=tenant, permission="jobs.continue", object=job.agent, job=job)
    verdict = await authorize(core, access)
    if verdict.ruling != "allow":
        raise refusal(access, verdict)


def use_of(core: "Core", tenant: str, job: Job, name: str, arguments: JsonObject) -> ToolUse:
    """A call as hooks see it."""
    tool, function = core.catalog.tools[name.partition(".")[0]][1], core.catalog.functions[name]
    sends_out = tool.remote or function.annotations.open_world_hint
    return ToolUse(tenant=tenant, job=job, function=name, arguments=arguments, sends_out=sends_out, rule=function.approval)


async def of_call(core: "Core", tenant: str, job: Job, name: str, arguments: JsonObject, function: Function) -> Verdict:
    """The strictest of the function's own rule and what plugins say; a question satisfies both."""
    await go_on(core, tenant, job)
    own = function.approval
    verdict = Verdict(ruling="ask", rule=own) if own is not None else Verdict(ruling="allow")
    said = await core.hooks.strictest("before_tool", use_of(core, tenant, job, name, arguments))
    if said is None or STRICTNESS[said.ruling] < STRICTNESS[verdict.ruling]:
        return verdict
    if said.ruling == "ask":
        rule = said.rule or Rule(reason=said.reason)
        return Verdict(ruling="ask", reason=said.reason, rule=own.stricter(rule) if own is not None else rule)
    return said


async def of_own(core: "Core", tenant: str, job: Job, name: str, arguments: JsonObject) -> Verdict:
    """What is said of a call that is a step of the Context; there is nothing to approve before it, so asking refuses."""
    await go_on(core, tenant, job)
    use = ToolUse(tenant=tenant, job=job, function=name, arguments=arguments, sends_out=False)
    said = await core.hooks.strictest("before_tool", use) or Verdict(ruling="allow")
    return said if said.ruling == "allow" else Verdict(ruling="deny", reason=said.reason or said.ruling)


async def recheck(core: "Core", tenant: str, wait: Wait, job: Job) -> str:
    """Why a yes that comes long after the wait opened does not count any more; empty when it does.

    Asked anew are the rights of who started the job, the agent's kill switch, and what policy says of the call.
    """
    if core.clock.now() - wait.opened_at <= core.settings(tenant).recheck_seconds * 1000:
        return ""
    try:
        await go_on(core, tenant, job)
    except TransomError as error:
        return error.message
    if not wait.function or not isinstance(wait.arguments, dict):
        return ""
    if wait.function not in core.catalog.functions:
        return f"there is no function {wait.function!r} any more"
    said = await core.hooks.strictest("before_tool", use_of(core, tenant, job, wait.function, wait.arguments))
    return said.reason or f"{wait.function} is no longer permitted" if said is not None and said.ruling == "deny" else ""
