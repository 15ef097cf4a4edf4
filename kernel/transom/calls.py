"""Calls of functions as steps: policy, approval, schema, execution, result.

The calls of one `tools` step begin in one transaction; each ends in its own. A call in flight at a crash is made
again only when its function may be repeated; any other waits for a person.
"""

import inspect
import logging
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, cast

import anyio
import anyio.to_thread
import msgspec

from transom_hookspecs import (
    RUNTIME_ERRORS,
    CallEnded,
    CallStarted,
    ErrorInfo,
    Function,
    Item,
    Json,
    JsonObject,
    NewNote,
    Rule,
    Step,
    ToolCall,
    ToolResult,
    TransomError,
    Wait,
)

from . import branches, permits, schemas, steps, waits
from .catalog import OWN_FUNCTIONS
from .function_context import FunctionContext
from .groups import contained, in_words
from .tree import TreeWork

if TYPE_CHECKING:
    from .run import JobRun

log = logging.getLogger("transom.jobs")


class Prepared(msgspec.Struct, kw_only=True):
    """A call and its step; `wait` when a person must agree first, `error` when it is over before it began."""

    call: ToolCall
    step: Step
    function: Function | None = None
    wait: Wait | None = None
    fresh: bool = True


async def make(run: "JobRun", key: str, calls: Sequence[ToolCall], message: str) -> list[ToolResult]:
    """Make calls at once, each under `<key>.<i>`; results in their order."""
    ordinary: dict[int, Prepared] = {}
    asked, calls = calls, [_filtered(run, call) for call in calls]
    for i, call in enumerate(calls):
        if refused := _refused(run, i, call):
            ordinary[i] = _never(run, f"{key}.{i + 1}", call, refused)
        elif call.function not in OWN_FUNCTIONS and not call.function.startswith("agent."):
            ordinary[i] = await _prepare(run, f"{key}.{i + 1}", call, masked=call != asked[i])
    await _begin(run, ordinary, calls, key, message)
    results: dict[int, ToolResult] = {}

    async def one(i: int) -> None:
        call = calls[i]
        if i in ordinary:
            results[i] = await _finish_call(run, ordinary[i])
        else:
            results[i] = await _own(run, f"{key}.{i + 1}", call)

    if len(calls) == 1:
        await one(0)
    else:
        await branches.fan_out(run, [partial(one, i) for i in range(len(calls))])
    for i in range(len(calls)):
        _keep(run, f"{key}.{i + 1}", results[i])
    return [results[i] for i in range(len(calls))]


def _filtered(run: "JobRun", call: ToolCall) -> ToolCall:
    arguments, function = run.filters.object("arguments", call.arguments), run.filters.text("arguments", call.function)
    same = arguments is call.arguments and function == call.function
    return call if same else msgspec.structs.replace(call, function=function, arguments=arguments)


def _refused(run: "JobRun", index: int, call: ToolCall) -> ErrorInfo | None:
    """Why a call is not even looked at."""
    most = run.core.config.limits.parallel_calls
    if index >= most:
        message = f"not made: at most {most} calls at once; make it in your next turn"
        return ErrorInfo(code="resource_exhausted", message=message)
    if call.id in run.not_offered:
        return ErrorInfo(code="permission_denied", message=f"{call.function} is not among the functions you were offered")
    return None


def _never(run: "JobRun", key: str, call: ToolCall, error: ErrorInfo) -> Prepared:
    """A call that is over before anything was asked of it."""
    known = run.journal.recorded(key, "call", call.function)
    if known is not None:
        return Prepared(call=call, step=known, fresh=False)
    step = run.journal.step(key, "call", call.function, "begun", arguments=call.arguments, call=call.id)
    return Prepared(call=call, step=_over(run, step, error=error))


def _keep(run: "JobRun", key: str, result: ToolResult) -> None:
    """A result is an item of the turn's conversation."""
    if not run.job.conversation or run.job.parent:
        return
    run.journal.item(
        Item(
            conversation=run.job.conversation,
            number=0,
            id=f"{run.job.id}:{key}",
            role="tool",
            job=run.job.id,
            turn=run.job.turn,
            content=result.error.message if result.error else result.content,
            call=result.call,
            error=result.error is not None,
        )
    )


async def _prepare(run: "JobRun", key: str, call: ToolCall, *, masked: bool) -> Prepared:
    """What the journal has of a call, or what policy says of a new one. `masked`: filters changed its arguments."""
    function = run.core.catalog.functions.get(call.function)
    step = run.journal.recorded(key, "call", call.function, call.arguments, masked=masked)
    if step is not None:
        return Prepared(call=call, step=step, function=function, fresh=False)
    step = run.journal.step(key, "call", call.function, "begun", arguments=call.arguments, call=call.id, masked=masked)
    try:
        if function is None:
            raise TransomError("not_found", f"there is no function {call.function!r}")
        if len(msgspec.json.encode(call.arguments)) > run.core.config.limits.arguments:
            raise TransomError("invalid_argument", f"arguments: larger than {run.core.config.limits.arguments} bytes")
        schemas.require(function.input_schema, call.arguments, "arguments")
        verdict = await permits.of_call(run.core, run.tenant, run.job, call.function, call.arguments, function)
    except TransomError as error:
        return Prepared(call=call, step=_over(run, step, error=error.info()))
    step = msgspec.structs.replace(step, verdict=f"{verdict.ruling}: {verdict.reason}" if verdict.reason else verdict.ruling)
    if verdict.ruling == "deny":
        refused = ErrorInfo(code="permission_denied", message=f"{call.function} is not permitted: {verdict.reason}")
        return Prepared(call=call, step=_over(run, step, error=refused))
    if verdict.ruling == "ask":
        return _asking(run, call, step, function, verdict.rule or Rule(reason=verdict.reason))
    return Prepared(call=call, step=step, function=function)


def _over(run: "JobRun", step: Step, *, error: ErrorInfo) -> Step:
    return msgspec.structs.replace(step, state="done", error=run.filters.error(error), ended_at=run.core.clock.now())


def _asking(run: "JobRun", call: ToolCall, step: Step, function: Function, rule: Rule) -> Prepared:
    shown = run.filters.value("arguments", call.arguments)
    wait = waits.make_wait(
        run.core,
        run.tenant,
        run.job,
        step,
        kind="approval",
        message=f"Run {call.function}?",
        rule=rule,
        arguments=call.arguments,
        shown=shown,
    )
    step = msgspec.structs.replace(step, state="waiting", until=wait.expires_at)
    return Prepared(call=call, step=step, function=function, wait=wait)


async def _begin(run: "JobRun", prepared: dict[int, Prepared], calls: Sequence[ToolCall], key: str, message: str) -> None:
    """Write the beginnings of all new calls, and what each waits for, in one transaction."""
    fresh = [p for p in prepared.values() if p.fresh]
    for i, call in enumerate(calls):
        made = prepared.get(i)
        if (made is not None and not made.fresh) or (made is None and f"{key}.{i + 1}" in run.journal.steps):
            continue
        shown = cast(JsonObject, run.filters.value("arguments", call.arguments))
        run.journal.record(
            made.step if made is not None else _own_step(run, f"{key}.{i + 1}", call),
            CallStarted(job=run.job.id, call=call.id, function=call.function, arguments=shown, message=message),
        )
        if made is not None and made.step.error is not None:
            run.journal.log(CallEnded(job=run.job.id, call=call.id, error=made.step.error))
    opened = [p.wait for p in fresh if p.wait is not None]

    def write(work: TreeWork) -> None:
        for wait in opened:
            work.opened(wait, waits.opened(wait))

    if fresh:
        await run.journal.write(write)


def _own_step(run: "JobRun", key: str, call: ToolCall) -> Step:
    """The beginning of a call that is a step of the Context."""
    kinds = {"oz.ask": ("ask", "question"), "oz.wait_for_event": ("event", str(call.arguments.get("source", "")))}
    if call.function == "oz.board_write":
        kind, name = "note", str(call.arguments.get("kind", "note"))
    else:
        kind, name = kinds.get(call.function, ("delegate", call.function.removeprefix("agent.")))
    return run.journal.step(key, kind, name, "begun", call=call.id)


async def _finish_call(run: "JobRun", prepared: Prepared) -> ToolResult:
    """Wait where it must, run what may run, and give what is recorded."""
    step, function, fresh = prepared.step, prepared.function, prepared.fresh
    while step.state != "done":
        if step.state == "waiting":
            step = await run.park(step.key)
            continue
        if function is None:
            step = _over(run, step, error=ErrorInfo(code="not_found", message=f"there is no function {step.name!r} any more"))
            run.journal.record(step, CallEnded(job=run.job.id, call=step.call, error=step.error))
            break
        if step.state == "begun" and not fresh and not function.repeatable:
            await _ask_restart(run, step)
            step = run.journal.steps[step.key]
            continue
        if (step.state == "ready" or not fresh) and (refused := await _refused_now(run, step)) is not None:
            step = _over(run, step, error=refused)
            run.journal.record(step, CallEnded(job=run.job.id, call=step.call, error=step.error))
            break
        if step.state == "begun" and not fresh:
            step = msgspec.structs.replace(step, attempt=step.attempt + 1)
        elif step.state == "ready":
            step = msgspec.structs.replace(step, state="begun")
            run.journal.record(step)
            if not function.repeatable:
                await run.journal.write()
        step = await _execute(run, step, function)
    return ToolResult(call=prepared.call.id, function=step.name, content=step.result, error=step.error)


async def _refused_now(run: "JobRun", step: Step) -> ErrorInfo | None:
    """Why a call that was permitted some time ago may not be made any more."""
    try:
        await permits.go_on(run.core, run.tenant, run.job)
    except TransomError as error:
        return error.info()
    return None


async def _ask_restart(run: "JobRun", step: Step) -> None:
    wait = waits.make_wait(
        run.core,
        run.tenant,
        run.job,
        step,
        kind="restart",
        message=f"{step.name} was in flight when its worker stopped. Did it happen? Answer done, again, or fail.",
        rule=Rule(reason="restart"),
        arguments=step.edited or step.arguments,
        shown=run.filters.value("arguments", step.edited or step.arguments),
    )
    await steps.open_wait(run, step, wait)


async def _execute(run: "JobRun", step: Step, function: Function) -> Step:
    """Run the function once and record what came of it."""
    arguments = cast(JsonObject, step.edited if step.edited is not None else step.arguments)
    context = FunctionContext(run, step)
    result: Json = None
    error: ErrorInfo | None = None
    run.critical += not function.repeatable
    try:
        with anyio.fail_after(function.timeout):
            result = await _run_function(run, context, function, arguments, step)
    except TimeoutError:
        error = ErrorInfo(code="deadline_exceeded", message=f"{step.name} did not answer within {function.timeout:g} s")
    except TransomError as raised:
        error = raised.info()
    except BaseException as raised:
        if not contained(raised):
            raise
        log.exception("function %s failed in job %s", step.name, run.job.id)
        error = ErrorInfo(
            code="internal",
            message=f"{step.name} failed: {in_words(raised)}",
            details={"function": step.name},
        )
    finally:
        run.critical -= not function.repeatable
    if error is not None:
        done = _over(run, step, error=error)
    else:
        done = msgspec.structs.replace(
            step, state="done", result=bounded(run, run.filters.value("tool", result)), ended_at=run.core.clock.now()
        )
    if permits.use_of(run.core, run.tenant, run.job, step.name, arguments).sends_out:
        run.taint("tool")
    ended = CallEnded(job=run.job.id, call=step.call, content=done.result, error=done.error)
    run.journal.record(done, ended, relaxed=function.repeatable)
    if not function.repeatable:
        with anyio.CancelScope(shield=True):
            await run.journal.write()
    return done


async def _run_function(run: "JobRun", context: FunctionContext, function: Function, arguments: JsonObject, step: Step) -> Json:
    hooks = run.core.hooks
    context.take_secrets(step.name, function)
    use = permits.use_of(run.core, run.tenant, run.job, step.name, arguments)
    async with hooks.around("around_tool", use) if hooks.has("around_tool") else nullcontext():
        if inspect.iscoroutinefunction(function.call):
            result = await function.call(context, arguments)
        else:
            result = await anyio.to_thread.run_sync(partial(function.call, context, arguments), abandon_on_cancel=True)
            if inspect.isawaitable(result):
                result = await result
    try:
        plain = cast("Json", msgspec.json.decode(msgspec.json.encode(result)))
    except (TypeError, ValueError, RecursionError) as error:
        raise TransomError("internal", f"{step.name} returned something that is no JSON: {error}") from error
    if function.output_schema is not None and (wrong := schemas.checker(function.output_schema)(plain)):
        raise TransomError("internal", f"{step.name} returned something that its output schema forbids {wrong}")
    return plain


def bounded(run: "JobRun", result: Json) -> Json:
    """A result of at most `limits.result` bytes; a larger one is cut, and says so."""
    most = run.core.config.limits.result
    encoded = msgspec.json.encode(result)
    if len(encoded) <= most:
        return result
    text = result if isinstance(result, str) else encoded.decode()
    return f"{text.encode()[:most].decode(errors='ignore')}\n[cut: {len(encoded)} bytes, the limit is {most}]"


async def _own(run: "JobRun", key: str, call: ToolCall) -> ToolResult:
    """A call of a function that is a step of the Context."""
    fresh = run.journal.steps[key].state == "begun"
    content: Json = None
    error: ErrorInfo | None = None
    try:
        if fresh:
            await _permitted(run, key, call)
        content = await _routed(run, key, call)
    except TransomError as raised:
        if isinstance(raised, RUNTIME_ERRORS):
            raise
        error = run.filters.error(raised.info())
        step = run.journal.steps[key]
        if step.state == "begun":
            run.journal.record(msgspec.structs.replace(step, state="done", error=error))
        if fresh and not step.ended_at:  # whoever settles a waiting step logs the call's end
            run.journal.log(CallEnded(job=run.job.id, call=call.id, error=error))
    return ToolResult(call=call.id, function=call.function, content=content, error=error)


async def _permitted(run: "JobRun", key: str, call: ToolCall) -> None:
    """Schema and policy of a call that is a step of the Context."""
    schemas.require(run.core.catalog.spec(run.tenant, call.function).parameters, call.arguments, "arguments")
    verdict = await permits.of_own(run.core, run.tenant, run.job, call.function, call.arguments)
    if verdict.ruling != "allow":
        step = msgspec.structs.replace(run.journal.steps[key], verdict=f"{verdict.ruling}: {verdict.reason}")
        run.journal.record(step)
        raise TransomError("permission_denied", f"{call.function} is not permitted: {verdict.reason}")


async def _routed(run: "JobRun", key: str, call: ToolCall) -> Json:
    given, step = call.arguments, run.journal.steps[key]
    if step.state == "done" and step.error is not None:
        raise step.error.error()
    if call.function == "oz.ask":
        choices = cast(list[str], given.get("choices") or [])
        return await steps.ask(run, key, cast(str, given["question"]), choices=choices, call=call.id)
    if call.function == "oz.board_write":
        note = msgspec.convert(given, NewNote)
        return {"note": await steps.note(run, key, note, call.id)}
    if call.function == "oz.wait_for_event":
        seconds = cast(float | None, given.get("timeout"))
        match = cast(JsonObject, given.get("match") or {})
        return await steps.wait_for_event(run, key, cast(str, given["source"]), match, seconds, call.id)
    return await steps.delegate(run, key, call.function.removeprefix("agent."), given["input"], call=call.id)
