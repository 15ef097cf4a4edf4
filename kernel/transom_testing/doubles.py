"""Stand-ins that tests control: a clock, and a model."""

from collections import deque
from collections.abc import AsyncIterator

from transom_hookspecs import (
    ModelEnd,
    ModelEvent,
    ModelRequest,
    TextDelta,
    TokenCount,
    ToolCall,
    TransomError,
    hookimpl,
)


class ManualClock:
    """A clock that stands until it is moved. Times are milliseconds (Unix)."""

    def __init__(self, now: int = 1_800_000_000_000) -> None:
        self._now = now

    def now(self) -> int:
        """The time it shows."""
        return self._now

    def forward(self, seconds: float) -> None:
        """Move it on."""
        self._now += int(seconds * 1000)


class FakeModel:
    """A model whose answers the test puts in, one for each call.

    An answer is a list: texts are deltas, `ToolCall`s are its calls, a `TransomError` is raised at that point.
    """

    name = "fake"

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self._answers: deque[list[str | ToolCall | TransomError]] = deque()

    def answers(self, *answers: str | list[str | ToolCall | TransomError]) -> "FakeModel":
        """Put in answers; a text is an answer of one delta."""
        self._answers.extend([answer] if isinstance(answer, str) else answer for answer in answers)
        return self

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Give the next answer."""
        self.requests.append(request)
        if not self._answers:
            raise TransomError("failed_precondition", "the fake model was asked more often than it has answers")
        calls = []
        for part in self._answers.popleft():
            if isinstance(part, TransomError):
                raise part
            if isinstance(part, ToolCall):
                calls.append(part)
            else:
                yield TextDelta(part)
        yield ModelEnd(
            calls=tuple(calls), usage=TokenCount(input_tokens=1, output_tokens=1), finish="calls" if calls else "stop"
        )

    def count(self, request: ModelRequest) -> int:
        """One token a character."""
        return sum(len(message.content) for message in request.messages)

    def plugin(self) -> type:
        """A plugin class that registers this very model."""
        model = self

        class FakeModelPlugin:
            """Registers the test's model."""

            name = "fake_model"
            spec = "1.0"

            def __init__(self, config: object) -> None:
                """Take no settings."""

            @hookimpl
            def register_models(self) -> list[FakeModel]:
                """The test's model."""
                return [model]

        return FakeModelPlugin
