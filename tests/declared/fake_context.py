"""A Context that does nothing durable: it answers as a test says, and keeps what it was asked."""

from collections.abc import Callable, Sequence
from typing import Any

import anyio

from transom_hookspecs import (
    Caller,
    ConcurrentUse,
    ErrorInfo,
    Item,
    JobFacts,
    Json,
    Message,
    ModelAnswer,
    ModelEnd,
    ToolCall,
    ToolResult,
    TransomError,
)


def text(answer: str, finish: str = "stop") -> ModelAnswer:
    """A model's answer in words."""
    return ModelAnswer(message="j1:1", text=answer, end=ModelEnd(finish=finish))


def calls(*wanted: tuple[str, dict[str, Json]], words: str = "") -> ModelAnswer:
    """A model's answer that asks for calls, numbered c1, c2, …"""
    made = tuple(ToolCall(id=f"c{n}", function=name, arguments=arguments) for n, (name, arguments) in enumerate(wanted, 1))
    return ModelAnswer(message="j1:1", text=words, end=ModelEnd(calls=made, finish="calls"))


class FakeContext:
    """Answers from `answers` (models), `does` (functions, agents as `agent.<name>`, outputs as `output.<name>`), `said`
    (questions) and `events`; what is an exception is raised. `seen` is every call, `asked` every model request.
    """

    def __init__(
        self,
        *,
        answers: Sequence[ModelAnswer] = (),
        does: dict[str, Json | Exception | Callable[..., Json]] | None = None,
        said: Sequence[Json] = (),
        events: Sequence[Json] = (),
        items: Sequence[Item] = (),
        conversation: str = "",
    ):
        caller = Caller(kind="person", id="anna", tenant="default")
        self.job = JobFacts(id="j1", tenant="default", tree="j1", agent="x", caller=caller, conversation=conversation)
        self.answers, self.said, self.events = list(answers), list(said), list(events)
        self.does = does or {}
        self.items = list(items)
        self.seen: list[tuple[Any, ...]] = []
        self.asked: list[dict[str, Any]] = []
        self._busy = False

    def named(self, name: str) -> "FakeContext":
        return self

    def _branch(self) -> "FakeContext":
        branch = object.__new__(FakeContext)
        branch.__dict__ = {**self.__dict__, "_busy": False}
        return branch

    async def _step(self, *call: Any) -> None:
        if self._busy:
            raise ConcurrentUse(call[0])
        self._busy = True
        self.seen.append(call)
        await anyio.lowlevel.checkpoint()
        self._busy = False

    def _do(self, name: str, *arguments: Json) -> Json:
        found = self.does[name]
        if isinstance(found, Exception):
            raise found
        return found(*arguments) if callable(found) else found

    async def model(self, model: str, messages: Sequence[Message], **options: Any) -> ModelAnswer:
        await self._step("model", model)
        self.asked.append({"model": model, "messages": tuple(messages), **options})
        return self.answers.pop(0)

    async def tools(self, calls: Sequence[ToolCall], *, message: str = "") -> list[ToolResult]:
        await self._step("tools", tuple(call.function for call in calls), message)
        return [self._result(call) for call in calls]

    def _result(self, call: ToolCall) -> ToolResult:
        try:
            return ToolResult(call=call.id, function=call.function, content=self._do(call.function, call.arguments))
        except TransomError as error:
            return ToolResult(call=call.id, function=call.function, error=ErrorInfo(code=error.code, message=error.message))

    async def call(self, function: str, arguments: dict[str, Json] | None = None) -> Json:
        await self._step("call", function, arguments)
        return self._do(function, arguments)

    async def delegate(self, agent: str, input: Json = None, *, timeout: float | None = None, tags: Sequence[str] = ()) -> Json:
        await self._step("delegate", agent, input, timeout)
        return self._do(f"agent.{agent}", input)

    async def ask(self, message: str, *, choices: Sequence[str] = (), schema: Any = None, timeout: float | None = None) -> Json:
        await self._step("ask", message, list(choices), schema, timeout)
        return self.said.pop(0)

    async def wait_for_event(self, source: str, *, match: Any = None, timeout: float | None = None) -> Json:
        await self._step("wait", source, match, timeout)
        return self.events.pop(0)

    async def output(self, output: str, arguments: dict[str, Json]) -> Json:
        await self._step("output", output, arguments)
        return self._do(f"output.{output}", arguments)

    async def sleep(self, seconds: float) -> None:
        await self._step("sleep", seconds)

    async def history(self, limit: int = 200) -> list[Item]:
        await self._step("history")
        return self.items[-limit:]

    async def together(self, *branches: Callable[["FakeContext"], Any]) -> list[Any]:
        await self._step("together", len(branches))
        self._busy = True
        results: list[Any] = [None] * len(branches)

        async def run(number: int, branch: Callable[["FakeContext"], Any]) -> None:
            results[number] = await branch(self._branch())

        try:
            async with anyio.create_task_group() as group:
                for number, branch in enumerate(branches):
                    group.start_soon(run, number, branch)
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        self._busy = False
        return results
