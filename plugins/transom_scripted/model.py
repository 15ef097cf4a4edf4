"""The model itself: it plays an answer of a script as a stream."""

import hashlib
import math
import re
from collections.abc import AsyncIterator, Iterable, Iterator

import anyio
import anyio.lowlevel
import msgspec

from transom_hookspecs import ModelEnd, ModelEvent, ModelPrice, ModelRequest, TextDelta, TokenCount, ToolCall, TransomError

from .script import Answer, answer_to

_WORD = re.compile(r"\s*\S+\s*|\s+")

_POLITE = 64
"""How many pieces without a delay are given before others get a turn on the loop: a real model's stream waits too."""


class ScriptedModel:
    """A model that says what its script says. Prices are in USD for one word."""

    name = "scripted"

    def __init__(self, *, usd_per_input_token: float = 0.0, usd_per_output_token: float = 0.0) -> None:
        self._input_price = usd_per_input_token
        self._output_price = usd_per_output_token
        read, said = (math.ceil(usd * 1e12) for usd in (usd_per_input_token, usd_per_output_token))
        self.price = ModelPrice(input=read, output=said, cached=read)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Answer by the script, each word (with the space after it) as one delta."""
        answer, text = answer_to(request)
        pieces, delay_ms = (answer.stream.pieces(), answer.stream.delay_ms) if answer.stream else (words(text), answer.delay_ms)
        await _pause(answer.wait_ms)
        said = 0
        for piece in pieces:
            if said == request.max_tokens:
                yield ModelEnd(usage=self._usage(request, said), finish="length")
                return
            if said and (delay_ms or said % _POLITE == 0):
                await _pause(delay_ms)
            yield TextDelta(piece)
            said += 1
        if answer.error:
            raise TransomError(answer.error.code, answer.error.message)
        calls = tuple(_calls(answer, request))
        yield ModelEnd(calls=calls, usage=self._usage(request, said), finish="calls" if calls else "stop")

    def count(self, request: ModelRequest) -> int:
        """The words of the prompt's messages: exactly what is counted as its input."""
        return sum(len(message.content.split()) for message in request.messages)

    def _usage(self, request: ModelRequest, said: int) -> TokenCount:
        read = self.count(request)
        usd = read * self._input_price + said * self._output_price
        return TokenCount(input_tokens=read, output_tokens=said, usd=usd)


def words(text: str) -> Iterator[str]:
    """The words of a text, each with the space that follows it; joined they are the text."""
    return (found[0] for found in _WORD.finditer(text))


async def _pause(milliseconds: float) -> None:
    if milliseconds:
        await anyio.sleep(milliseconds / 1000)
    else:
        await anyio.lowlevel.checkpoint()


def _calls(answer: Answer, request: ModelRequest) -> Iterable[ToolCall]:
    """The calls, under IDs of their own.

    The key differs from one model call to the next, and is the same when the same one is made again: so an ID is
    new in its conversation and yet always the same. A request without a key is told apart by its messages.
    """
    seed = request.idempotency_key.encode() or msgspec.json.encode(request.messages)
    for number, call in enumerate(answer.calls):
        digest = hashlib.sha256(seed + b"\0%d" % number).hexdigest()
        yield ToolCall(id=f"call_{digest[:24]}", function=call.function, arguments=call.arguments)
