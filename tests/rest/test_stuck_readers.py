"""A client that never reads, on a real socket: its stream ends for good, and its connection with it."""

import socket
from contextlib import asynccontextmanager, nullcontext

import anyio
import pytest
import uvicorn
from litestar import Litestar

from transom.http import BoundedHttp
from transom_doors import streams
from transom_hookspecs import JobEnded, JobStarted, Text
from transom_rest import RestPlugin

pytestmark = [pytest.mark.anyio, pytest.mark.req("FEED-6")]

LONG, BUFFER = 2_000, 65_536
"""Events of 1,000 bytes: more than the sockets' buffers take, which are so large each."""


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request):
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
def long_job(kernel):
    kernel.add("j1")
    kernel.append("j1", JobStarted(job="j1", agent="echo", caller="p:a"))
    kernel.append("j1", *[Text(job="j1", message="m", delta="x" * 1000) for _ in range(LONG)])
    return kernel


class Server(uvicorn.Server):
    """A server that leaves the process's signals alone."""

    def capture_signals(self):
        return nullcontext()


@asynccontextmanager
async def served(kernel, **settings):
    """The door behind a real server; gives the plugin, the server, and the address."""
    plugin = RestPlugin(RestPlugin.Config(**settings))
    app = Litestar(plugin.register_doors()[0].handlers, openapi_config=None, logging_config=None)
    server = Server(uvicorn.Config(app, http=BoundedHttp, lifespan="off", log_config=None, timeout_graceful_shutdown=1))
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    async with anyio.create_task_group() as tasks, plugin.run(kernel):
        tasks.start_soon(server.serve, [listening])
        while not server.started:
            await anyio.sleep(0.005)
        yield plugin, server, listening.getsockname()
        server.should_exit = True


def stuck(address) -> socket.socket:
    """A client that asks for the job's stream and reads nothing of it."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    client.connect(address)
    client.sendall(b"GET /v1/jobs/j1/events HTTP/1.1\r\nhost: here\r\n\r\n")
    return client


async def until(condition) -> None:
    with anyio.fail_after(10):
        while not condition():
            await anyio.sleep(0.01)


def rest_of(client: socket.socket) -> bytes:
    """What there is still to read, up to the end or the break of the connection."""
    got = b""
    client.settimeout(5)
    try:
        while part := client.recv(1 << 16):
            got += part
    except ConnectionResetError:
        pass
    return got


async def test_at_its_lifetimes_end_its_connection_goes(long_job, monkeypatch) -> None:
    monkeypatch.setattr(streams, "PATIENCE", 0.2)
    async with served(long_job, stream=0.6) as (plugin, server, address):
        with stuck(address) as client:
            await until(lambda: long_job.following == ["j1"])
            await until(lambda: not plugin.streams and not server.server_state.connections)
            assert long_job.following == []
            assert not server.server_state.tasks
            got = await anyio.to_thread.run_sync(rest_of, client)
    assert got.startswith(b"HTTP/1.1 200")
    assert not got.endswith(b"0\r\n\r\n")


async def test_one_whose_log_has_ended_keeps_it_until_its_lifetimes_end(long_job, monkeypatch) -> None:
    """It does not go for being slow: only the end of the lifetime begins the few seconds that it has."""
    monkeypatch.setattr(streams, "PATIENCE", 0.1)
    long_job.append("j1", JobEnded(job="j1", status="completed"))
    async with served(long_job, ping=0.1) as (plugin, _, address):
        with stuck(address) as client:
            await until(lambda: long_job.following == ["j1"])
            await anyio.sleep(0.5)
            assert len(plugin.streams) == 1
            got = await anyio.to_thread.run_sync(rest_of, client)
            await until(lambda: not plugin.streams)
    assert got.count(b"event: text\n") == LONG
    assert b"event: job.ended" in got


async def test_a_shutdown_waits_for_it_a_second_and_no_longer(long_job) -> None:
    async with served(long_job) as (plugin, server, address):
        with stuck(address) as client:
            await until(lambda: long_job.following == ["j1"])
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(plugin.streams._close)
                await until(lambda: not server.server_state.connections)
            assert (long_job.following, len(plugin.streams)) == ([], 0)
            assert not (await anyio.to_thread.run_sync(rest_of, client)).endswith(b"0\r\n\r\n")
