"""The pytest plugin for authors of plugins: a kernel with just the plugins that are named, and what to test it with.

    async def test_my_door(kernel, door_client):
        async with kernel(plugins=[MyPlugin], config={"my": {"greeting": "hi"}}) as k, door_client(k) as client:
            assert (await client.get("/hello")).text == "hi"

It imports the kernel only when a fixture is used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

if TYPE_CHECKING:
    import httpx

    from transom.core import Core
    from transom_hookspecs import Clock, Entry

    from .doubles import FakeModel, ManualClock
    from .streaming import App

    KernelFactory = Callable[..., AbstractAsyncContextManager[Core]]
    ClientFactory = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


@pytest.fixture
def anyio_backend() -> str:
    """Tests marked `anyio` run on asyncio, as the kernel does."""
    return "asyncio"


@pytest.fixture
def kernel(tmp_path: Path) -> KernelFactory:
    """Running kernels: use it as `async with kernel(plugins=[MyPlugin], config={…}) as k`.

    Parameters of the factory:
        plugins: plugin classes, and names of installed plugins; no other is loaded.
        config: the kernel's settings, and plugins' tables by name.
        jobs: also a memory store and the engine of one machine, so that jobs run.
        clock: instead of the computer's.
        agents: YAML files to add to the catalog.
        data: the data folder; a folder of the test's by default.
        own_only: advance only the jobs that this kernel starts.
    """
    return lambda **options: _open(tmp_path, **options)


@asynccontextmanager
async def _open(
    folder: Path,
    *,
    plugins: Sequence[type | str] = (),
    config: dict[str, Any] | None = None,
    jobs: bool = True,
    clock: Clock | None = None,
    agents: Sequence[str] = (),
    data: str = "",
    own_only: bool = False,
) -> AsyncIterator[Core]:
    from transom import Transom

    chosen: list[type | str] = list(plugins)
    if jobs:
        chosen += [_memory_store(), "local_engine"]
    settings = settings_of(config or {}, data or str(folder / "data"))
    made = resolve(chosen)
    async with Transom(settings, plugins=made, entry_points=False, agents=agents, clock=clock, own_only=own_only) as transom:
        yield transom.kernel


def settings_of(config: dict[str, Any], data: str) -> Any:
    """Settings as `transom.toml` would give them."""
    import msgspec

    from transom.config import OWN, Config

    own = {key: value for key, value in config.items() if key in OWN}
    tables = {key: value for key, value in config.items() if key not in OWN}
    return msgspec.convert({"data": data, **own, "tables": tables}, Config)


def _memory_store() -> type:
    from .memory_store import MemoryStorePlugin

    return MemoryStorePlugin


def resolve(plugins: Sequence[type | str]) -> list[type]:
    """Plugin classes, of classes and of names of installed plugins; a name's class keeps that name."""
    from transom.plugins import installed

    entries = {found.name: found.entry for found in installed()}
    classes: list[type] = []
    for plugin in plugins:
        if not isinstance(plugin, str):
            classes.append(plugin)
            continue
        entry = entries.get(plugin)
        if entry is None:
            raise LookupError(f"there is no plugin {plugin!r}; installed are {', '.join(sorted(entries))}")
        cls = entry.load()
        classes.append(type(cls.__name__, (cls,), {"name": plugin, "__module__": cls.__module__}))
    return classes


@pytest.fixture
def door_client() -> ClientFactory:
    """In-process clients that do stream: use it as `async with door_client(k, token="…") as client`."""
    import transom.web  # noqa: F401 - with Litestar and httpx, it takes time that no event loop should wait for

    from . import streaming  # noqa: F401 - the same

    return _client


@asynccontextmanager
async def _client(core: Core, *, token: str = "", **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    from transom import create_app

    from .streaming import stream_client

    async with stream_client(cast("App", create_app(core)), **options) as client:
        if token:
            client.headers["Authorization"] = f"Bearer {token}"
        yield client


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands until the test moves it."""
    from .doubles import ManualClock

    return ManualClock()


@pytest.fixture
def fake_model() -> FakeModel:
    """A model that answers what the test puts in, and keeps what it was asked."""
    from .doubles import FakeModel

    return FakeModel()


@dataclasses.dataclass
class Log:
    """What a job tree's log said."""

    entries: list[Entry]

    @property
    def kinds(self) -> list[str]:
        """The events' names, in order."""
        return [str(entry.event.__struct_config__.tag) for entry in self.entries]

    def of(self, kind: type) -> list[Any]:
        """The events of one kind."""
        return [entry.event for entry in self.entries if isinstance(entry.event, kind)]


async def log_of(core: Core, job: str, *, tenant: str = "default", until: str = "job.ended") -> Log:
    """Follow a root job's log until an event of this name about it; `tree.waiting` counts for the whole tree."""
    found: list[Entry] = []
    async for batch in core.watch(tenant, job):
        for entry in batch:
            found.append(entry)
            if entry.event.__struct_config__.tag == until and entry.event.job == job:
                return Log(found)
    return Log(found)


@pytest.fixture
def events() -> Callable[..., Any]:
    """The log of a job tree up to its end, or `until` another event: use it as `await events(k, job_id)`."""
    return log_of
