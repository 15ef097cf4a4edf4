"""The Context: each call is a step with a path key; done already → its record; else do it, record it, return it."""

import random as random_module
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar, cast

import anyio

from transom_hookspecs import (
    NAME,
    Branch,
    ConcurrentUse,
    Context,
    Item,
    Json,
    JsonObject,
    Message,
    ModelAnswer,
    NewNote,
    Outputs,
    Rule,
    ToolCall,
    ToolResult,
    TransomError,
    WaitKind,
)

from . import branches as branches_module
from . import calls as calls_module
from . import model_step, steps
from .journal import outcome
from .run import JobRun

T = TypeVar("T")


class JobContext:
    """Implements `transom_hookspecs.Context` for one branch of a job; `prefix` is its path with a dot at its end."""

    def __init__(self, run: JobRun, prefix: str = "") -> None:
        self.job = run.facts
        self._run = run
        self._prefix = prefix
        self._count = 0
        self._open = False
        self._named: set[str] = set()

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
                model=self._run.filters.text("arguments", model),
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
            return await calls_module.make(self._run, key, calls, message)

    async def call(self, function: str, arguments: JsonObject | None = None) -> Json:
        """Make one call of the agent's own; see `Context.call`."""
        with self._step("call") as key:
            made = ToolCall(id=f"{self.job.id}:{key}", function=function, arguments=arguments or {})
            (result,) = await calls_module.make(self._run, key, [made], "")
        if result.error is not None:
            raise result.error.error()
        return result.content

    async def delegate(self, agent: str, input: Json = None, *, timeout: float | None = None, tags: Sequence[str] = ()) -> Json:
        """Start another agent and wait for its answer; see `Context.delegate`."""
        with self._step("delegate") as key:
            named = self._run.filters.text("arguments", agent)
            return await steps.delegate(self._run, key, named, input, timeout, tags)

    async def say(self, text: str) -> str:
        """Add a message of the agent's own words; see `Context.say`."""
        with self._step("say") as key:
            run = self._run
            step = run.journal.recorded(key, "say", "")
            if step is None:
                said = run.filters.text("model", text)
                step = steps.done(self._run, key, "say", "", said)
                run.say(f"{run.job.id}:{key}", said)
            run.said = cast("str", step.result)
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
            return await steps.ask(
                self._run, key, message, choices=choices, schema=schema, kind=kind, rule=rule, details=details, timeout=timeout
            )

    async def note(self, text: str, *, kind: str = "note", tags: Sequence[str] = (), supersedes: int = 0) -> int:
        """Pin a note to the tree's board; see `Context.note`."""
        with self._step("note") as key:
            return await steps.note(self._run, key, NewNote(text=text, kind=kind, tags=tuple(tags), supersedes=supersedes))

    async def output(self, output: str, arguments: JsonObject) -> Json:
        """Queue a safe output; see `Context.output`."""
        with self._step("output") as key:
            run = self._run
            output = run.filters.text("output", output)
            arguments, masked = steps.filtered(run, "output", arguments)
            step = run.journal.recorded(key, "output", output, arguments, masked=masked)
            if step is None:
                service = run.core.service(Outputs)
                if service is None:
                    raise TransomError(
                        "failed_precondition", "there are no safe outputs here; enable a plugin that offers them"
                    )
                await run.journal.write()
                result = run.filters.value("tool", await service.queue(run.tenant, run.job, key, output, arguments))
                step = steps.done(self._run, key, "output", output, result, arguments, masked=masked)
            return outcome(step)

    async def wait_for_event(self, source: str, *, match: JsonObject | None = None, timeout: float | None = None) -> Json:
        """Wait for an outside event; see `Context.wait_for_event`."""
        with self._step("wait_for_event") as key:
            return await steps.wait_for_event(self._run, key, source, match or {}, timeout)

    async def sleep(self, seconds: float) -> None:
        """Wait; see `Context.sleep`."""
        steps.checked_seconds(seconds, "ctx.sleep: seconds")
        with self._step("sleep") as key:
            run = self._run
            if run.journal.recorded(key, "sleep", "") is None:
                now = run.core.clock.now()
                until = now + max(1, int(seconds * 1000))
                run.journal.record(run.journal.step(key, "sleep", "", "waiting", until=until))
                await run.journal.write()
            outcome(await run.park(key))

    async def now(self) -> int:
        """The time, the same on replay; see `Context.now`."""
        with self._step("now") as key:
            run = self._run
            step = run.journal.recorded(key, "now", "") or steps.done(run, key, "now", "", run.core.clock.now())
            return cast(int, step.result)

    async def random(self) -> float:
        """A random number, the same on replay; see `Context.random`."""
        with self._step("random") as key:
            step = self._run.journal.recorded(key, "random", "")
            step = step or steps.done(self._run, key, "random", "", random_module.SystemRandom().random())
            return cast(float, step.result)

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
                await branches_module.fan_out(self._run, [lambda i=i, b=b: run_one(i, b) for i, b in enumerate(branches)])  # type: ignore[misc]
            except Exception as error:
                raise await branches_module.record_failure(self._run, key, "together", error) from error
            return [results[i] for i in range(len(branches))]

    async def first(self, *branches: Branch[T]) -> tuple[int, T]:
        """Run branches at once until one ends; see `Context.first`."""
        if not branches:
            raise TransomError("invalid_argument", "ctx.first: give at least one branch")
        with self._step("first") as key:
            won = self._run.journal.recorded(key, "first", "")
            if won is not None:
                index = cast(int, outcome(won))
                return index, await branches[index](self._branch(key, index))
            winner: list[tuple[int, T]] = []

            async def race(i: int, branch: Branch[T], scope: anyio.CancelScope) -> None:
                result = await branch(self._branch(key, i))
                if not winner:
                    winner.append((i, result))
                    scope.cancel()

            try:
                with anyio.CancelScope() as scope:
                    racing = [lambda i=i, b=b: race(i, b, scope) for i, b in enumerate(branches)]
                    await branches_module.fan_out(self._run, racing)
            except Exception as error:
                if not winner:
                    raise await branches_module.record_failure(self._run, key, "first", error) from error
            if not winner:
                await anyio.sleep_forever()  # the whole job is being stopped
            step = steps.done(self._run, key, "first", "", winner[0][0])
            await branches_module.record_and_abandon(self._run, key, step, keep=winner[0][0])
            return winner[0]

    def _branch(self, key: str, index: int) -> Context:
        return JobContext(self._run, f"{key}.{index + 1}.")

    def named(self, name: str) -> "JobContext":
        """A Context whose steps have keys under a name; see `Context.named`."""
        if not NAME.match(name) or name.isdecimal():
            raise TransomError(
                "invalid_argument", f"ctx.named: {name!r} is no name; use letters, digits, - and _, not a number"
            )
        if name in self._named:
            raise TransomError("invalid_argument", f"ctx.named: {name!r} was used before; a name is used once")
        self._named.add(name)
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
