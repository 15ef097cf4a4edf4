"""Open event streams: each an ASGI application that sends a log as it grows, all on one timer.

The handler returns a `Stream`, so everything that it holds is taken and released in `__call__`, also when the
client is gone before the first byte. A slow reader is waited for by the server's own flow control; meanwhile
nothing is read for it, and it catches up from the log. One that does not even take the end is dropped, with all
that it did not take.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from transom_hookspecs import ABORT, Encoder, Entry

if TYPE_CHECKING:
    from litestar.types import HTTPResponseBodyEvent, HTTPResponseStartEvent, Receive, Scope, Send

logger = logging.getLogger(__name__)

Batches = Callable[[], AsyncGenerator[Sequence[Entry], None]]

WRITE = 128 * 1024
"""Bytes after which a write is full. A server holds back the next one while 64 KiB are unsent, so that less than 256 KiB
are; only one event that is longer goes out whole."""


PATIENCE = 5.0
"""Seconds that a client has to take the end of its stream."""


class EndingEncoder(Encoder, Protocol):
    """An encoder that knows when its stream is over."""

    ended: bool


class Streams:
    """All open streams of a door: the one timer that keeps them alive and ends them, and their end at shutdown.

    Parameters:
        ping: seconds of silence after which a stream gets a comment.
        lifetime: seconds after which a stream ends.
    """

    def __init__(self, *, ping: float, lifetime: float) -> None:
        self.ping, self.lifetime = ping, lifetime
        self.spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], object]
        """Starts a task that ends with the door; set while the door runs."""
        self._open: set[Stream] = set()
        self._gone: anyio.Event | None = None

    def __len__(self) -> int:
        return len(self._open)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Keep streams alive; at the end close those that are open."""
        self._gone = None
        async with anyio.create_task_group() as tasks:
            self.spawn = tasks.start_soon
            tasks.start_soon(self._tick)
            try:
                yield
            finally:
                await self._close()
                tasks.cancel_scope.cancel()

    def enter(self, stream: "Stream") -> None:
        """Take a stream in; during a shutdown it ends at once."""
        self._open.add(stream)
        if self._gone is not None:
            stream.end()
        else:
            self.spawn(stream.listen)  # ends by itself: when the response is over, receive says so

    def leave(self, stream: "Stream") -> None:
        """A stream is over."""
        self._open.discard(stream)
        if self._gone is not None and not self._open:
            self._gone.set()

    async def _tick(self) -> None:
        pause = min(1.0, self.ping / 3, self.lifetime / 3)
        while True:
            await anyio.sleep(pause)
            now = monotonic()
            for stream in tuple(self._open):
                stream.tick(now)

    async def _close(self) -> None:
        self._gone = anyio.Event()
        for stream in tuple(self._open):
            stream.end()
        if self._open:
            with anyio.move_on_after(1, shield=True):
                await self._gone.wait()
        for stream in tuple(self._open):
            stream.drop()


class Stream:
    """One stream, as an ASGI application.

    Parameters:
        owner: the door's streams.
        batches: opens the log; called when the stream starts, closed when it ends.
        encoder: entries to frames.
    """

    __slots__ = (
        *("_batches", "_busy", "_disconnected", "_encoder", "_last", "_owner", "_receive", "_scope", "_send", "_started"),
        *("_abort", "_comment", "_ending", "_until"),
    )

    _send: "Send"
    _receive: "Receive"

    def __init__(self, owner: Streams, batches: Batches, encoder: EndingEncoder) -> None:
        self._owner, self._batches, self._encoder = owner, batches, encoder
        self._scope = anyio.CancelScope()
        self._ending = anyio.CancelScope()
        self._abort: Callable[[], object] | None = None
        self._comment: anyio.Event | None = None
        self._busy = self._started = self._disconnected = False
        self._last = monotonic()
        self._until = self._last + owner.lifetime

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Send the stream until the log's end, the client's leaving, the lifetime's end or the shutdown."""
        self._send, self._receive = send, receive
        self._abort = scope.get("state", {}).get(ABORT)
        self._owner.enter(self)
        try:
            with self._scope:
                await self._follow()
            with self._ending:
                if not self._disconnected:
                    await self._finish()
        finally:
            self._owner.leave(self)

    def tick(self, now: float) -> None:
        """The timer's call: end when the lifetime is over, else say something when it was silent for long."""
        if now >= self._until:
            if self._scope.cancel_called:
                self.drop()
            self._until = now + PATIENCE
            self.end()
        elif self._started and not self._busy and now - self._last >= self._owner.ping:
            self._busy = True  # what comes meanwhile waits its turn in the server's send
            self._comment = anyio.Event()
            self._owner.spawn(self._ping)

    def end(self) -> None:
        """Stop after what is sent already: always a whole event, since each write holds whole ones."""
        self._scope.cancel()

    def drop(self) -> None:
        """Give up on a client that does not take the end: its connection goes, with what is unsent."""
        if self._abort is not None:
            self._abort()  # whatever waits to send is told of it
        else:
            self._ending.cancel()

    async def listen(self) -> None:
        """Wait for the client's leaving, and end the stream then."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._left()

    async def _follow(self) -> None:
        try:
            await self._send(_START)
            self._started = True
            async with aclosing(self._batches()) as batches:
                async for batch in batches:
                    await self._deliver(batch)
                    if self._encoder.ended:
                        return
        except OSError:
            self._left()
        except Exception:
            logger.exception("an event stream broke off; its client goes on with Last-Event-ID")

    async def _deliver(self, batch: Sequence[Entry]) -> None:
        ready: list[bytes] = []
        size = 0
        for entry in batch:
            for frame in self._encoder.on(entry):
                ready.append(frame)
                size += len(frame)
            if size >= WRITE:
                await self._write(b"".join(ready))
                ready.clear()
                size = 0
        if ready:
            await self._write(b"".join(ready))

    async def _ping(self) -> None:
        try:
            await self._write(b": ping\n\n")
        except OSError:
            self._left()
        finally:
            if self._comment is not None:
                self._comment.set()

    async def _write(self, data: bytes) -> None:
        self._busy = True
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        self._busy = False
        self._last = monotonic()

    def _left(self) -> None:
        """The client is gone; a server says so by a message, and may by an OSError when something is sent."""
        self._disconnected = True
        self.end()

    async def _finish(self) -> None:
        self._busy = True  # the timer has nothing to say any more
        if self._comment is not None:
            await self._comment.wait()  # nothing comes after the end
        with suppress(OSError):  # gone in this very moment
            if not self._started:
                await self._send(_START)
            await self._send(_END)


_START: "HTTPResponseStartEvent" = {
    "type": "http.response.start",
    "status": 200,
    "headers": [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-store"),
        (b"x-accel-buffering", b"no"),
    ],
}
_END: "HTTPResponseBodyEvent" = {"type": "http.response.body", "body": b"", "more_body": False}
