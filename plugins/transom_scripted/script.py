"""The script language: data that says what the model answers. It stands in an agent's `options: {script: …}`.

A script is one answer, or `{"turns": [answer, …]}` with an answer for each time that the model is asked about one
user message. An answer is any of these together, in this order:

    wait_ms      how long it waits before it says anything
    its text     one of
                   echo: true                      the last user message
                   text: "…"                       these words; an object or list is written as JSON
                   ok: "…", failed: "…"            by whether all of the last calls ran, or one failed or was refused
                   each: {ok: "…", failed: "…"}    a sentence for each of the last calls, joined by spaces
                   stream: {deltas, bytes, delay_ms}   that many pieces of that many bytes, that far apart
    delay_ms     how long it waits between two words
    error        {code, message}: it fails then
    calls        [{function, arguments}]: the functions it asks for

All of it may hold references such as `{input.repo}`; see `template`.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, cast

import msgspec

from transom_hookspecs import Code, Json, JsonObject, Message, ModelRequest, TransomError

from .template import fill, written

Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=3_600_000)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of what a script is made of."""


class Stream(_Part, frozen=True, kw_only=True):
    """Text by measure: `deltas` pieces of `bytes` bytes each, `delay_ms` apart."""

    deltas: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
    bytes: Annotated[int, msgspec.Meta(ge=1, le=65_536)] = 50
    delay_ms: Milliseconds = 0

    def pieces(self) -> Iterator[str]:
        """The pieces: each ends in its number and a space, where these fit."""
        for number in range(self.deltas):
            yield f"{number} ".rjust(self.bytes, ".")[-self.bytes :]


class Failure(_Part, frozen=True, kw_only=True):
    """The error that an answer ends in."""

    code: Code = "failed_precondition"
    message: str = "the script ends in an error"


class AskedCall(_Part, frozen=True, kw_only=True):
    """A function that an answer asks for."""

    function: str
    arguments: JsonObject = {}


class Outcomes(_Part, frozen=True, kw_only=True):
    """What is said of a call that ran, and of one that failed or was refused."""

    ok: Json
    failed: Json


class Answer(_Part, frozen=True, kw_only=True):
    """One answer, as the script has it, its references filled in (but for `each`)."""

    wait_ms: Milliseconds = 0
    delay_ms: Milliseconds = 0
    echo: bool = False
    text: Json | msgspec.UnsetType = msgspec.UNSET
    ok: Json | msgspec.UnsetType = msgspec.UNSET
    failed: Json | msgspec.UnsetType = msgspec.UNSET
    each: Outcomes | None = None
    stream: Stream | None = None
    error: Failure | None = None
    calls: tuple[AskedCall, ...] = ()

    def __post_init__(self) -> None:
        unset = msgspec.UNSET
        if (self.ok is unset) != (self.failed is unset):
            raise ValueError("`ok` and `failed` go together: write both")
        said = (self.echo, self.text is not unset, self.ok is not unset, self.each is not None, self.stream is not None)
        if sum(said) > 1:
            raise ValueError("only one of `echo`, `text`, `ok` with `failed`, `each` and `stream` can be its text")
        if not (any(said) or self.error or self.calls):
            raise ValueError("it says nothing: write a text (`text`, `echo`, …), `calls` or an `error`")


def answer_to(request: ModelRequest) -> tuple[Answer, str]:
    """What the request's script answers: the answer, and its text (empty for a `stream`).

    Raises:
        TransomError: invalid_argument when there is no script, it is no good, or it ends before this turn.
    """
    said = _Said(request.messages)
    raw = _turn(request.options.get("script"), said.answers)
    each = raw.pop("each", None)
    filled = fill(cast("Json", raw), said.texts())
    if each is not None:
        cast("JsonObject", filled)["each"] = each
    try:
        answer = msgspec.convert(filled, Answer)
    except msgspec.ValidationError as error:
        raise TransomError("invalid_argument", f"options.script, turn {said.answers + 1}: {error}") from error
    return answer, said.text_of(answer)


def _turn(script: Json, number: int) -> JsonObject:
    if not isinstance(script, dict):
        raise TransomError("invalid_argument", 'options.script: the model `scripted` needs one, as {"echo": true}')
    if "turns" not in script:
        return dict(script)
    turns = script["turns"]
    if len(script) > 1 or not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise TransomError("invalid_argument", "options.script: `turns` is a list of answers and stands alone")
    if number >= len(turns):
        raise TransomError(
            "invalid_argument", f"options.script: it has {len(turns)} turns and was asked for turn {number + 1}; add one"
        )
    return dict(cast("JsonObject", turns[number]))


class _Said:
    """What was said since the last user message."""

    def __init__(self, messages: Sequence[Message]) -> None:
        asked = max((at for at, message in enumerate(messages) if message.role == "user"), default=-1)
        self.input = messages[asked].content if asked >= 0 else ""
        since = messages[asked + 1 :]
        spoken = [at for at, message in enumerate(since) if message.role == "assistant"]
        self.answers = len(spoken)
        self.called = {call.id: call for call in since[spoken[-1]].calls} if spoken else {}
        self.results = [message for message in since[spoken[-1] :] if message.role == "tool"] if spoken else []

    def texts(self) -> dict[str, str]:
        """What `{input}` and `{result}` stand for."""
        return {"input": self.input} | ({"result": self.results[-1].content} if self.results else {})

    def text_of(self, answer: Answer) -> str:
        """The words of an answer."""
        if answer.echo:
            return self.input
        if answer.each is not None:
            return " ".join(self._sentence(result, answer.each) for result in self._outcomes())
        if answer.ok is not msgspec.UNSET and answer.failed is not msgspec.UNSET:
            failed = any(result.error for result in self._outcomes())
            return written(answer.failed if failed else answer.ok)
        return "" if answer.text is msgspec.UNSET else written(answer.text)

    def _outcomes(self) -> list[Message]:
        if not self.results:
            raise TransomError("invalid_argument", "options.script: `ok`, `failed` and `each` need a turn with calls before")
        return self.results

    def _sentence(self, result: Message, each: Outcomes) -> str:
        call = self.called.get(result.call)
        texts = {
            "input": self.input,
            "result": result.content,
            "call": written(call.arguments) if call else "{}",
        }
        return written(fill(each.failed if result.error else each.ok, texts))
