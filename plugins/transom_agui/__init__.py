"""The AG-UI door: the agent route, on which any AG-UI client runs the tenant's agents in turns of a thread.

Read in this order: `route` (a request up to its values), `visit` (what becomes of it), `encode` with `texts`, `board` and
`interrupts` (a job's log to AG-UI events), `history` and `resume` (what a client sends, checked), `follow` (the stream).
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, ClassVar

import msgspec

from transom_doors.streams import Streams
from transom_hookspecs import Door, Kernel, Record, TransomError, hookimpl

from .facts import Rights
from .threads import RECORDS

Seconds = Annotated[float, msgspec.Meta(gt=0)]


class AguiPlugin:
    """The plugin: one door named `agui`."""

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
        self.rights = Rights()
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
        kernel.spawn(self.rights.follow, kernel, name="rights of open streams")
        async with self.streams.run():
            self._kernel = kernel
            try:
                yield
            finally:
                self._kernel = None

    @hookimpl
    def register_doors(self) -> Sequence[Door]:
        """The door and its handlers."""
        from .route import make_handlers

        return [Door(name="agui", handlers=make_handlers(self))]

    @hookimpl
    def register_records(self) -> Sequence[Record]:
        """The messages that were refused."""
        return RECORDS
