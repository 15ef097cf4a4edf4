"""The model: one request to a server, tried again while nothing of its answer was passed on."""

import os
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

import anyio

from transom_hookspecs import JsonObject, ModelEvent, ModelPrice, ModelRequest, TransomError

from . import body, schema_body
from .answer import Answer
from .failures import Failures, ProviderError, backoff
from .settings import ModelSettings, refuse_reserved
from .sse import ChunkReader
from .usage import input_bound

if TYPE_CHECKING:
    import httpx

RESPONSE_LIMIT = 64 << 20
"""Bytes of one response, with all that the server writes around the answer."""
ERROR_LIMIT = 64 << 10
LINGER = 0.05
"""Seconds that a server gets to end its response after `[DONE]`, so that the connection can be used again."""
_VISIBLE = re.compile(r"[\x21-\x7e]+\Z")


class OpenaiModel:
    """A language model of an OpenAI-compatible server, as `transom_hookspecs.Model`.

    Parameters:
        name: what agents call it.
        client: gives the `httpx.AsyncClient` to ask with; called for each request.
        key: the key itself, where it stands in no environment variable; shown nowhere.
    """

    def __init__(self, name: str, settings: ModelSettings, client: "Callable[[], httpx.AsyncClient]", *, key: str = "") -> None:
        self.name = name
        self.settings = settings
        self._client = client
        self._key = key
        self._usage_refused: bool | None = not settings.stream_options or None

    @property
    def price(self) -> ModelPrice | None:
        """Its price, when the settings have one; see `transom_hookspecs.Priced`."""
        return self.settings.prices.price if self.settings.prices else None

    def count(self, request: ModelRequest) -> int:
        """An upper bound of the request's input tokens: a token is at least one byte of what is sent."""
        return input_bound(request, self._prompt(request))

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask, and yield deltas as they come, then one ModelEnd.

        Raises:
            TransomError: as `transom_hookspecs.Model.stream` says.
        """
        payload, key = self._payload(request), self._read_key()
        failures = Failures(remedy=self._remedy(), key=key)
        headers = _headers(key, request)
        for attempt in range(1, self.settings.tries + 1):
            passed_on = False
            try:
                async with aclosing(self._attempt(request, payload, headers, failures)) as events:
                    async for event in events:
                        passed_on = True
                        yield event
            except ProviderError as error:
                if passed_on or not error.again or attempt == self.settings.tries:
                    raise error.about(self.name) from error
                wait = backoff(attempt) if error.after is None else error.after
            else:
                return
            await anyio.sleep(wait)

    async def _attempt(
        self, request: ModelRequest, payload: JsonObject, headers: Mapping[str, str], failures: Failures
    ) -> AsyncGenerator[ModelEvent, None]:
        """One request and its answer."""
        response = await self._open(payload, headers, failures)
        try:
            if response.headers.get("content-type", "").startswith("text/html"):
                raise ProviderError("failed_precondition", "the server answered with a page; `url` is not the base of an API")
            answer = Answer(request, self.settings, failures, lambda: self.count(request))
            async with aclosing(_read(response, answer, failures)) as events:
                async for event in events:
                    yield event
        finally:
            await response.aclose()

    async def _open(self, payload: JsonObject, headers: Mapping[str, str], failures: Failures) -> "httpx.Response":
        """A successful response, its body not yet read; without the wish for usage when the server refuses that."""
        if not self._usage_refused:
            try:
                response = await self._send({**payload, "stream_options": {"include_usage": True}}, headers, failures)
            except ProviderError as error:
                if self._usage_refused is False or error.details.get("status") not in (400, 422):
                    raise
            else:
                self._usage_refused = False
                return response
        response = await self._send(payload, headers, failures)
        self._usage_refused = True
        return response

    async def _send(self, payload: JsonObject, headers: Mapping[str, str], failures: Failures) -> "httpx.Response":
        import httpx

        client = self._client()
        timeout = httpx.Timeout(self.settings.timeout, connect=min(self.settings.timeout, 10.0))
        try:
            request = client.build_request(
                "POST", self.settings.endpoint, content=body.json_text(payload), headers=dict(headers), timeout=timeout
            )
            response = await client.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise failures.transport(error) from error
        if response.is_success:
            return response
        try:
            said = await _start_of(response)
        except httpx.HTTPError:
            said = b""  # the status alone says what happened
        finally:
            await response.aclose()
        raise failures.status(response.status_code, response.headers, said, time.time())

    def _payload(self, request: ModelRequest) -> JsonObject:
        """The whole body but for the wish for usage."""
        refuse_reserved(request.options)
        settings = self.settings
        own: JsonObject = {"model": settings.model, "stream": True, settings.max_tokens_field: request.max_tokens}
        if request.temperature is not None:
            own["temperature"] = request.temperature
        return {**settings.extra, **request.options, **own, **self._prompt(request)}

    def _prompt(self, request: ModelRequest) -> JsonObject:
        return schema_body.schema(request) if self.settings.tools == "schema" else body.native(request)

    def _remedy(self) -> str:
        settings = self.settings
        return f"the key in {settings.api_key_env}" if settings.api_key_env else "`url` and `model`, and whether it wants a key"

    def _read_key(self) -> str:
        """The key, fit for a header.

        Raises:
            TransomError: failed_precondition naming the variable, never its value.
        """
        variable = self.settings.api_key_env
        if not variable:
            return self._key
        key = os.environ.get(variable, "").strip()
        if _VISIBLE.match(key):
            return key
        problem = "holds characters that no key has" if key else "is not set"
        raise TransomError("failed_precondition", f"model {self.name!r}: the environment variable {variable} {problem}; set it")


def _headers(key: str, request: ModelRequest) -> dict[str, str]:
    headers = {"accept": "text/event-stream", "accept-encoding": "identity", "content-type": "application/json"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    if _VISIBLE.match(request.idempotency_key):
        headers["idempotency-key"] = request.idempotency_key
    return headers


async def _read(response: "httpx.Response", answer: Answer, failures: Failures) -> AsyncGenerator[ModelEvent, None]:
    """The events of a response, to its end."""
    reader, size = ChunkReader(), 0
    source = response.aiter_bytes()
    while not reader.done and (data := await _next(source, answer, failures)) is not None:
        size += len(data)
        if size > RESPONSE_LIMIT:
            raise ProviderError("failed_precondition", f"the server sent more than {RESPONSE_LIMIT >> 20} MiB")
        for chunk in reader.feed(data):
            for event in answer.feed(chunk):
                yield event
    for chunk in reader.close():
        for event in answer.feed(chunk):
            yield event
    events = answer.close(done=reader.done)
    if reader.done:
        await _linger(source)
    for event in events:
        yield event


async def _next(source: AsyncIterator[bytes], answer: Answer, failures: Failures) -> bytes | None:
    """More bytes; None at the end, also at a broken one when the answer was complete before it."""
    import httpx

    try:
        return await anext(source, None)
    except httpx.HTTPError as error:
        if answer.complete:
            return None
        raise failures.transport(error) from error


async def _linger(source: AsyncIterator[bytes]) -> None:
    """Read what still stands behind the end of the stream."""
    import httpx

    with anyio.move_on_after(LINGER):
        try:
            while await anext(source, None) is not None:
                pass
        except httpx.HTTPError:
            return  # the answer is whole; only the connection is lost


async def _start_of(response: "httpx.Response") -> bytes:
    """As much of an error's body as is read."""
    said = b""
    async for data in response.aiter_bytes():
        said += data
        if len(said) >= ERROR_LIMIT:
            break
    return said[:ERROR_LIMIT]
