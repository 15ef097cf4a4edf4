"""The child process: when it starts, that it starts again, and that it never outlives its parent."""

import os
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import anyio
import pytest
from transom_local_model import LocalModelPlugin, LocalSettings
from transom_local_model import process as process_module
from transom_local_model.process import ModelProcess

from transom_hookspecs import Message, ModelRequest, TransomError

pytestmark = pytest.mark.anyio

HELLO = ModelRequest(messages=(Message(role="user", content="Say hello."),), max_tokens=4)

PARENT = """
import asyncio, httpx
from transom_local_model import LocalModelPlugin, LocalSettings

class Kernel:
    def __init__(self): self.outbound = self
    def operator(self, name): return httpx.AsyncHTTPTransport()

async def main():
    plugin = LocalModelPlugin(LocalSettings())
    async with plugin.run(Kernel()):
        print((await plugin.process.ready()).url, flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


def listens(url):
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port), timeout=1).close()
    except OSError:
        return False
    return True


def wait_until_gone(url, seconds=10.0):
    until = time.monotonic() + seconds
    while listens(url) and time.monotonic() < until:
        time.sleep(0.02)
    return not listens(url)


async def test_no_process_runs_before_the_first_request(plugin, ask):
    assert plugin.process.pid is None
    await ask(HELLO)
    assert plugin.process.pid


async def test_the_process_ends_with_the_kernel(installed, kernel):
    plugin = LocalModelPlugin(LocalSettings())
    async with plugin.run(kernel):
        url = (await plugin.process.ready()).url
        assert listens(url)
    assert plugin.process.pid is None
    assert not listens(url)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_process_ends_when_its_parent_is_killed(installed, how):
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        url = parent.stdout.readline().strip()
        assert listens(url)
        parent.send_signal(how)
    assert wait_until_gone(url)


async def test_a_process_that_died_is_started_again(plugin, ask):
    await ask(HELLO)
    first = plugin.process.pid
    os.kill(first, signal.SIGKILL)
    assert (await ask(HELLO))[-1].usage.output_tokens
    assert plugin.process.pid != first


async def test_a_process_that_hangs_is_replaced(plugin, ask, monkeypatch):
    monkeypatch.setattr(process_module, "HEALTH", 0.5)
    await ask(HELLO)
    first = plugin.process.pid
    os.kill(first, signal.SIGSTOP)
    assert (await ask(HELLO))[-1].usage.output_tokens
    assert plugin.process.pid != first


async def test_a_start_that_is_cancelled_leaves_no_process(plugin, monkeypatch):
    started, open_process = [], anyio.open_process

    async def open_and_keep(*args, **kwargs):
        started.append(await open_process(*args, **kwargs))
        return started[0]

    monkeypatch.setattr(anyio, "open_process", open_and_keep)
    with anyio.move_on_after(0.1):
        await plugin.process.ready()
    assert started[0].returncode is not None
    assert plugin.process.pid is None


async def test_a_process_that_loads_for_too_long_is_a_deadline(plugin, monkeypatch):
    monkeypatch.setattr(process_module, "LOADING", 0.01)
    with pytest.raises(TransomError) as caught:
        await plugin.process.ready()
    assert caught.value.code == "deadline_exceeded"


async def test_a_file_that_is_no_model_is_named(installed, kernel, tmp_path):
    path = tmp_path / "x.gguf"
    path.write_text("not a model")
    plugin = LocalModelPlugin(LocalSettings(model_path=str(path)))
    async with plugin.run(kernel):
        with pytest.raises(TransomError, match=r"x\.gguf' cannot be served") as caught:
            await plugin.process.ready()
    assert caught.value.code == "failed_precondition"


async def test_a_process_that_ends_while_it_loads_is_unavailable(installed, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(TransomError, match="ended while it loaded") as caught:
        await ModelProcess(LocalSettings(), lambda: None).ready()
    assert caught.value.code == "unavailable"


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (4, 3), (64, 8)])
def test_a_core_is_left_to_the_rest(monkeypatch, cores, threads):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)), raising=False)
    assert process_module._free_cores() == threads


def test_the_process_gets_no_secret_of_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("PYTHONPATH", "here")
    given = process_module._environment()
    assert "OPENAI_API_KEY" not in given
    assert given["PYTHONPATH"] == "here"
    assert given["PATH"]
