"""The REST door: typed HTTP routes under `/v1`, and a job's events as Server-Sent Events.

Read in this order: `routes` (the table, and the one path that a request takes), `wire` (values to JSON), `encode` (a log to
an event stream). How requests are read and errors told is in `transom_doors`, as for every door.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, ClassVar

import msgspec

from transom_doors.streams import Streams
from transom_hookspecs import Door, Kernel, TransomError, hookimpl

Seconds = Annotated[float, msgspec.Meta(gt=0)]


class RestPlugin:
    """The plugin: one door named `rest`."""

    spec: ClassVar[str] = "1.0"
    dev_only: ClassVar[bool] = False

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """Settings.

        Parameters:
            max_body: bytes of a request's body.
            ping: seconds after which a silent stream gets a comment, so that no proxy closes it.
            stream: seconds after which a stream ends; the client goes on with Last-Event-ID.
        """

        max_body: Annotated[int, msgspec.Meta(gt=0)] = 4 * 1024 * 1024
        ping: Seconds = 15.0
        stream: Seconds = 1800.0

    def __init__(self, config: Config) -> None:
        self.config = config
        self.streams = Streams(ping=config.ping, lifetime=config.stream)
        self._kernel: Kernel | None = None

    @property
    def kernel(self) -> Kernel:
        """The running kernel.

        Raises:
            TransomError: unavailable before the start is done and from the shutdown on.
        """
        if self._kernel is None:
            raise TransomError("unavailable", "the server is starting or stopping; try again in a moment")
        return self._kernel

    @asynccontextmanager
    async def run(self, kernel: Kernel) -> AsyncIterator[None]:
        """Answer requests; at the end no new ones, and open streams are closed after a whole event."""
        async with self.streams.run():
            self._kernel = kernel
            try:
                yield
            finally:
                self._kernel = None

    @hookimpl
    def register_doors(self) -> Sequence[Door]:
        """The door and its handlers."""
        from .routes import make_handlers

        return [Door(name="rest", handlers=make_handlers(self))]
