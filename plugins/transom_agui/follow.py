"""A run's stream: where its client is in the log, and the log fed to its encoder from there, as it grows."""

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, cast

from anyio.lowlevel import checkpoint

from transom_doors.streams import Stream, Streams
from transom_hookspecs import AnyEvent, Entry, Event, TransomError

from .encode import Place as EventPlace
from .encode import Revoked, TurnEncoder
from .facts import Asked, Rights
from .threads import Place
from .view import Messages, View

if TYPE_CHECKING:
    from litestar.types import Receive, Scope, Send

_EVENT_ID = re.compile(r"(0|[1-9][0-9]{0,14})\.(0|[1-9][0-9]{0,5})")
_SLICE: Final = 200


def parse_event_id(value: str | None) -> EventPlace | None:
    """Where a Last-Event-ID is.

    Raises:
        TransomError: invalid_argument when it is none of this door's.
    """
    if value is None:
        return None
    match = _EVENT_ID.fullmatch(value)
    if match is None:
        raise not_of_this_turn()
    return int(match[1]), int(match[2])


def not_of_this_turn() -> TransomError:
    """The refusal of a Last-Event-ID that this run's stream never gave."""
    return TransomError(
        "invalid_argument", "Last-Event-ID: this run's stream gave no such id; send its last `id:`, or none to begin again"
    )


async def stream(
    streams: Streams, rights: Rights, place: Place, view: View, *, messages: Messages = (), since: EventPlace | None = None
) -> Stream:
    """The stream of a run, from its beginning or after the last event that the client has.

    Raises:
        TransomError: invalid_argument, when the run has no such event.
    """
    facts = Asked(place, view, rights)
    encoder = ReconnectEncoder(TurnEncoder(view, facts, messages=messages, since=since or (-1, -1)))
    if since is not None:
        await _catch_up(place, view, facts, encoder, since)

    async def log() -> AsyncGenerator[Sequence[Entry], None]:
        if encoder.held:
            yield (_made(encoder.after, _Here(job=view.job)),)
        if encoder.inner.ended:
            return
        source = place.kernel.watch(place.tenant, view.job, encoder.after)
        rights.watching.add(facts)
        try:
            async with aclosing(cast("AsyncGenerator[Sequence[Entry], None]", source)) as batches:
                while batch := await facts.next(batches):
                    yield batch
        finally:
            rights.watching.discard(facts)
        if facts.revoked:
            yield (_made(max(encoder.after, view.start) + 1, Revoked(job=view.job)),)

    return Stream(streams, log, encoder)


def _made(seq: int, event: Event) -> Entry:
    """An entry that stands in no log."""
    return Entry(seq, 0, cast("AnyEvent", event))


class _Here(Event, frozen=True, kw_only=True, tag="agui.here"):
    """The client is caught up. It stands in no log."""


class ReconnectEncoder:
    """An encoder that was brought to where its client is; what came of the last entry after that is sent first.

    `after`: the last seq that it was given.
    """

    def __init__(self, encoder: TurnEncoder) -> None:
        self.inner = encoder
        self.ended = False
        self.held: list[bytes] = []
        self.after = 0

    def on(self, entry: Entry) -> Sequence[bytes]:
        """The frames that an entry becomes."""
        frames = self.held if isinstance(entry.event, _Here) else self.inner.on(entry)
        self.after = max(self.after, entry.seq)
        self.ended = self.inner.ended
        return frames


async def _catch_up(place: Place, view: View, facts: Asked, encoder: ReconnectEncoder, since: EventPlace) -> None:
    """Bring an encoder to where its client is."""
    while not encoder.inner.known:
        batch = await place.kernel.store.read(place.tenant, view.job, encoder.after, _SLICE)
        batch = [entry for entry in batch if entry.seq <= since[0]] or batch[:1]
        if not batch or encoder.after > since[0]:
            raise not_of_this_turn()
        await facts.prepare(batch)
        for entry in batch:
            encoder.held += encoder.inner.on(entry)
        encoder.after = batch[-1].seq
        await checkpoint()


class Told:
    """An ASGI application that sends a whole stream at once: a run that was refused."""

    __slots__ = ("body",)

    def __init__(self, body: bytes) -> None:
        self.body = body

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Send it."""
        headers = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})
