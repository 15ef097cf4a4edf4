"""A model call as a step: streamed into the log, recorded once, made again as another attempt after a cut."""

import hashlib
import re
from contextlib import aclosing, nullcontext
from typing import TYPE_CHECKING

import anyio
import msgspec

from transom_hookspecs import (
    RUNTIME_ERRORS,
    JsonObject,
    Message,
    Model,
    ModelAnswer,
    ModelEnd,
    ModelRequest,
    Step,
    TextCut,
    TextDelta,
    TextEnded,
    ToolCall,
    TransomError,
    Usage,
)

from . import permits, spending
from .dispatch import blamed
from .journal import outcome

if TYPE_CHECKING:
    from .run import JobRun

CALL_ID = re.compile(r"[\x21-\x7e]{1,64}\Z")
HEARD = "heard"
"""The result of a step in flight whose text is in the log: a crash then cuts it."""

RETRYABLE = frozenset({"unavailable", "deadline_exceeded"})


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent asked a model."""

    model: str
    messages: tuple[Message, ...]
    functions: tuple[str, ...]
    output_schema: JsonObject | None
    max_tokens: int
    temperature: float | None
    options: JsonObject


class Spoken(msgspec.Struct):
    """Where one attempt stands: its message's id and text so far, and whether the model has said anything at all."""

    id: str
    parts: list[str]
    began: bool = False
    size: int = 0


def message_id(job: str, key: str, attempt: int) -> str:
    """`<job>:<step>`, and from the second attempt on `<job>:<step>~<attempt>`."""
    return f"{job}:{key}" if attempt == 1 else f"{job}:{key}~{attempt}"


async def ask(run: "JobRun", key: str, asked: Asked) -> ModelAnswer:
    """Make or replay a model step.

    Raises:
        TransomError: the model's error, which is recorded and the same on replay.
    """
    prompt: JsonObject = {"prompt": hashlib.sha256(msgspec.json.encode(asked)).hexdigest()}
    step = run.journal.recorded(key, "model", asked.model, prompt)
    if step is not None and step.state == "waiting":
        step = await run.park(key)
    if step is not None and step.state == "done":
        answer = msgspec.convert(outcome(step), ModelAnswer)
        run.said = answer.text or run.said
        return remember(run, asked, answer)
    model = run.core.catalog.models.get(asked.model)
    attempt, granted = 1, ""
    if step is not None:
        granted = spending.granted_by(step)
        if step.result == HEARD:
            run.journal.log(TextCut(job=run.job.id, message=message_id(run.job.id, key, step.attempt)))
        attempt = step.attempt + (step.result in (HEARD, spending.HELD))
    begun = msgspec.structs.replace(run.journal.step(key, "model", asked.model, "begun", arguments=prompt), attempt=attempt)
    try:
        if model is None:
            known = ", ".join(sorted(run.core.catalog.models)) or "none"
            raise TransomError(
                "failed_precondition",
                f"model: there is no model {asked.model!r}; known are {known}. "
                "Plugins and their settings in transom.toml bring models: `transom plugins list`",
            )
        await permits.go_on(run.core, run.tenant, run.job)
        return remember(run, asked, await _attempts(run, model, asked, begun, granted))
    except TransomError as error:
        if isinstance(error, RUNTIME_ERRORS):
            raise
        info = run.filters.error(error.info())
        run.journal.record(msgspec.structs.replace(begun, state="done", error=info, ended_at=run.core.clock.now()))
        raise info.error() from error


def remember(run: "JobRun", asked: Asked, answer: ModelAnswer) -> ModelAnswer:
    """Remember which of the answer's calls the model was never offered: they are refused when they are made."""
    offered = set(asked.functions)
    for call in answer.calls:
        if call.function not in offered and f"{call.function.partition('.')[0]}.*" not in offered:
            run.not_offered.add(call.id)
    return answer


def _prompt(run: "JobRun", messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages as the model gets them: what an agent wrote itself passes filters too."""
    return tuple([_told(run, message) for message in messages]) if run.filters.open("input") else messages


def _told(run: "JobRun", message: Message) -> Message:
    content, reasoning = run.filters.text("input", message.content), run.filters.object("input", message.reasoning)
    arguments = [run.filters.object("arguments", call.arguments) for call in message.calls]
    calls = [msgspec.structs.replace(call, arguments=given) for call, given in zip(message.calls, arguments, strict=True)]
    return msgspec.structs.replace(message, content=content, calls=tuple(calls), reasoning=reasoning)


async def _attempts(run: "JobRun", model: Model, asked: Asked, begun: Step, granted: str) -> ModelAnswer:
    """Try until an answer is whole, or trying again is no use."""
    names = run.core.catalog.names(asked.functions)
    specs = tuple(run.core.catalog.spec(run.tenant, name) for name in names)
    first = begun.attempt
    while True:
        request = ModelRequest(
            messages=_prompt(run, asked.messages),
            functions=specs,
            output_schema=asked.output_schema,
            max_tokens=asked.max_tokens,
            temperature=asked.temperature,
            idempotency_key=f"{run.job.id}/{begun.key}/{begun.attempt}",
            options=asked.options,
        )
        hold = await spending.held(run, model, request, begun, granted)
        granted = ""
        message = Spoken(message_id(run.job.id, begun.key, begun.attempt), [])
        try:
            return await _stream(run, model, request, begun, message, hold)
        except TransomError as error:
            spending.end_badly(run, hold, error, began=message.began)
            if message.parts:
                following = msgspec.structs.replace(begun, attempt=begun.attempt + 1)
                run.journal.record(following, TextCut(job=run.job.id, message=message.id))
            tries = begun.attempt - first + 1
            if error.code not in RETRYABLE or not message.began or tries >= run.core.config.limits.attempts:
                raise
            begun = msgspec.structs.replace(begun, attempt=begun.attempt + 1)
            await anyio.sleep(min(0.25 * 2**tries, 5.0))
        except anyio.get_cancelled_exc_class():
            spending.settle(run, hold, None)
            if message.parts:
                run.journal.log(TextCut(job=run.job.id, message=message.id))
            raise


async def _stream(
    run: "JobRun", model: Model, request: ModelRequest, begun: Step, message: Spoken, hold: spending.Hold
) -> ModelAnswer:
    pipe = run.filters.open("model")
    hooks, end = run.core.hooks, None
    around = hooks.around("around_model", run.facts, model.name, request) if hooks.has("around_model") else nullcontext()
    async with around:
        with blamed(run.core.catalog.model_plugins[model.name], f"model {model.name}"):
            async with aclosing(model.stream(request)) as stream:  # type: ignore[type-var]
                async for event in stream:
                    message.began = True
                    if type(event) is TextDelta:
                        if text := pipe.feed(event.text):
                            await _heard(run, begun, message, text)
                    elif type(event) is ModelEnd:
                        end = event
    if end is None:
        raise TransomError("unavailable", f"model {model.name!r}: its answer was cut off")
    if text := pipe.end():
        await _heard(run, begun, message, text)
    end = msgspec.structs.replace(end, usage=hold.priced(end.usage))
    return _finish(run, model, request, begun, message, end, hold)


async def _heard(run: "JobRun", begun: Step, message: Spoken, text: str) -> None:
    first = not message.parts
    message.parts.append(text)
    message.size += len(text)
    if message.size > run.core.config.limits.answer:
        raise TransomError("resource_exhausted", f"model {begun.name!r}: its answer is too long; the limit is limits.answer")
    if first:
        run.journal.record(msgspec.structs.replace(begun, result=HEARD), relaxed=True)
    await run.journal.text(message.id, text, first=first)


def _finish(
    run: "JobRun", model: Model, request: ModelRequest, begun: Step, message: Spoken, end: ModelEnd, hold: spending.Hold
) -> ModelAnswer:
    """Record a whole answer: its message is ended, its calls are checked, what it cost is noted."""
    text = "".join(message.parts)
    known = {step.call for step in run.journal.steps.values()}
    known.update(call.id for each in request.messages for call in each.calls)
    calls = tuple(_call(run, begun, i, call, known) for i, call in enumerate(end.calls))
    end = msgspec.structs.replace(end, calls=calls, reasoning=run.filters.object("model", end.reasoning))
    answer = ModelAnswer(message=message.id, text=text, end=end)
    if text:
        run.journal.log(TextEnded(job=run.job.id, message=message.id, text=text), relaxed=True)
    usage = end.usage
    run.journal.cost(model.name, usage)
    spending.settle(run, hold, usage)
    step = msgspec.structs.replace(begun, state="done", result=msgspec.to_builtins(answer), ended_at=run.core.clock.now())
    run.journal.record(
        step,
        Usage(
            job=run.job.id,
            model=model.name,
            step=begun.key,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            usd=usage.usd,
            estimated=usage.estimated,
        ),
        relaxed=True,
    )
    if text or calls:
        run.heard(message.id, text, calls)
    return answer


def _call(run: "JobRun", begun: Step, index: int, call: ToolCall, known: set[str]) -> ToolCall:
    """A call as recorded: filtered arguments, and an ID that is one and is new in the job and its prompt."""
    identity = run.filters.text("arguments", call.id)
    if not CALL_ID.match(identity) or identity in known or identity != call.id:
        made = hashlib.sha256(f"{run.job.id}/{begun.key}/{begun.attempt}/{index}".encode()).hexdigest()
        identity = f"call-{made[:24]}"
    known.add(identity)
    function = run.filters.text("arguments", call.function)
    return ToolCall(id=identity, function=function, arguments=run.filters.object("arguments", call.arguments))
