"""The Context: each call is a step with a path key; done already → its record; else do it, record it, return it."""

import random as random_module
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar, cast

import anyio
import msgspec

from transom_hookspecs import (
    NAME,
    Board,
    Branch,
    CallEnded,
    ConcurrentUse,
    Context,
    EventWait,
    Item,
    Job,
    Json,
    JsonObject,
    Message,
    ModelAnswer,
    NewNote,
    Origin,
    Outputs,
    Rule,
    StartJob,
    Step,
    ToolCall,
    ToolResult,
    TransomError,
    Wait,
    WaitDecided,
    WaitKind,
)

from . import calls as calls_module
from . import model_step, schemas, waits
from .journal import outcome
from .run import JobRun
from .start import Parent, start
from .tree import Ended, TreeWork

T = TypeVar("T")


class JobContext:
    """Implements `transom_hookspecs.Context` for one branch of a job; `prefix` is its path with a dot at its end."""

    def __init__(self, run: JobRun, prefix: str = "") -> None:
        self.job = run.facts
        self._run = run
        self._prefix = prefix
        self._count = 0
        self._open = False

    @contextmanager
    def _step(self, call: str) -> Iterator[str]:
        """The key of the next step; refuses a second call while one is open."""
        if self._open:
            raise ConcurrentUse(call)
        self._open = True
        self._count += 1
        try:
            yield f"{self._prefix}{self._count}"
        finally:
            self._open = False

    async def model(
        self,
        model: str,
        messages: Sequence[Message],
        *,
        functions: Sequence[str] = (),
        output_schema: JsonObject | None = None,
        max_tokens: int = 4096,
        temperature: float | None = None,
        options: JsonObject | None = None,
    ) -> ModelAnswer:
        """Ask a model; see `Context.model`."""
        with self._step("model") as key:
            asked = model_step.Asked(
                model=model,
                messages=tuple(messages),
                functions=tuple(functions),
                output_schema=output_schema,
                max_tokens=max_tokens,
                temperature=temperature,
                options=options or {},
            )
            return await model_step.ask(self._run, key, asked)

    async def tools(self, calls: Sequence[ToolCall], *, message: str = "") -> list[ToolResult]:
        """Make a model's calls at once; see `Context.tools`."""
        with self._step("tools") as key:
            return await calls_module.make(self, self._run, key, calls, message)

    async def call(self, function: str, arguments: JsonObject | None = None) -> Json:
        """Make one call of the agent's own; see `Context.call`."""
        with self._step("call") as key:
            made = ToolCall(id=f"{self.job.id}:{key}", function=function, arguments=arguments or {})
            (result,) = await calls_module.make(self, self._run, key, [made], "")
        if result.error is not None:
            raise result.error.error()
        return result.content

    async def delegate(self, agent: str, input: Json = None, *, timeout: float | None = None, tags: Sequence[str] = ()) -> Json:
        """Start another agent and wait for its answer; see `Context.delegate`."""
        with self._step("delegate") as key:
            return await self.delegate_at(key, agent, input, timeout, tags)

    async def delegate_at(
        self, key: str, agent: str, input: Json, timeout: float | None = None, tags: Sequence[str] = (), call: str = ""
    ) -> Json:
        """`delegate` under a key that was taken already; `call` is the model's call that asked for it."""
        run = self._run
        arguments: JsonObject = {"input": input, "timeout": timeout, "tags": list(tags)}
        step = run.journal.recorded(key, "delegate", agent, arguments)
        if step is None or step.state == "begun":
            step = Step(
                job=run.job.id,
                key=key,
                kind="delegate",
                name=agent,
                state="waiting",
                arguments=arguments,
                call=call,
                begun_at=run.core.clock.now(),
            )
            await run.journal.write()
            request = StartJob(agent=agent, input=input, timeout=timeout, tags=tuple(tags))
            origin = Origin(tenant=run.tenant, caller=run.job.caller, door="delegate")
            try:
                started = await start(run.core, request, origin, Parent(job=run.job, epoch=run.epoch, step=step))
            except TransomError as error:
                run.journal.record(msgspec.structs.replace(step, state="done", error=error.info()))
                raise
            run.journal.steps[key] = msgspec.structs.replace(step, child=started.job.id)
        return outcome(await run.park(key))

    async def say(self, text: str) -> str:
        """Add a message of the agent's own words; see `Context.say`."""
        with self._step("say") as key:
            run = self._run
            step = run.journal.recorded(key, "say", "")
            if step is None:
                said = run.filters.text("model", text)
                step = self._done(key, "say", "", said)
                run.say(f"{run.job.id}:{key}", said)
            return cast(str, step.result)

    async def ask(
        self,
        message: str,
        *,
        choices: Sequence[str] = (),
        schema: JsonObject | None = None,
        kind: WaitKind = "question",
        rule: Rule | None = None,
        details: Json = None,
        timeout: float | None = None,
    ) -> Json:
        """Ask a person and wait; see `Context.ask`."""
        with self._step("ask") as key:
            return await self.ask_at(
                key, message, choices=choices, schema=schema, kind=kind, rule=rule, details=details, timeout=timeout
            )

    async def ask_at(
        self,
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
        run = self._run
        arguments: JsonObject = {"message": message, "choices": list(choices), "details": details}
        known = run.journal.recorded(key, "ask", kind, arguments)
        if known is None or known.state == "begun":
            if schema is not None:
                schemas.check_schema(schema, "ask: schema")
            step = Step(
                job=run.job.id,
                key=key,
                kind="ask",
                name=kind,
                state="waiting",
                arguments=arguments,
                call=call,
                begun_at=run.core.clock.now(),
            )
            wait = waits.make_wait(
                run.core,
                run.job,
                step,
                kind=kind,
                message=run.filters.text("model", message),
                rule=rule or Rule(),
                arguments=details,
                shown=run.filters.value("model", details),
                schema=schema,
                choices=choices,
                seconds=timeout,
            )
            await self.open_wait(step, wait)
        return outcome(await run.park(key))

    async def open_wait(self, step: Step, wait: Wait) -> None:
        """Write a step that waits for a person, and its wait."""
        run = self._run
        run.journal.record(msgspec.structs.replace(step, state="waiting", until=wait.expires_at))
        await run.journal.write(lambda work: work.opened(wait, waits.opened(wait)))

    async def missing(self, message: str) -> None:
        """Wait until a person says that the job's agent is installed again, then start over."""
        run = self._run
        step = run.journal.steps.get("0")
        if step is None or step.state != "waiting":
            attempt = step.attempt + 1 if step else 1
            step = Step(job=run.job.id, key="0", kind="ask", name="restart", state="waiting", attempt=attempt)
            wait = waits.make_wait(run.core, run.job, step, kind="restart", message=message, rule=Rule())
            await self.open_wait(step, wait)
        await run.park("0")
        await run.come_back()

    async def note(self, text: str, *, kind: str = "note", tags: Sequence[str] = (), supersedes: int = 0) -> int:
        """Pin a note to the tree's board; see `Context.note`."""
        with self._step("note") as key:
            return await self.note_at(key, NewNote(text=text, kind=kind, tags=tuple(tags), supersedes=supersedes))

    async def note_at(self, key: str, note: NewNote, call: str = "") -> int:
        """`note` under a key that was taken already."""
        run = self._run
        step = run.journal.recorded(key, "note", note.kind)
        if step is None or step.state == "begun":
            board = run.core.service(Board)
            if board is None:
                raise TransomError("failed_precondition", "there is no board here; enable a plugin that offers one")
            kept = msgspec.structs.replace(
                note, text=run.filters.text("note", note.text), tags=tuple(run.filters.text("note", t) for t in note.tags)
            )

            def pin(work: TreeWork) -> Step:
                job = work.tx.get(Job, run.job.id)
                assert job is not None
                event = board.pin(work.tx, job, kept, call)
                if call:
                    work.log(CallEnded(job=job.id, call=call, content={"note": event.id}))
                work.log(event)
                done = Step(job=job.id, key=key, kind="note", name=note.kind, state="done", result=event.id, call=call)
                work.tx.put(done)
                return done

            step = await self._write_or_record(key, "note", note.kind, pin)
        return cast(int, outcome(step))

    async def _write_or_record(self, key: str, kind: str, name: str, write: Callable[[TreeWork], Step]) -> Step:
        """Write a step's transaction; a refusal is the step's recorded error and leaves the journal usable."""
        run = self._run
        await run.journal.write()
        try:
            step = await run.core.store.transact(run.tenant, lambda tx: self._fenced(TreeWork(tx, run.job.tree), write))
        except TransomError as error:
            if error.code in ("aborted", "unavailable"):
                raise
            failed = Step(job=run.job.id, key=key, kind=kind, name=name, state="done", error=error.info())
            run.journal.record(failed)
            return failed
        run.journal.steps[key] = step
        return step

    def _fenced(self, work: TreeWork, write: Callable[[TreeWork], Step]) -> Step:
        run = self._run
        run.core.fence(work.tx, run.job.id, run.epoch)
        step = write(work)
        work.finish()
        return step

    async def output(self, output: str, arguments: JsonObject) -> Json:
        """Queue a safe output; see `Context.output`."""
        with self._step("output") as key:
            run = self._run
            step = run.journal.recorded(key, "output", output, arguments)
            if step is None:
                service = run.core.service(Outputs)
                if service is None:
                    raise TransomError(
                        "failed_precondition", "there are no safe outputs here; enable a plugin that offers them"
                    )
                await run.journal.write()
                result = await service.queue(run.tenant, run.job, key, output, arguments)
                step = self._done(key, "output", output, result, arguments)
            return outcome(step)

    async def wait_for_event(self, source: str, *, match: JsonObject | None = None, timeout: float | None = None) -> Json:
        """Wait for an outside event; see `Context.wait_for_event`."""
        with self._step("wait_for_event") as key:
            return await self.wait_for_event_at(key, source, match or {}, timeout)

    async def wait_for_event_at(
        self, key: str, source: str, match: JsonObject, timeout: float | None = None, call: str = ""
    ) -> Json:
        """`wait_for_event` under a key that was taken already."""
        run = self._run
        arguments: JsonObject = {"match": match, "timeout": timeout}
        known = run.journal.recorded(key, "event", source, arguments)
        if known is None or known.state == "begun":
            now = run.core.clock.now()
            step = Step(
                job=run.job.id,
                key=key,
                kind="event",
                name=source,
                state="waiting",
                arguments=arguments,
                until=now + int(timeout * 1000) if timeout is not None else 0,
                call=call,
                begun_at=now,
            )
            waiting = EventWait(source=source, job=run.job.id, step=key, match=match, since=now)
            run.journal.record(step)
            await run.journal.write(lambda work: work.awaits(waiting))
        return outcome(await run.park(key))

    async def sleep(self, seconds: float) -> None:
        """Wait; see `Context.sleep`."""
        with self._step("sleep") as key:
            run = self._run
            if run.journal.recorded(key, "sleep", "") is None:
                now = run.core.clock.now()
                until = now + max(1, int(seconds * 1000))
                run.journal.record(
                    Step(job=run.job.id, key=key, kind="sleep", name="", state="waiting", until=until, begun_at=now)
                )
                await run.journal.write()
            outcome(await run.park(key))

    async def now(self) -> int:
        """The time, the same on replay; see `Context.now`."""
        with self._step("now") as key:
            step = self._run.journal.recorded(key, "now", "") or self._done(key, "now", "", self._run.core.clock.now())
            return cast(int, step.result)

    async def random(self) -> float:
        """A random number, the same on replay; see `Context.random`."""
        with self._step("random") as key:
            step = self._run.journal.recorded(key, "random", "")
            step = step or self._done(key, "random", "", random_module.SystemRandom().random())
            return cast(float, step.result)

    def _done(self, key: str, kind: str, name: str, result: Json, arguments: Json = None) -> Step:
        now = self._run.core.clock.now()
        step = Step(
            job=self._run.job.id,
            key=key,
            kind=kind,
            name=name,
            state="done",
            result=result,
            arguments=arguments,
            begun_at=now,
            ended_at=now,
        )
        self._run.journal.record(step)
        return step

    async def together(self, *branches: Branch[T]) -> list[T]:
        """Run branches at once; see `Context.together`."""
        with self._step("together") as key:
            failed = self._run.journal.recorded(key, "together", "")
            if failed is not None:
                outcome(failed)
            results: dict[int, T] = {}

            async def run_one(i: int, branch: Branch[T]) -> None:
                results[i] = await branch(self._branch(key, i))

            try:
                await self.fan_out([lambda i=i, b=b: run_one(i, b) for i, b in enumerate(branches)])  # type: ignore[misc]
            except Exception as error:
                info = error.info() if isinstance(error, TransomError) else None
                step = Step(job=self.job.id, key=key, kind="together", name="", state="done", error=info)
                await self._abandon(key, step if info else None, keep=-1)
                raise
            return [results[i] for i in range(len(branches))]

    async def first(self, *branches: Branch[T]) -> tuple[int, T]:
        """Run branches at once until one ends; see `Context.first`."""
        with self._step("first") as key:
            won = self._run.journal.recorded(key, "first", "")
            if won is not None:
                index = cast(int, won.result)
                return index, await branches[index](self._branch(key, index))
            winner: list[tuple[int, T]] = []

            async def race(i: int, branch: Branch[T], scope: anyio.CancelScope) -> None:
                result = await branch(self._branch(key, i))
                if not winner:
                    winner.append((i, result))
                    scope.cancel()

            with anyio.CancelScope() as scope:
                await self.fan_out([lambda i=i, b=b: race(i, b, scope) for i, b in enumerate(branches)])  # type: ignore[misc]
            if not winner:
                await anyio.sleep_forever()  # the whole job is being stopped
            step = Step(job=self.job.id, key=key, kind="first", name="", state="done", result=winner[0][0])
            await self._abandon(key, step, keep=winner[0][0])
            return winner[0]

    def _branch(self, key: str, index: int) -> Context:
        return JobContext(self._run, f"{key}.{index + 1}.")

    async def fan_out(self, branches: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """Run branches at once and wait for all; the first error, cleaned of its group, is raised."""
        run = self._run
        if not branches:
            return
        others = len(branches) - 1
        run.live += others

        async def one(branch: Callable[[], Awaitable[None]]) -> None:
            nonlocal others
            await branch()
            if others:
                others -= 1
                await run.branch_ended()

        try:
            async with anyio.create_task_group() as group:
                for branch in branches:
                    group.start_soon(one, branch)
        except BaseExceptionGroup as errors:
            raise first_error(errors) from errors
        finally:
            run.live -= others

    async def _abandon(self, key: str, step: Step | None, *, keep: int) -> None:
        """Record how branches ended, and cancel what those that lost still wait for."""
        run = self._run
        lost = [
            s
            for s in run.journal.steps.values()
            if s.state == "waiting" and s.key.startswith(f"{key}.") and not s.key.startswith(f"{key}.{keep + 1}.")
        ]
        if step is not None:
            run.journal.record(step)
        for each in lost:
            run.journal.steps[each.key] = msgspec.structs.replace(each, state="done")
        if lost:
            await run.journal.write(lambda work: abandon(work, lost))

    def named(self, name: str) -> "JobContext":
        """A Context whose steps have keys under a name; see `Context.named`."""
        if not NAME.match(name) or name.isdecimal():
            raise TransomError(
                "invalid_argument", f"ctx.named: {name!r} is no name; use letters, digits, - and _, not a number"
            )
        return JobContext(self._run, f"{self._prefix}{name}.")

    async def history(self, limit: int = 200) -> list[Item]:
        """The conversation's items before this turn; see `Context.history`."""
        run = self._run
        if not run.job.conversation:
            return []
        found: list[Item] = []
        after: tuple[int] | None = None
        while len(found) < limit:
            page = await run.core.store.select(
                run.tenant, Item, "latest", {"conversation": run.job.conversation}, after=after, limit=200
            )
            found += [item for item in page if item.turn < run.job.turn]
            if len(page) < 200:
                break
            after = (page[-1].number,)
        return found[:limit][::-1]

    async def functions(self, names: Sequence[str]) -> list[str]:
        """The full names that names and patterns stand for; see `Context.functions`."""
        return self._run.core.catalog.names(names)


def abandon(work: TreeWork, steps: Sequence[Step]) -> None:
    """Cancel the children and waits of steps that nobody waits for any more."""
    tx = work.tx
    for step in steps:
        child = tx.get(Job, step.child) if step.child else None
        tx.put(msgspec.structs.replace(step, state="done", result=None))
        if child is not None:
            work.end(child, Ended(status="cancelled"))
        for wait in tx.select(Wait, "job", {"job": step.job, "open": True}):
            if wait.step == step.key:
                work.closed(wait, outcome="cancelled", decided_by="system:first", decided_at=tx.now)
                work.log(WaitDecided(job=wait.job, wait=wait.id, outcome="cancelled", by="system:first"))
        for waiting in tx.select(EventWait, "job", {"job": step.job}):
            if waiting.step == step.key:
                work.no_longer_awaits(waiting)


def first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended a group; a cancellation only when there is nothing else."""
    for error in errors.exceptions:
        found = first_error(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, Exception):
            return found
    return errors.exceptions[0]


__all__ = ["JobContext", "ToolResult", "abandon"]
