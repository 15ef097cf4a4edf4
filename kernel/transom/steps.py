"""What the steps of a Context do that are no calls of models or functions.

Each takes the step's key, which the Context counted, and gives what is recorded under it.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, cast

import anyio
import msgspec

from transom_hookspecs import (
    RUNTIME_ERRORS,
    Board,
    CallEnded,
    EventWait,
    Job,
    Json,
    JsonObject,
    NewNote,
    Origin,
    Rule,
    Source,
    StartJob,
    Step,
    TransomError,
    Wait,
    WaitKind,
)

from . import permits, schemas, waits
from .claims import HOLD
from .journal import outcome
from .start import Parent, start
from .tree import TreeWork

if TYPE_CHECKING:
    from .run import JobRun


LONGEST = 3_650 * 86_400.0


def checked_seconds(seconds: float | None, what: str) -> float | None:
    """A time to wait, which is a number of seconds up to ten years, or none.

    Raises:
        TransomError: invalid_argument.
    """
    if seconds is not None and not 0 <= seconds <= LONGEST:
        raise TransomError("invalid_argument", f"{what}: {seconds!r} is no number of seconds from 0 to {LONGEST:.0f}")
    return seconds


def filtered(run: "JobRun", source: Source, arguments: JsonObject) -> tuple[JsonObject, bool]:
    """A step's arguments as they are recorded, and whether filters changed them."""
    kept = run.filters.object(source, arguments)
    return kept, kept is not arguments and kept != arguments


async def delegate(
    run: "JobRun", key: str, agent: str, input: Json, timeout: float | None = None, tags: Sequence[str] = (), call: str = ""
) -> Json:
    """`delegate` under a key that was taken already; `call` is the model's call that asked for it."""
    arguments, masked = filtered(run, "input", {"input": input, "timeout": timeout, "tags": list(tags)})
    input, tags = arguments["input"], cast(list[str], arguments["tags"])
    step = run.journal.recorded(key, "delegate", agent, arguments, masked=masked)
    if step is None or step.state == "begun":
        step = run.journal.step(key, "delegate", agent, "waiting", arguments=arguments, call=call, masked=masked)
        await run.journal.write()
        request = StartJob(agent=agent, input=input, timeout=timeout, tags=tuple(tags))
        origin = Origin(tenant=run.tenant, caller=run.job.caller, door="delegate")
        try:
            await permits.go_on(run.core, run.tenant, run.job)
            with anyio.CancelScope(shield=True):  # a child that was started is known here
                started = await start(run.core, request, origin, Parent(job=run.job, epoch=run.epoch, step=step))
                run.journal.steps[key] = msgspec.structs.replace(step, child=started.job.id)
        except TransomError as error:
            if isinstance(error, RUNTIME_ERRORS):
                run.journal.failed = run.journal.failed or error
                raise
            run.journal.record(msgspec.structs.replace(step, state="done", error=run.filters.raised(error).info()))
            raise
    return outcome(await run.park(key))


async def ask(
    run: "JobRun",
    key: str,
    message: str,
    *,
    choices: Sequence[str] = (),
    schema: JsonObject | None = None,
    kind: WaitKind = "question",
    rule: Rule | None = None,
    details: Json = None,
    timeout: float | None = None,
    call: str = "",
) -> Json:
    """`ask` under a key that was taken already."""
    checked_seconds(timeout, "ctx.ask: timeout")
    arguments, masked = filtered(run, "model", {"message": message, "choices": list(choices), "details": details})
    message, details, choices = cast(str, arguments["message"]), arguments["details"], cast(list[str], arguments["choices"])
    known = run.journal.recorded(key, "ask", kind, arguments, masked=masked)
    if known is None or known.state == "begun":
        if schema is not None:
            schema = run.filters.object("model", schema)
            schemas.check_schema(schema, "ask: schema")
        step = run.journal.step(key, "ask", kind, "waiting", arguments=arguments, call=call, masked=masked)
        wait = waits.make_wait(
            run.core,
            run.tenant,
            run.job,
            step,
            kind=kind,
            message=message,
            rule=rule or Rule(),
            arguments=details,
            shown=details,
            schema=schema,
            choices=choices,
            seconds=timeout,
        )
        await open_wait(run, step, wait)
    return outcome(await run.park(key))


async def open_wait(run: "JobRun", step: Step, wait: Wait) -> None:
    """Write a step that waits for a person, and its wait."""
    run.journal.record(msgspec.structs.replace(step, state="waiting", until=wait.expires_at))
    await run.journal.write(lambda work: work.opened(wait, waits.opened(wait)))


async def missing(run: "JobRun") -> NoReturn:
    """The job's agent is not installed here: wait until a person says that it is again, then start over."""
    definition = run.job.definition
    what = definition if definition.startswith("version:") else f"definition {definition[:12]}"
    await held(run, f"agent {run.job.agent!r} ({what}) is not installed here; install it, then answer `again`")


async def held(run: "JobRun", message: str) -> NoReturn:
    """None of the agent's code is run: wait for a person's word, then start over."""
    step = run.journal.steps.get(HOLD)
    run.held = True
    if step is not None and step.fatal and step.error is not None:
        await run.abort(step.error.error())
    if step is None or step.state == "done":
        attempt = step.attempt + 1 if step else 1
        step = msgspec.structs.replace(run.journal.step(HOLD, "ask", "restart", "waiting"), attempt=attempt)
        wait = waits.make_wait(run.core, run.tenant, run.job, step, kind="restart", message=message, rule=Rule())
        await open_wait(run, step, wait)
    answered = await run.park(HOLD)
    run.held = False
    run.journal.record(msgspec.structs.replace(answered, state="done"))
    await run.come_back()


async def note(run: "JobRun", key: str, note: NewNote, call: str = "") -> int:
    """`note` under a key that was taken already."""
    note = msgspec.structs.replace(
        note,
        kind=run.filters.text("note", note.kind),
        text=run.filters.text("note", note.text),
        tags=run.filters.texts("note", note.tags),
    )
    step = run.journal.recorded(key, "note", note.kind)
    if step is None or step.state == "begun":
        board = run.core.service(Board)
        if board is None:
            raise TransomError("failed_precondition", "there is no board here; enable a plugin that offers one")

        def pin(work: TreeWork) -> Step:
            job = work.tx.get(Job, run.job.id)
            assert job is not None
            event = board.pin(work.tx, job, note, call)
            if call:
                work.log(CallEnded(job=job.id, call=call, content={"note": event.id}))
            work.log(event)
            done = msgspec.structs.replace(run.journal.step(key, "note", note.kind, "done", call=call), result=event.id)
            work.tx.put(done)
            return done

        step = await _write_or_record(run, key, "note", note.kind, pin)
    return cast(int, outcome(step))


async def _write_or_record(run: "JobRun", key: str, kind: str, name: str, write: Callable[[TreeWork], Step]) -> Step:
    """Write a step's transaction; a refusal is the step's recorded error and leaves the journal usable."""
    await run.journal.write()
    try:
        step = await run.core.store.transact(run.tenant, lambda tx: _fenced(run, TreeWork(tx, run.job.tree), write))
    except TransomError as error:
        if isinstance(error, RUNTIME_ERRORS):
            raise
        failed = msgspec.structs.replace(run.journal.step(key, kind, name, "done"), error=run.filters.error(error.info()))
        run.journal.record(failed)
        return failed
    run.journal.steps[key] = step
    return step


def _fenced(run: "JobRun", work: TreeWork, write: Callable[[TreeWork], Step]) -> Step:
    run.core.fence(work.tx, run.job.id, run.epoch)
    step = write(work)
    work.finish()
    return step


async def wait_for_event(
    run: "JobRun", key: str, source: str, match: JsonObject, timeout: float | None = None, call: str = ""
) -> Json:
    """`wait_for_event` under a key that was taken already."""
    checked_seconds(timeout, "ctx.wait_for_event: timeout")
    source = run.filters.text("arguments", source)
    arguments, masked = filtered(run, "arguments", {"match": match, "timeout": timeout})
    known = run.journal.recorded(key, "event", source, arguments, masked=masked)
    if known is None or known.state == "begun":
        now = run.core.clock.now()
        until = now + int(timeout * 1000) if timeout is not None else 0
        step = run.journal.step(key, "event", source, "waiting", arguments=arguments, call=call, until=until, masked=masked)
        waiting = EventWait(source=source, job=run.job.id, step=key, match=cast(JsonObject, arguments["match"]), since=now)
        run.journal.record(step)
        await run.journal.write(lambda work: work.awaits(waiting))
    return outcome(await run.park(key))


def done(run: "JobRun", key: str, kind: str, name: str, result: Json, arguments: Json = None, *, masked: bool = False) -> Step:
    """Record a step that was done at once."""
    begun = run.journal.step(key, kind, name, "done", arguments=arguments, masked=masked)
    step = msgspec.structs.replace(begun, result=result, ended_at=begun.begun_at)
    run.journal.record(step)
    return step
