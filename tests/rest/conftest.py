"""A kernel of the tests' own behind the real door: it records what the door asks, and answers what a test says."""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import httpx
import msgspec
import pytest
from litestar import Litestar

from transom.table import OWN_OPERATIONS
from transom_hookspecs import (
    Caller,
    CostView,
    Entry,
    Event,
    JobView,
    Origin,
    RequestHead,
    TransomError,
    WatchGrant,
    WatchJob,
)
from transom_rest import RestPlugin
from transom_testing.streaming import stream_client

TOKEN = "t0k"


class Fake:
    """As much of `transom_hookspecs.Kernel` as a door uses.

    `answers`: an operation's answer, or the error that it raises, by its name. `logs`: trees' entries.
    """

    def __init__(self):
        self.caller = Caller(kind="key", id="k1", tenant="default")
        self.answers = defaultdict(lambda: None)
        self.operations = {operation.name: operation for operation in OWN_OPERATIONS}
        self.heads: list[RequestHead] = []
        self.calls: list[tuple[str, msgspec.Struct, Origin]] = []
        self.jobs: dict[str, JobView] = {}
        self.logs: dict[str, list[Entry]] = {}
        self.following: list[str] = []
        self.read = 0
        self.slow = 0
        self._grown = anyio.Event()

    async def authenticate(self, head: RequestHead) -> Caller:
        self.heads.append(head)
        for _ in range(self.slow):
            await anyio.sleep(0)
        if isinstance(self.caller, Exception):
            raise self.caller
        return self.caller

    async def call(self, operation: str, request: msgspec.Struct, origin: Origin):
        assert operation == type(request).__name__ or type(request) is self.operations[operation].request
        self.calls.append((operation, request, origin))
        for _ in range(self.slow):
            await anyio.sleep(0)
        answer = self.answers[operation]
        if isinstance(answer, BaseException):
            raise answer
        if answer is None and isinstance(request, WatchJob):
            return self.grant(request)
        return answer

    def grant(self, request: WatchJob) -> WatchGrant:
        job = self.jobs.get(request.id)
        if job is None:
            raise TransomError("not_found", f"no job {request.id!r}")
        if request.since_seq and (request.token != job.token or request.since_seq > len(self.logs[job.tree])):
            raise TransomError("invalid_argument", "Last-Event-ID: not an event of this job")
        return WatchGrant(job=job, since_seq=request.since_seq)

    def add(self, id: str, tree: str = "", *, token: str = TOKEN) -> JobView:
        job = view(id=id, tree=tree or id, token=token)
        self.jobs[id] = job
        self.logs.setdefault(job.tree, [])
        return job

    def append(self, tree: str, *events: Event) -> None:
        log = self.logs[tree]
        for event in events:
            log.append(Entry(len(log) + 1, 1_700_000_000_000 + len(log), event))
        self._grown.set()
        self._grown = anyio.Event()

    async def watch(self, tenant: str, tree: str, after: int = 0) -> AsyncIterator[Sequence[Entry]]:
        self.following.append(tree)
        try:
            while True:
                if batch := self.logs[tree][after : after + 50]:
                    after = batch[-1].seq
                    self.read += len(batch)
                    yield batch
                else:
                    await self._grown.wait()
        finally:
            self.following.remove(tree)


def view(**changes) -> JobView:
    """A job as callers see it."""
    facts = {
        "id": "j1",
        "agent": "echo",
        "status": "running",
        "started_at": 1_772_366_400_250,
        "tree": "j1",
        "token": TOKEN,
        "cost": CostView(),
    }
    return JobView(**{**facts, **changes})


@pytest.fixture(scope="session")
def job_view():
    return view


@pytest.fixture(scope="session")
def make_fake():
    return Fake


@pytest.fixture(scope="session")
def door():
    """Serve a kernel through the plugin: `async with door(kernel, **settings) as client`.

    The client also has the door's open `streams`, and `shutdown()`, which ends the plugin's life early.
    """

    @asynccontextmanager
    async def serve(kernel: Fake, *, bound: int = 65_536, **settings) -> AsyncIterator[httpx.AsyncClient]:
        plugin = RestPlugin(RestPlugin.Config(**settings))
        app = Litestar(plugin.register_doors()[0].handlers, openapi_config=None)
        started, stop, stopped = anyio.Event(), anyio.Event(), anyio.Event()

        async def live():
            async with plugin.run(kernel):
                started.set()
                await stop.wait()
            stopped.set()

        async def shutdown():
            stop.set()
            await stopped.wait()

        async with anyio.create_task_group() as tasks, stream_client(app, bound=bound) as client:
            tasks.start_soon(live)
            await started.wait()
            client.streams, client.shutdown = plugin.streams, shutdown
            yield client
            await shutdown()

    return serve


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def kernel():
    return Fake()


@pytest.fixture
async def client(kernel, door):
    async with door(kernel) as client:
        yield client
