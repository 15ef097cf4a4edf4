"""The kernel inside a program (`Transom`), as an ASGI application, and as a server."""

import logging
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec

from transom_hookspecs import (
    Caller,
    Clock,
    GetJob,
    JobAnswer,
    JobEnded,
    JobView,
    Json,
    Kernel,
    Origin,
    StartJob,
    TransomError,
)

from .config import Config, load
from .core import Core
from .plugins import load as load_plugins

if TYPE_CHECKING:
    from litestar import Litestar, Request, Response

log = logging.getLogger("transom")

LOCAL = Caller(kind="operator", id="local")


class Transom:
    """A kernel inside a program.

        async with Transom(data="./data", dev=True) as transom:
            print(await transom.run("echo", "hello"))

    Parameters:
        config: the settings; else those that `changes` give over the defaults, with no file read.
        plugins: plugin classes beside (and instead of) the installed ones.
        entry_points: whether installed plugins are loaded.
        agents: YAML files to add to the catalog.
        own_only: advance only the jobs that this program starts.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        plugins: Sequence[type] = (),
        entry_points: bool = True,
        agents: Sequence[str] = (),
        clock: Clock | None = None,
        own_only: bool = True,
        **changes: object,
    ) -> None:
        settings = msgspec.structs.replace(config, **changes) if config else load("", {}, **changes)
        loaded = load_plugins(settings, plugins, entry_points=entry_points)
        self.kernel = Core(settings, loaded, clock, agents)
        self._own_only = own_only
        self._open = self.kernel.open(own_only=own_only)

    async def __aenter__(self) -> Self:
        await self._open.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.__aexit__(kind, error, trace)

    async def start(self, agent: str, input: Json = None, *, tenant: str = "default", **options: Any) -> JobView:
        """Start an agent or flow; `options` are fields of `StartJob`."""
        request = StartJob(agent=agent, input=input, **options)
        answer = await self.kernel.call("StartJob", request, Origin(tenant=tenant, caller=LOCAL, door="embedded"))
        return cast(JobAnswer, answer).job

    async def wait(self, job: JobView, *, tenant: str = "default") -> JobView:
        """Follow a job to its end."""
        async for batch in self.kernel.watch(tenant, job.tree):
            if any(isinstance(e.event, JobEnded) and e.event.job == job.id for e in batch):
                break
        origin = Origin(tenant=tenant, caller=LOCAL, door="embedded")
        return cast(JobView, await self.kernel.call("GetJob", GetJob(id=job.id), origin))

    async def run(self, agent: str, input: Json = None, *, tenant: str = "default", **options: Any) -> Json:
        """Start an agent or flow, wait for its end, and return its output.

        Raises:
            TransomError: how it failed.
        """
        job = await self.wait(await self.start(agent, input, tenant=tenant, **options), tenant=tenant)
        if job.error is not None:
            raise job.error.error()
        if job.status != "completed":
            raise TransomError("canceled", f"job {job.id} ended {job.status}")
        return job.output


def create_app(core: Core) -> "Litestar":
    """The ASGI application of a kernel; its lifespan opens and closes the kernel.

    Raises:
        TransomError: a door's handlers cannot be served, naming the plugin.
    """
    from litestar import Litestar, get
    from litestar.exceptions import HTTPException
    from litestar.handlers import BaseRouteHandler
    from litestar.router import Router

    @get("/healthz", include_in_schema=False)
    async def healthz() -> "Response[bytes]":
        return health_response(core)

    handlers: list[Any] = [healthz]
    for plugin, door in core.hooks.collect("register_doors"):
        for handler in door.handlers:
            if not isinstance(handler, BaseRouteHandler | Router):
                raise TransomError(
                    "failed_precondition", f"plugin {plugin!r}: door {door.name!r} has {handler!r}, no Litestar route handler"
                )
            handlers.append(handler)

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        async with core.open():
            yield

    try:
        return Litestar(
            handlers,
            openapi_config=None,
            logging_config=None,
            lifespan=[lifespan],
            exception_handlers={HTTPException: http_error, Exception: any_error},
        )
    except Exception as error:
        raise TransomError("failed_precondition", f"the doors' routes cannot be served together: {error}") from error


def health_response(core: Core) -> "Response[bytes]":
    """`/healthz`: 200, or 503 with what is wrong."""
    from litestar import Response

    health = core.health()
    body = {"status": "ok" if health.ok else "degraded", "plugins": health.plugins, "problems": health.problems}
    return Response(msgspec.json.encode(body), status_code=200 if health.ok else 503, media_type="application/json")


def http_error(request: "Request[Any, Any, Any]", error: Exception) -> "Response[bytes]":
    """What the framework itself refuses: unknown paths and methods."""
    from litestar import Response

    status = getattr(error, "status_code", 500)
    codes = {404: "not_found", 405: "unimplemented", 413: "invalid_argument", 400: "invalid_argument"}
    code = codes.get(status, "internal" if status >= 500 else "invalid_argument")
    said = {404: f"there is nothing at {request.url.path}", 405: f"{request.method} is not allowed here"}
    body = {"code": code, "message": said.get(status, "the request cannot be served"), "details": {}}
    headers = getattr(error, "headers", None) or {}
    return Response(msgspec.json.encode(body), status_code=status, media_type="application/json", headers=headers)


def any_error(_: "Request[Any, Any, Any]", error: Exception) -> "Response[bytes]":
    """A bug: logged here, told without its text."""
    from litestar import Response

    log.error("a request failed", exc_info=error)
    body = {"code": "internal", "message": "the server failed; its log has the cause", "details": {}}
    return Response(msgspec.json.encode(body), status_code=500, media_type="application/json")


def serve(config: Config, ready: Callable[[str, Kernel], None] | None = None) -> int:
    """Serve until SIGINT or SIGTERM; returns the exit code.

    Parameters:
        ready: called once with the URL and the kernel, when the server listens.
    """
    import uvicorn

    core = Core(config, load_plugins(config))
    if not config.dev and not core.hooks.has("authenticate"):
        raise TransomError(
            "failed_precondition",
            "no identity plugin is loaded, so nobody could be told apart; enable one, or use `transom dev`",
        )
    settings = uvicorn.Config(
        create_app(core),
        host=config.host,
        port=config.port,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=5,
    )

    class Server(uvicorn.Server):
        """Tells when it listens, and ends streams as soon as it is told to stop."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started and ready is not None:
                port = self.servers[0].sockets[0].getsockname()[1]
                host = f"[{config.host}]" if ":" in config.host else config.host
                ready(f"http://{host}:{port}", core)

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            core.close_streams()
            super().handle_exit(sig, frame)

    server = Server(settings)
    try:
        server.run()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0 if server.started else 3
