"""Starts the child process when it is first needed, sees that it is well, and starts it again when it is not."""

import os
import secrets
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
import msgspec
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from transom_hookspecs import TransomError

from .files import model_file
from .settings import LocalSettings, ServeOrder, ServeReport

if TYPE_CHECKING:
    import httpx

LOADING = 120.0
"""Seconds that the model may take to load."""
HEALTH = 10.0
"""Seconds in which a server that is well says so, also while it computes."""
_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR", "TMP", "TEMP", "SYSTEMROOT", "VIRTUAL_ENV")
_PASSED_ON_PREFIXES = ("PYTHON", "LC_", "LD_", "DYLD_", "GGML_", "LLAMA_", "OMP_", "CUDA_")
"""What of the environment the child gets. Keys and tokens are none of its business."""


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A server that listens: its base address, and the key that it wants."""

    url: str
    key: str


class ModelProcess:
    """The server process of one kernel.

    Parameters:
        client: gives the client that asks for its health.
    """

    def __init__(self, settings: LocalSettings, client: "Callable[[], httpx.AsyncClient]") -> None:
        self._settings = settings
        self._client = client
        self._lock = anyio.Lock()
        self._process: Process | None = None
        self._served = Served(url="", key="")

    @property
    def pid(self) -> int | None:
        """The child's process ID while there is one."""
        return self._process.pid if self._process else None

    async def ready(self) -> Served:
        """The server, started now if it does not run or is not well.

        Raises:
            TransomError: failed_precondition when the model is missing or cannot be loaded, unavailable or
                deadline_exceeded when the process ends or hangs before it listens.
        """
        async with self._lock:
            if self._process and not await self._well(self._process):
                await self.aclose()
            if not self._process:
                await self._start()
            return self._served

    async def aclose(self) -> None:
        """End the process, if there is one, and wait for its end."""
        process, self._process = self._process, None
        if process:
            await _end(process)

    async def _well(self, process: Process) -> bool:
        import httpx

        if process.returncode is not None:
            return False
        try:
            response = await self._client().get(f"{self._served.url}/health", timeout=HEALTH)
        except httpx.HTTPError:
            return False
        return response.is_success

    async def _start(self) -> None:
        path = await anyio.to_thread.run_sync(model_file, self._settings.model_path)
        key = secrets.token_urlsafe(24)
        order = ServeOrder(
            path=str(path), context=self._settings.context, threads=self._settings.threads or _free_cores(), key=key
        )
        # -P: nothing in the working directory may stand in for a module
        command = [sys.executable, "-P", "-m", "transom_local_model.serve"]
        process = await anyio.open_process(command, stderr=None, env=_environment())
        try:
            url = await _first_report(process, order)
        except BaseException:
            await _end(process)
            raise
        self._process, self._served = process, Served(url=url, key=key)


async def _first_report(process: Process, order: ServeOrder) -> str:
    """Tell the child what to serve, and wait until it does; returns its address."""
    assert process.stdin
    assert process.stdout
    try:
        with anyio.fail_after(LOADING):
            await process.stdin.send(msgspec.json.encode(order) + b"\n")
            line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 1 << 16)
    except TimeoutError:
        raise TransomError("deadline_exceeded", f"the local model did not load within {LOADING:g} s") from None
    except (anyio.BrokenResourceError, anyio.IncompleteRead, anyio.EndOfStream) as error:
        raise TransomError("unavailable", "the local model's process ended while it loaded; see the server's log") from error
    report = msgspec.json.decode(line, type=ServeReport)
    if report.problem:
        raise TransomError("failed_precondition", f"the local model {order.path!r} cannot be served: {report.problem}")
    return report.url


async def _end(process: Process) -> None:
    """Kill and reap: the server keeps nothing that a gentler end would save."""
    with anyio.CancelScope(shield=True):
        if process.returncode is None:
            process.kill()
        await process.aclose()


def _free_cores() -> int:
    """Cores for the model when one is left to the rest: where every thread waits for all others, one that has no core
    stops the others too (32 tokens took half a second on two idle cores, and half a minute on two busy ones).
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(max(cores - 1, 1), 8)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in _PASSED_ON or name.startswith(_PASSED_ON_PREFIXES)}
