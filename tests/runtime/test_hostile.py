"""What a stranger sends, and what an agent does, that must not stop the server for anybody else."""

import asyncio
import time
import tomllib
from pathlib import Path

import anyio
import httpx
import pytest
from servers import Server, ended

from transom.config import load
from transom.launcher import KernelLauncher
from transom.plugins import Found
from transom_hookspecs import TransomError

pytestmark = [pytest.mark.anyio, pytest.mark.req("KERN-4")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def sent(server: Server, data: bytes) -> bytes:
    """Send bytes as they are, and give what comes back before the server closes."""
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(data)
        with anyio.move_on_after(5):
            return await reader.read(65_536)
        return b""
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n" + b"X: 1\r\n" * 100_000 + b"\r\n",
        b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 5_000_000,
        b"GET /" + b"a" * 5_000_000,
    ],
    ids=["a hundred thousand headers", "a header without an end", "a path without an end"],
)
async def test_a_head_without_measure_is_refused_and_holds_nobody_up(tmp_path: Path, head: bytes) -> None:
    server = await Server(tmp_path / "data").start()
    try:
        async with httpx.AsyncClient(trust_env=False) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(sent, server, head)
            for _ in range(20):
                began = time.monotonic()
                assert (await client.get(f"{server.url}/healthz")).status_code == 200
                assert time.monotonic() - began < 2, "the head held the server up"
        answer = await sent(server, head)
        assert answer[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 431")
    finally:
        server.stop()


async def test_readers_that_read_nothing_cost_little_memory(tmp_path: Path) -> None:
    server = await Server(tmp_path / "data").start()
    try:
        async with server.client("key") as client:
            body = {"deltas": 100, "bytes": 60_000, "delay_ms": 0}
            job = (await client.post("/v1/agents/streamer/jobs", json=body)).json()["id"]
            await ended(client, job)
        before = memory(server)
        host, port = server.url.removeprefix("http://").split(":")
        request = f"GET /v1/jobs/{job}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.tokens['key']}\r\n\r\n"
        stalled = []
        for _ in range(40):
            _, writer = await asyncio.open_connection(host, int(port), limit=1024)
            writer.transport.pause_reading()
            writer.write(request.encode())
            stalled.append(writer)
        await anyio.sleep(2)
        each = (memory(server) - before) / len(stalled)
        for writer in stalled:
            writer.transport.abort()
        assert each < 3.0, f"a reader that reads nothing costs {each:.1f} MB"
    finally:
        server.stop()


def memory(server: Server) -> float:
    """The server's resident megabytes."""
    for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


@pytest.mark.parametrize("error", [GeneratorExit, SystemExit, KeyboardInterrupt])
async def test_what_would_end_the_process_fails_the_job(kernel, events, error, monkeypatch) -> None:
    import signal

    from kernel_kit import OPERATOR, agents_plugin

    from transom_hookspecs import JobEnded, StartJob

    async def poison(ctx, input):
        raise error("poison")

    monkeypatch.setattr(signal, "getsignal", lambda number: signal.SIG_DFL)  # as in a server, which takes the signal itself
    async with kernel(plugins=[agents_plugin(poison)]) as k:
        await k.call("StartJob", StartJob(agent="poison", id="job"), OPERATOR)
        (last,) = (await events(k, "job")).of(JobEnded)
    assert last.status == "failed"
    assert error.__name__ in last.error.message


async def test_an_error_code_that_is_none_is_unknown_and_every_list_still_works(kernel, events) -> None:
    from kernel_kit import OPERATOR, agents_plugin

    from transom_hookspecs import JobEnded, ListJobs, StartJob

    async def odd(ctx, input):
        raise TransomError("nonsense", "boom")

    async with kernel(plugins=[agents_plugin(odd)]) as k:
        await k.call("StartJob", StartJob(agent="odd", id="job"), OPERATOR)
        assert (await events(k, "job")).of(JobEnded)[0].error.code == "unknown"
        assert [job.id for job in (await k.call("ListJobs", ListJobs(), OPERATOR)).jobs] == ["job"]


@pytest.mark.parametrize(
    "text",
    [
        "[plugins] # c\noptional = ['rest']\n",
        "plugins.block = ['board']\n",
        "plugins = {block = ['board']}\n",
        "[ plugins ]\nblock = ['a']\n",
        '["plugins"]\nblock = ["a"]\n',
        '[plugins]\n"block" = ["a"]\n',
        '[plugins]\n  block = ["a"]\n',
        '[plugins]\nblock = ["board"] # keep\noptional = ["rest"]\n',
        "[plugins]\nblock = [\n  'a', # ]\n]\n[sqlite]\npath = 'x'\n",
        "data = 'd'\r\n\r\n[plugins]\r\nblock = []\r\n",
        "",
    ],
)
def test_a_settings_file_is_changed_as_meant_or_not_at_all(tmp_path: Path, text: str, monkeypatch) -> None:
    path = tmp_path / "transom.toml"
    path.write_bytes(text.encode())
    monkeypatch.setattr("transom.launcher.installed", lambda: [Found(name="demo", distribution="transom", version="1")])
    before = tomllib.loads(text)
    try:
        KernelLauncher(str(path)).set_blocked("demo", blocked=True)
    except TransomError as error:
        refused = error.message
    else:
        refused = ""
    if refused:
        assert "under [plugins] write: block = [" in refused
        assert path.read_bytes() == text.encode(), "it was refused, and changed all the same"
        return
    after = tomllib.loads(path.read_bytes().decode())
    assert after["plugins"].pop("block") == sorted({*before.get("plugins", {}).pop("block", []), "demo"})
    assert after == {"plugins": {}, **before}, "something else was lost"


def test_a_plain_settings_file_is_changed(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "transom.toml"
    path.write_text('data = "d"\n\n[plugins]\nblock = ["board"]\n')
    monkeypatch.setattr("transom.launcher.installed", lambda: [Found(name="demo", distribution="transom", version="1")])
    KernelLauncher(str(path)).set_blocked("demo", blocked=True)
    assert load(str(path), {}).plugins.block == ("board", "demo")
