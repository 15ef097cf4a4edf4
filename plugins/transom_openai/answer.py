"""One answer as it comes: chunks in, what a model yields out. A pure state machine, without clock or network."""

import logging
from collections.abc import Callable
from typing import Literal

from transom_hookspecs import (
    JsonObject,
    ModelEnd,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    TokenCount,
    ToolCall,
)

from .calls import CallCollector, RawCall
from .failures import Failures, ProviderError
from .jsontext import PairJoiner, list_of, object_of, text_of
from .names import CallIds, FunctionNames
from .reasoning import ReasoningCollector
from .schema_answer import Choice, SchemaAnswer
from .settings import ModelSettings
from .think import ThinkSplitter
from .usage import priced, reported

ANSWER_LIMIT = 8 << 20

Finish = Literal["stop", "length", "calls", "content_filter", "unknown"]
_FINISH: dict[str, Finish] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "calls",
    "function_call": "calls",
    "content_filter": "content_filter",
}
_log = logging.getLogger(__name__)


class Answer:
    """The answer to one request.

    Parameters:
        failures: makes its errors.
        bound: an upper bound of the request's input tokens, for a server that does not count.
    """

    def __init__(self, request: ModelRequest, settings: ModelSettings, failures: Failures, bound: Callable[[], int]) -> None:
        self._request = request
        self._settings = settings
        self._failures = failures
        self._bound = bound
        chooses = settings.tools == "schema" and bool(request.functions)
        self._chooser = SchemaAnswer(structured=request.output_schema is not None) if chooses else None
        self._think = ThinkSplitter(enabled=settings.think_tags)
        self._pairs = PairJoiner()
        self._reasoning = ReasoningCollector()
        self._calls = CallCollector()
        self._names = FunctionNames(function.name for function in request.functions)
        self._ids = CallIds(call.id for message in request.messages for call in message.calls)
        self._size = 0
        self._reason = ""
        self._usage: TokenCount | None = None
        self._usage_alone = False

    @property
    def complete(self) -> bool:
        """Whether it may end here: the server said why it ended, or sent the usage with nothing else."""
        return bool(self._reason) or self._usage_alone

    def feed(self, chunk: JsonObject) -> list[ModelEvent]:
        """What is certain with this chunk.

        Raises:
            ProviderError: the chunk is an error, or the answer is too long.
        """
        choice = self._choice(chunk)
        error = chunk.get("error") or choice.get("error")
        if error or chunk.get("object") == "error":
            raise self._failures.in_stream({"error": error} if error else chunk)
        delta = object_of(choice.get("delta")) or object_of(choice.get("message"))
        before = self._size
        events = self._on_delta(delta)
        self._reason = text_of(choice.get("finish_reason")) or self._reason
        usage = reported(object_of(chunk.get("usage")))
        self._usage = usage or self._usage
        self._usage_alone = self._size == before and (self._usage_alone or usage is not None)
        return events

    def close(self, *, done: bool) -> list[ModelEvent]:
        """What is left when the response is over; the last is the ModelEnd.

        Parameters:
            done: the server itself ended the stream.

        Raises:
            ProviderError: the answer was cut, is empty without a reason, or has calls that cannot be made.
        """
        if not (done or self.complete):
            raise self._failures.broken("the answer was cut before its end")
        if not self._size and not self._reason:
            raise self._failures.broken("the answer is empty and says no reason")
        if self._reason == "error":
            raise self._failures.broken("the server ended the answer with an error")
        events = self._flush()
        rest, calls = self._chosen() if self._chooser else ("", self._made())
        if self._finish == "calls" and not calls:
            raise self._failures.broken("the answer ends for calls and has none")
        finish: Finish = "calls" if calls else self._finish
        end = ModelEnd(calls=calls, usage=self._count(), finish=finish, reasoning=self._reasoning.fields())
        return [*events, *_deltas("", rest), end]

    @property
    def _finish(self) -> Finish:
        return _FINISH.get(self._reason, "unknown")

    @staticmethod
    def _choice(chunk: JsonObject) -> JsonObject:
        """The first choice: one is asked for."""
        choices = [object_of(choice) for choice in list_of(chunk.get("choices"))]
        return next((choice for choice in choices if choice.get("index") in (0, None)), {})

    def _on_delta(self, delta: JsonObject) -> list[ModelEvent]:
        reasoning = self._reasoning.feed(delta)
        text = text_of(delta.get("content")) + text_of(delta.get("refusal"))
        self._grow(_bytes(reasoning) + _bytes(text))
        for call in list_of(delta.get("tool_calls")):
            self._grow(self._calls.add(object_of(call)))
        return [*_deltas(reasoning, ""), *self._on_text(self._pairs.feed(text))]

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > ANSWER_LIMIT:
            raise ProviderError("failed_precondition", f"the answer has more than {ANSWER_LIMIT >> 20} MiB; lower max_tokens")

    def _on_text(self, text: str) -> list[ModelEvent]:
        return self._split(*self._think.feed(text)) if text else []

    def _split(self, reasoning: str, text: str) -> list[ModelEvent]:
        return _deltas(reasoning, self._chooser.feed(text) if self._chooser and text else text)

    def _flush(self) -> list[ModelEvent]:
        """What was held back because more could have changed its meaning."""
        reasoning = _deltas(self._reasoning.flush(), "")
        return [*reasoning, *self._on_text(self._pairs.flush()), *self._split(*self._think.flush())]

    def _chosen(self) -> tuple[str, tuple[ToolCall, ...]]:
        """The rest of the text, and the call, of a model that chose by schema."""
        assert self._chooser is not None
        try:
            rest, choice = self._chooser.end()
        except ValueError as error:
            if self._finish in ("length", "content_filter"):
                return "", ()
            raise self._failures.broken(f"the answer does not match its schema: {error}") from error
        return rest, (self._call(choice, ""),) if choice and self._finish != "content_filter" else ()

    def _made(self) -> tuple[ToolCall, ...]:
        """The calls of a model that has them; what a filter stopped is not to be done."""
        if self._finish == "content_filter":
            return ()
        read = [(raw, self._read(raw)) for raw in self._calls.calls]
        return tuple(self._call(choice, raw.id) for raw, choice in read if choice)

    def _read(self, raw: RawCall) -> Choice | None:
        """A call as it can be made; None for one that the token limit cut."""
        stopped = self._finish == "length"
        if not raw.name and not stopped:
            raise self._failures.broken("a call names no function")
        try:
            if raw.name and (raw.text or not stopped):
                return Choice(self._names.from_wire(raw.name), raw.arguments())
        except ValueError as error:
            if not stopped:
                raise self._failures.broken(f"the arguments for {raw.name[:64]!r} are no JSON object: {error}") from error
        _log.warning("left out a call that the token limit cut")
        return None

    def _call(self, choice: Choice, id: str) -> ToolCall:
        return ToolCall(id=self._ids.take(id), function=choice.function, arguments=choice.arguments)

    def _count(self) -> TokenCount:
        """The server's count, else an upper bound: a token is at least one byte."""
        count = self._usage or TokenCount(
            input_tokens=self._bound(), output_tokens=min(self._size, self._request.max_tokens), estimated=True
        )
        return priced(count, self._settings.prices)


def _deltas(reasoning: str, text: str) -> list[ModelEvent]:
    events: list[ModelEvent] = []
    if reasoning:
        events.append(ReasoningDelta(reasoning))
    if text:
        events.append(TextDelta(text))
    return events


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
