"""The kernel as an ASGI application, and as a server."""

import asyncio
import gc
import logging
import os
import signal
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from copy import copy
from functools import partial
from types import FrameType
from typing import Any, NamedTuple

import msgspec
import uvicorn
from litestar import Litestar, Request, Response, get
from litestar.exceptions import HTTPException
from litestar.handlers import BaseRouteHandler
from litestar.router import Router

from transom_hookspecs import Door, Kernel, PluginError, Secrets, TransomError

from .config import Config
from .core import Core
from .dispatch import blamed
from .http import HEAD_SECONDS, BoundedHttp
from .logs import redacted
from .plugins import load as load_plugins
from .tls import main_context, management_context

log = logging.getLogger("transom")

FORCE = 20.0
"""Seconds after a signal after which the process ends whatever still runs."""

LOOK_AFTER = 0.25
"""Seconds between two looks whether the parent process is there."""

GOODBYE = 2.0
"""Seconds that a client has to take note of the end of an encrypted connection."""


def create_app(core: Core, *, own_life: bool = True) -> Litestar:
    """The ASGI application of a kernel.

    Parameters:
        own_life: its lifespan opens and closes the kernel; else the caller does.

    Raises:
        TransomError: a door's handlers cannot be served, naming the plugin.
    """

    @get("/healthz", include_in_schema=False)
    async def healthz() -> Response[bytes]:
        return health_response(core)

    handlers: list[Any] = [healthz]
    for plugin, door in core.hooks.collect("register_doors"):
        with blamed(plugin, "register_doors"):
            handlers += served(plugin, door)

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        async with core.open():
            yield

    try:
        return Litestar(
            handlers,
            openapi_config=None,
            logging_config=None,
            lifespan=[lifespan] if own_life else [],
            exception_handlers={HTTPException: http_error, Exception: any_error},
        )
    except Exception as error:
        raise TransomError("failed_precondition", f"the doors' routes cannot be served together: {error}") from error


def served(plugin: str, door: Door) -> list[BaseRouteHandler | Router]:
    """A door's handlers, each answering for what it raises in the plugin's name.

    A Router per door would do the same, but two of them cannot share a path, each for methods of its own.
    """
    failed = partial(door_error, plugin, door.name)
    handlers: list[BaseRouteHandler | Router] = []
    for given in door.handlers:
        if not isinstance(given, BaseRouteHandler | Router):
            raise TransomError(
                "failed_precondition", f"plugin {plugin!r}: door {door.name!r} has {given!r}, no Litestar route handler"
            )
        handler = copy(given)  # the plugin's own stays as it was
        handler.exception_handlers = {Exception: failed, 500: failed, **(given.exception_handlers or {})}
        handlers.append(handler)
    return handlers


def health_response(core: Core) -> Response[bytes]:
    """`/healthz`: 200, or 503 with what is wrong."""
    health = core.health()
    body = {"status": "ok" if health.ok else "degraded", "plugins": health.plugins, "problems": health.problems}
    return Response(msgspec.json.encode(body), status_code=200 if health.ok else 503, media_type="application/json")


def http_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """What the framework itself refuses: unknown paths and methods."""
    status = getattr(error, "status_code", 500)
    codes = {404: "not_found", 405: "unimplemented", 413: "invalid_argument", 400: "invalid_argument"}
    code = codes.get(status, "internal" if status >= 500 else "invalid_argument")
    said = {404: f"there is nothing at {request.url.path}", 405: f"{request.method} is not allowed here"}
    body = {"code": code, "message": said.get(status, "the request cannot be served"), "details": {}}
    headers = getattr(error, "headers", None) or {}
    return Response(msgspec.json.encode(body), status_code=status, media_type="application/json", headers=headers)


def door_error(plugin: str, door: str, _: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """A bug in a door, or in another plugin that the door asked, which is named already."""
    log.error("plugin %r: a request failed in door %r", plugin, door, exc_info=error)
    told = error if isinstance(error, PluginError) else PluginError(plugin, f"door {door!r}")
    body = {"code": told.code, "message": told.message, "details": told.details}
    return Response(msgspec.json.encode(body), status_code=500, media_type="application/json")


def any_error(_: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """A bug: logged here, told without its text."""
    log.error("a request failed", exc_info=error)
    body = {"code": "internal", "message": "the server failed; its log has the cause", "details": {}}
    return Response(msgspec.json.encode(body), status_code=500, media_type="application/json")


class Listener(NamedTuple):
    """An address that is served: its socket, and its TLS or none."""

    host: str
    socket: socket.socket
    tls: ssl.SSLContext | None

    @property
    def url(self) -> str:
        """Where it listens."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.socket.getsockname()[1]}"


class Server(uvicorn.Server):
    """uvicorn's server on several listeners, which tells when it listens, and ends streams as soon as it is told to stop."""

    def __init__(
        self,
        settings: uvicorn.Config,
        core: Core,
        listeners: Sequence[Listener],
        ready: Callable[[str, Kernel], None] | None,
    ) -> None:
        super().__init__(settings)
        self.ended_by: list[int] = []
        self._core, self._listeners, self._ready = core, listeners, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say where. uvicorn itself opens no listener, since all of its own would share one TLS."""
        await super().startup([])
        loop = asyncio.get_running_loop()
        for each in self._listeners:
            made = await loop.create_server(
                self._protocol,
                sock=each.socket,
                backlog=self.config.backlog,
                ssl=each.tls,
                ssl_handshake_timeout=HEAD_SECONDS if each.tls else None,
                ssl_shutdown_timeout=GOODBYE if each.tls else None,
            )
            self.servers.append(made)
        if self._ready is not None:
            self._ready(self._listeners[0].url, self._core)

    def _protocol(self) -> BoundedHttp:
        return BoundedHttp(self.config, self.server_state, self.lifespan.state)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End on SIGINT and SIGTERM, and remember which; uvicorn's own would raise it once more at the end."""
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    async def end_with(self, parent: int) -> None:
        """End as on SIGTERM when the process that started this one is gone."""
        while os.getppid() == parent:  # noqa: ASYNC110 - nothing tells of it, on every system
            await asyncio.sleep(LOOK_AFTER)
        self.handle_exit(signal.SIGTERM, None)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal: streams end at once, everything else in its order."""
        if not self.ended_by:
            force = threading.Timer(FORCE, os._exit, [128 + sig])
            force.daemon = True
            force.start()  # whatever hangs: leases and locks are free once the process is gone
        self.ended_by.append(sig)
        self._core.close_streams()
        super().handle_exit(sig, frame)


def listen(host: str, port: int) -> socket.socket:
    """A socket to serve on.

    Raises:
        TransomError: failed_precondition, when the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host or "127.0.0.1", port))
    except (OSError, OverflowError) as error:
        made.close()
        why = getattr(error, "strerror", None) or str(error)
        raise TransomError(
            "failed_precondition",
            f"cannot listen on {host}:{port}: {why}; choose another port (0 takes a free one)",
        ) from error
    return made


def listeners(config: Config) -> list[Listener]:
    """The main port, and the operators' where there is one.

    Raises:
        TransomError: failed_precondition, when an address cannot be had, or a file of its TLS cannot be used.
    """
    found = [(config.host, config.port, main_context(config))]
    if (management := config.management) is not None:
        found.append((management.host, management.port, management_context(config, management)))
    made: list[Listener] = []
    try:
        for host, port, tls in found:
            made.append(Listener(host, listen(host, port), tls))
    except TransomError:
        for each in made:
            each.socket.close()
        raise
    return made


def settle_garbage() -> None:
    """Leave what the start made out of garbage collections, and make those rarer: a tenth less CPU for each request."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


def serve(config: Config, ready: Callable[[str, Kernel], None] | None = None, *, with_parent: bool = False) -> int:
    """Serve until SIGINT or SIGTERM; returns the exit code.

    Parameters:
        ready: called once with the URL and the kernel, when the server listens.
        with_parent: end also when the process that started this one ends, however it does.

    Raises:
        TransomError: failed_precondition, when it may not or cannot start.
    """
    parent = os.getppid()
    core = Core(config, load_plugins(config))
    if not config.dev and not core.hooks.has("authenticate"):
        raise TransomError(
            "failed_precondition",
            "no identity plugin is loaded, so nobody could be told apart; enable one, or use `transom dev`",
        )
    settings = uvicorn.Config(
        create_app(core, own_life=False),
        host=config.host,
        port=config.port,
        loop="uvloop",
        http=BoundedHttp,
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=5,
    )
    listening = listeners(config)
    server = Server(settings, core, listening, ready)

    async def life() -> None:
        async with core.open():
            settle_garbage()
            if with_parent:
                core.spawn(server.end_with, parent, name="the watch for the parent process")
            await server.serve([each.socket for each in listening])

    with redacted(partial(core.service, Secrets)), asyncio.Runner(loop_factory=settings.get_loop_factory()) as runner:
        try:
            runner.run(life())
        except (TransomError, OSError):
            raise
        except Exception:
            log.exception("the server failed")  # not printed by Python, which would redact nothing
            return 1
    if not server.started:
        return 3
    return 128 + signal.SIGINT if signal.SIGINT in server.ended_by else 0
