"""An in-process HTTP client for ASGI applications that streams, and a reader of Server-Sent Events.

httpx's own `ASGITransport` collects the whole body before it returns, so it can show neither a stream's first event
nor what an application does when its client leaves. This one hands over each chunk when the application sends it,
holds the application back while the reader does not read, and tells it when the reader leaves::

    async with stream_client(app) as client, client.stream("GET", "/v1/jobs/a/events") as response:
        async for event in sse(response):
            ...
"""

import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

import anyio
import httpx
import msgspec
from anyio.abc import TaskGroup

Message = MutableMapping[str, Any]
App = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


class AppHung(AssertionError):
    """The application went on although its client was gone, and was cancelled."""


class StreamingTransport(httpx.AsyncBaseTransport):
    """An httpx transport that calls an ASGI application in this process, each request in a task of its own.

    Use the client as an async context manager. Closing a response before its end is the client's disconnect:
    `receive()` gives `http.disconnect`, and the close waits until the application has returned. What the application
    raises is raised to whoever waits for its response.

    Parameters:
        app: the ASGI application; it is called with `http` scopes only, its lifespan is the caller's affair.
        bound: bytes that it may send ahead of the reader; then its `send` waits.
        grace: seconds that it may go on after a disconnect before it is cancelled and AppHung is raised.
        client: the address that the application sees.
    """

    def __init__(
        self, app: App, *, bound: int = 65_536, grace: float = 5.0, client: tuple[str, int] = ("127.0.0.1", 50_000)
    ) -> None:
        self._app, self._bound, self._grace, self._client = app, bound, grace, client

    async def __aenter__(self) -> Self:
        self._tasks: TaskGroup = anyio.create_task_group()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self._tasks.cancel_scope.cancel()
        await self._tasks.__aexit__(exc_type, exc_value, traceback)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Call the application; returns when it has sent the head of its response."""
        exchange = _Exchange(request, self._bound, self._grace)
        self._tasks.start_soon(exchange.run, self._app, _scope(request, self._client))
        try:
            await exchange.started.wait()
        except BaseException:  # the caller was cancelled: its client has left
            with anyio.CancelScope(shield=True):
                await exchange.aclose()
            raise
        if exchange.status == 0:
            raise exchange.fault("the application returned without a response")
        return httpx.Response(exchange.status, headers=exchange.headers, stream=exchange)


@asynccontextmanager
async def stream_client(
    app: App,
    *,
    base_url: str = "http://test",
    headers: Mapping[str, str] | None = None,
    bound: int = 65_536,
    grace: float = 5.0,
) -> AsyncIterator[httpx.AsyncClient]:
    """An httpx client on an ASGI application, with a StreamingTransport; httpx's timeouts have no effect on it."""
    transport = StreamingTransport(app, bound=bound, grace=grace)
    async with httpx.AsyncClient(transport=transport, base_url=base_url, headers=headers) as client:
        yield client


class _Exchange(httpx.AsyncByteStream):
    """One request and its response; also the response's body."""

    def __init__(self, request: httpx.Request, bound: int, grace: float) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.failure: Exception | None = None
        self.started, self._ended, self._gone = anyio.Event(), anyio.Event(), anyio.Event()
        self._bound, self._grace = bound, grace
        self._body = aiter(request.stream) if isinstance(request.stream, httpx.AsyncByteStream) else None
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._complete = False
        self._moved = anyio.Event()
        self._scope = anyio.CancelScope()

    async def run(self, app: App, scope: MutableMapping[str, Any]) -> None:
        try:
            with self._scope:
                await app(scope, self._receive, self._send)
        except Exception as error:  # noqa: BLE001  whatever it is, it is raised to the application's client
            self.failure = error
        finally:
            self.started.set()
            self._ended.set()
            self._move()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            while self._chunks:
                chunk = self._chunks.popleft()
                self._held -= len(chunk)
                self._move()
                yield chunk
            if self._complete:
                return
            if self._ended.is_set():
                raise self.fault("the application returned before its response was complete")
            await self._moved.wait()

    async def aclose(self) -> None:
        """The client leaves, or has read everything; waits for the application to return."""
        self._gone.set()
        self._move()
        with anyio.move_on_after(self._grace):
            await self._ended.wait()
        if not self._ended.is_set():
            self._scope.cancel()
            await self._ended.wait()
            raise AppHung(f"the application went on for {self._grace:g} s after its client had left")
        if self.failure is not None and self.status:
            raise self.fault()

    def fault(self, otherwise: str = "") -> Exception:
        """What the application raised, once; or that it broke its contract."""
        failure, self.failure = self.failure, None
        return failure or RuntimeError(otherwise)

    async def _receive(self) -> Message:
        if self._body is not None and not self._gone.is_set():
            async for chunk in self._body:
                return {"type": "http.request", "body": chunk, "more_body": True}
            self._body = None
            return {"type": "http.request", "body": b"", "more_body": False}
        while not (self._gone.is_set() or self._complete):
            await self._moved.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self._complete or message["type"] != ("http.response.body" if self.status else "http.response.start"):
            raise RuntimeError(f"the application sent {message['type']!r} out of turn")
        if not self.status:
            self.status, self.headers = message["status"], list(message.get("headers", ()))
            self.started.set()
            return
        while self._held >= self._bound and not self._gone.is_set():
            await self._moved.wait()
        if self._gone.is_set():
            return  # as servers do: what is sent to nobody is dropped
        if chunk := message.get("body", b""):
            self._chunks.append(chunk)
            self._held += len(chunk)
        self._complete = not message.get("more_body", False)
        self._move()

    def _move(self) -> None:
        """Wake whoever waits for the state of this exchange to change."""
        self._moved.set()
        self._moved = anyio.Event()


def _scope(request: httpx.Request, client: tuple[str, int]) -> MutableMapping[str, Any]:
    raw_path, _, query = request.url.raw_path.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": unquote(raw_path.decode("ascii")),
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": client,
        "server": (request.url.host, request.url.port or 80),
        "state": {},
    }


class SseEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A dispatched event.

    Parameters:
        id: the last event ID when it was dispatched: its own, or the one before it had none.
        event: its type; `message` when the stream names none.
        data: its data lines, joined by LF.
    """

    id: str = ""
    event: str = "message"
    data: str = ""


class SseParser:
    """Parses an event stream by the HTML standard, from bytes cut anywhere.

    `last_id` is what a client would reconnect with, `retry` the reconnection time that the stream asked for.
    """

    def __init__(self) -> None:
        self.last_id = ""
        self.retry: int | None = None
        self._rest = bytearray()
        self._begun = self._after_cr = False
        self._id, self._event = "", ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that are whole with these bytes; an event is whole at its blank line, not before."""
        self._rest += chunk
        events = []
        while (line := self._line()) is not None:
            if (event := self._take(line)) is not None:
                events.append(event)
        return events

    def _line(self) -> str | None:
        """The next whole line. A CR ends it at once; a LF that follows belongs to it, in whatever chunk it comes."""
        if self._after_cr and self._rest:
            self._after_cr = False
            if self._rest[0] == _LF:
                del self._rest[0]
        found = _LINE_END.search(self._rest)
        if found is None:
            return None
        end = found.start()
        self._after_cr = self._rest[end] == _CR
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        text = line.decode("utf-8", "replace")
        if not self._begun:
            self._begun, text = True, text.removeprefix("\ufeff")
        return text

    def _take(self, line: str) -> SseEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isascii() and value.isdecimal():
            self.retry = int(value)
        return None

    def _dispatch(self) -> SseEvent | None:
        self.last_id = self._id
        data, kind = self._data, self._event or "message"
        self._data, self._event = [], ""
        return SseEvent(id=self.last_id, event=kind, data="\n".join(data)) if data else None


_LF, _CR = b"\n\r"
_LINE_END = re.compile(rb"[\r\n]")


async def sse(response: httpx.Response) -> AsyncIterator[SseEvent]:
    """The events of a streaming response, each as soon as it is whole; ends when the response does."""
    parser = SseParser()
    async for chunk in response.aiter_bytes():
        for event in parser.feed(chunk):
            yield event
