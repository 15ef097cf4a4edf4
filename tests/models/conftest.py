"""A loopback server whose every byte and pause a test writes, and a model that asks it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from transom_hookspecs import Message, ModelEnd, ModelEvent, ModelRequest, ReasoningDelta, TextDelta
from transom_openai import ModelSettings, OpenaiModel

CUT = object()
"""A step of a reply: the connection is reset here."""
KEEP = object()
"""A step of a reply, the last one: the connection stays open for another request."""


@dataclass
class Seen:
    """A request as it arrived."""

    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.raw)


@dataclass(repr=False)
class RawServer:
    """Answers each request with the next reply; the last one again and again.

    A reply is a list of steps: bytes to write as one packet, seconds to wait, CUT or KEEP.
    """

    replies: list[Sequence[object]] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    url: str = ""
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)

    connections: int = 0
    tasks: set[Any] = field(default_factory=set)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.add(asyncio.current_task())
        try:
            while True:
                self.seen.append(await self.request(reader))
                if not await self.reply(writer, self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            self.hung_up.set()
        finally:
            self.tasks.discard(asyncio.current_task())
            writer.close()

    async def request(self, reader: asyncio.StreamReader) -> Seen:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in lines[1:] if line)}
        return Seen(lines[0].split()[1], headers, await reader.readexactly(int(headers["content-length"])))

    async def reply(self, writer: asyncio.StreamWriter, steps: Sequence[object]) -> bool:
        for step in steps:
            if step is CUT:
                writer.transport.abort()
            elif isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
                await asyncio.sleep(0.001)  # so that the client reads this packet alone
            elif isinstance(step, float):
                await asyncio.sleep(step)
        return steps[-1] is KEEP

    def streams(self, *steps: object, content_type: str = "text/event-stream") -> None:
        """Add a reply of status 200."""
        self.replies.append([head(200, content_type), *steps])

    def says(self, *chunks: object) -> None:
        """Add a reply of these chunks as events, and [DONE]."""
        self.streams(*(event(chunk) for chunk in chunks), b"data: [DONE]\n\n")

    def refuses(self, status: int, body: object = None, **headers: str) -> None:
        """Add a reply that is an error."""
        raw = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        self.replies.append([head(status, "application/json", **headers), raw])


def head(status: int = 200, content_type: str = "text/event-stream", **headers: str) -> bytes:
    lines = [
        f"HTTP/1.1 {status} X",
        f"Content-Type: {content_type}",
        *([] if "Transfer_Encoding" in headers else ["Connection: close"]),
    ]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def event(chunk: object) -> bytes:
    """A chunk as a server-sent event."""
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"


def delta(finish: str | None = None, /, **fields: object) -> dict[str, object]:
    """A chunk with one choice."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(name: str | None = None, arguments: object = None, **fields: object) -> dict[str, object]:
    """A chunk with one fragment of a call."""
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    return delta(tool_calls=[{**fields, "function": function}])


def user(text: str = "hi") -> Message:
    return Message(role="user", content=text)


def ask_for(*messages: Message, **fields: Any) -> ModelRequest:
    return ModelRequest(messages=messages or (user(),), **fields)


def text_of(events: Sequence[ModelEvent]) -> str:
    return "".join(e.text for e in events if isinstance(e, TextDelta))


def reasoning_of(events: Sequence[ModelEvent]) -> str:
    return "".join(e.text for e in events if isinstance(e, ReasoningDelta))


def end_of(events: Sequence[ModelEvent]) -> ModelEnd:
    ends = [e for e in events if isinstance(e, ModelEnd)]
    assert ends == [events[-1]], "exactly one ModelEnd, and last"
    return ends[0]


def calls_of(events: Sequence[ModelEvent]) -> list[tuple[str, object]]:
    return [(c.function, c.arguments) for c in end_of(events).calls]


class Wire:
    """The helpers above, for tests (which cannot import this file)."""

    CUT, KEEP = CUT, KEEP
    head, event, delta, call = staticmethod(head), staticmethod(event), staticmethod(delta), staticmethod(call)
    user, ask_for = staticmethod(user), staticmethod(ask_for)
    text_of, reasoning_of = staticmethod(text_of), staticmethod(reasoning_of)
    end_of, calls_of = staticmethod(end_of), staticmethod(calls_of)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def wire() -> type[Wire]:
    return Wire


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    raw = RawServer()
    async with await asyncio.start_server(raw.handle, "127.0.0.1", 0) as listening:
        raw.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        yield raw
        for task in raw.tasks:
            task.cancel()


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False) as opened:
        yield opened


@pytest.fixture
def model(server: RawServer, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> Callable[..., OpenaiModel]:
    """Makes a model of the server; waits between tries are left out."""
    monkeypatch.setattr("transom_openai.client.backoff", lambda attempt: 0.0)

    def make(**settings: Any) -> OpenaiModel:
        return OpenaiModel("m", ModelSettings(url=server.url, model="served", **settings), lambda: client)

    return make


@pytest.fixture
def answer(model: Callable[..., OpenaiModel]) -> Callable[..., Any]:
    """Asks the server once and returns the events."""

    async def run(request: ModelRequest | None = None, **settings: Any) -> list[ModelEvent]:
        return [event async for event in model(**settings).stream(request or ask_for())]

    return run
