"""A door in plain text: `POST /plain/<agent>` with a text starts the agent and streams its answer.

    curl -N -d 'hello there' -H 'Authorization: Bearer <token>' http://127.0.0.1:7443/plain/echo

A door translates and holds no rule: who may start what is asked of policy when the kernel is called.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from litestar import Request, Response, post
from litestar.response import Stream

from transom_doors import bodies, heads
from transom_doors.answers import status_of
from transom_hookspecs import Door, JobEnded, JobView, Kernel, Origin, StartJob, Text, TransomError, hookimpl


class PlainPlugin:
    """Registers the door; the kernel makes one instance."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """`[plain]` of transom.toml. `max_body`: bytes that a request may have."""

        max_body: int = 65_536

    def __init__(self, config: Config) -> None:
        self._config = config
        self._kernel: Kernel | None = None

    @asynccontextmanager
    async def run(self, kernel: Kernel) -> AsyncIterator[None]:
        """The plugin's whole life."""
        self._kernel = kernel
        yield
        self._kernel = None

    @hookimpl
    def register_doors(self) -> Sequence[Door]:
        """The door, with its one route."""

        @post("/plain/{agent:str}", status_code=200)
        async def answer(request: Request[Any, Any, Any]) -> Response[str] | Stream:
            try:
                return await self._answer(request)
            except TransomError as error:
                return Response(f"{error.message}\n", status_code=status_of(error), media_type="text/plain")

        return [Door(name="plain", handlers=[answer])]

    async def _answer(self, request: Request[Any, Any, Any]) -> Stream:
        """Who sends it is known before the body is read; what it may do, the kernel says."""
        kernel = self._kernel
        if kernel is None:
            raise TransomError("unavailable", "the server is starting or stopping; try again in a moment")
        head = heads.head_of(request.scope)
        caller = await kernel.authenticate(head)
        text = bodies.text_of(await bodies.read(head, request.receive, self._config.max_body))
        start = StartJob(agent=request.path_params["agent"], input=text)
        origin = Origin(tenant=caller.tenant or "default", caller=caller, door="plain")
        job: JobView = (await kernel.call("StartJob", start, origin)).job
        return Stream(texts(kernel, origin.tenant, job), media_type="text/plain; charset=utf-8")


async def texts(kernel: Kernel, tenant: str, job: JobView) -> AsyncIterator[bytes]:
    """What the job says, as it says it. The job goes on when the client leaves: its record is in the log."""
    async for batch in kernel.watch(tenant, job.tree):
        for event in (entry.event for entry in batch if entry.event.job == job.id):
            if isinstance(event, Text):
                yield event.delta.encode()
            elif isinstance(event, JobEnded):
                yield ending(event)
                return


def ending(event: JobEnded) -> bytes:
    """The last line: why there is no answer, or an answer that is no text and so was not said."""
    if event.error is not None:
        return f"\n[{event.error.message}]\n".encode()
    return b"\n" if isinstance(event.output, str) else msgspec.json.encode(event.output) + b"\n"
