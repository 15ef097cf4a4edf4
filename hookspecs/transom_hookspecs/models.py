"""The model family: language models, asked for one answer at a time and streamed."""

from collections.abc import AsyncIterator, Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from .conversations import ToolCall
from .markers import hookspec
from .values import Json, JsonObject


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message of a model's prompt.

    Parameters:
        content: text; for role `tool` the result as text.
        calls: what an assistant message called.
        call: which call a `tool` message answers, and `function` its name.
        reasoning: the model's own reasoning, given back as it came when the next request needs it.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    call: str = ""
    function: str = ""
    error: bool = False
    reasoning: JsonObject = {}


class FunctionSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A function as a model is told of it; `name` is `<tool>.<function>`."""

    name: str
    description: str
    parameters: JsonObject


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is asked.

    Parameters:
        output_schema: what a final answer must match (structured output); None for text.
        max_tokens: always set; the upper bound of output tokens.
        temperature: None leaves it to the model.
        idempotency_key: of this attempt.
    """

    messages: tuple[Message, ...]
    functions: tuple[FunctionSpec, ...] = ()
    output_schema: JsonObject | None = None
    max_tokens: int = 4096
    temperature: float | None = None
    idempotency_key: str = ""
    options: JsonObject = {}


class TokenCount(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a call used; `estimated` when the provider did not say."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0
    estimated: bool = False


class ModelPrice(msgspec.Struct, frozen=True, kw_only=True):
    """Micro-USD for a million tokens; `cached`: for input tokens that the provider had cached."""

    input: int
    output: int
    cached: int


class TextDelta(msgspec.Struct, frozen=True):
    """More text of the answer, as it comes."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True):
    """More of the model's reasoning; never part of the answer."""

    text: str


class ModelEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The last thing of a stream: the calls it asks for, and what it used.

    Parameters:
        finish: why it ended: stop, length, calls, content_filter or unknown.
        reasoning: what must go back with the next request, under the provider's own names.
    """

    calls: tuple[ToolCall, ...] = ()
    usage: TokenCount = TokenCount()
    finish: Literal["stop", "length", "calls", "content_filter", "unknown"] = "stop"
    reasoning: JsonObject = {}


ModelEvent = TextDelta | ReasoningDelta | ModelEnd


class Model(Protocol):
    """A language model under one name."""

    name: str

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask, and yield what comes: deltas, then exactly one ModelEnd.

        Raises:
            TransomError: unavailable (may be tried again), resource_exhausted (rate limit), deadline_exceeded,
                invalid_argument or failed_precondition (trying again is no use). A stream that ends without a
                ModelEnd counts as cut.
        """

    def count(self, request: ModelRequest) -> int:
        """An upper bound of the request's input tokens."""


@runtime_checkable
class Priced(Protocol):
    """A model that knows its own price, so that nobody has to set one before what it costs can be capped."""

    @property
    def price(self) -> ModelPrice | None:
        """What its tokens cost; None when it does not know after all."""


class ModelHooks:
    """Hooks of the model family."""

    @hookspec
    def register_models(self) -> Sequence[Model]:  # type: ignore[empty-body]
        """Return models; agents name them."""


__all__ = [
    "FunctionSpec",
    "Json",
    "Message",
    "Model",
    "ModelEnd",
    "ModelEvent",
    "ModelHooks",
    "ModelPrice",
    "ModelRequest",
    "Priced",
    "ReasoningDelta",
    "TextDelta",
    "TokenCount",
    "ToolCall",
]
