"""A runtime inside this process, on a data folder: operations called on the kernel as the operator at this machine."""

import getpass
import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from transom_hookspecs import (
    AgentView,
    Caller,
    CancelJob,
    Catalog,
    DecideApproval,
    Decided,
    EditWait,
    Entry,
    Event,
    GetCatalog,
    GetJob,
    GetJobTrace,
    GetJobWait,
    JobAnswer,
    JobEnded,
    JobPage,
    JobStarted,
    JobTrace,
    JobView,
    JobWait,
    Kernel,
    Launcher,
    ListApprovals,
    ListJobs,
    Operation,
    Origin,
    SetJobTags,
    StartJob,
    TreeRunning,
    TreeWaiting,
    WaitPage,
    WaitView,
    WatchGrant,
    WatchJob,
)

from .client import Target

S = TypeVar("S", bound=msgspec.Struct)


@asynccontextmanager
async def embedded_client(launcher: Launcher, where: Target, agents: Sequence[str]) -> AsyncIterator["EmbeddedClient"]:
    """A client of a kernel that lives as long as the context."""
    async with launcher.embedded(data=where.data, dev=not launcher.config_path, agents=agents) as kernel:
        yield EmbeddedClient(kernel, where.tenant)


class EmbeddedClient:
    """The `client.Client` of a kernel in this process."""

    remote = False

    def __init__(self, kernel: Kernel, tenant: str) -> None:
        self._kernel = kernel
        self._origin = Origin(tenant=tenant, caller=Caller(kind="operator", id=login()), door="cli")
        self._started: set[str] = set()

    async def start(self, request: StartJob) -> JobAnswer:
        """Start a job; this process advances it."""
        answer = await self._call(request, JobAnswer)
        self._started.add(answer.job.id)
        return answer

    async def job(self, id: str) -> JobView:
        """A job as it is."""
        return await self._call(GetJob(id=id), JobView)

    async def jobs(self, limit: int, cursor: str) -> JobPage:
        """Recent top-level jobs."""
        return await self._call(ListJobs(limit=limit, cursor=cursor), JobPage)

    async def events(self, job: JobView) -> AsyncGenerator[Sequence[Entry], None]:
        """The log of the job's tree, of which what is about other branches is left out; ends with the job."""
        grant = await self._call(WatchJob(id=job.id), WatchGrant)
        branch = Branch(job.id)
        read = self._kernel.watch if await self.attended(job) else self._recorded
        log = read(self._origin.tenant, grant.job.tree, grant.since_seq)
        try:
            async for batch in log:
                if kept := [entry for entry in batch if branch.has(entry.event)]:
                    yield kept
                if branch.ended:
                    return
        finally:
            if isinstance(log, AsyncGenerator):
                await log.aclose()

    async def attended(self, job: JobView) -> bool:
        """Whether this process started the job, or another one is alive that works on this data folder."""
        return job.id in self._started or await self._kernel.attended()

    async def _recorded(self, tenant: str, tree: str, after: int) -> AsyncGenerator[Sequence[Entry], None]:
        """A log as far as it goes now."""
        while batch := await self._kernel.store.read(tenant, tree, after):
            after = batch[-1].seq
            yield batch

    async def cancel(self, id: str, reason: str = "") -> JobView:
        """Cancel a job and what it delegated."""
        return await self._call(CancelJob(id=id, reason=reason), JobView)

    async def trace(self, id: str) -> JobTrace:
        """A job's steps."""
        return await self._call(GetJobTrace(id=id), JobTrace)

    async def why(self, id: str) -> JobWait:
        """Why a job waits."""
        return await self._call(GetJobWait(id=id), JobWait)

    async def tag(self, id: str, add: Sequence[str], remove: Sequence[str]) -> JobView:
        """Change a job's tags."""
        return await self._call(SetJobTags(id=id, add=tuple(add), remove=tuple(remove)), JobView)

    async def waits(self, job: str = "", *, tree: bool = False) -> Sequence[WaitView]:
        """What waits for a person, oldest first."""
        return (await self._call(ListApprovals(job=job, tree=tree), WaitPage)).waits

    async def decide(self, decision: DecideApproval) -> Decided:
        """Decide a wait, or vote."""
        return await self._call(decision, Decided)

    async def edit(self, edit: EditWait) -> None:
        """Change the arguments that wait for approval."""
        await self._call(edit, msgspec.Struct)

    async def agents(self) -> Sequence[AgentView]:
        """The agents and flows there are."""
        return (await self._call(GetCatalog(), Catalog)).agents

    async def call(self, operation: Operation, request: msgspec.Struct) -> msgspec.Struct:
        """Call any operation of the table."""
        return await self._kernel.call(operation.name, request, self._origin)  # type: ignore[no-any-return]

    def declared_in(self, path: str) -> str:
        """The name that the kernel knows a file's agent by: what it declares, else the file's stem."""
        for folder in ("agents", "flows"):
            for document in self._kernel.documents(folder):
                if Path(document.path) == Path(path):
                    return document.name
        return Path(path).stem

    async def _call(self, request: msgspec.Struct, answer: type[S]) -> S:
        """Call the operation that the request's type is named after; `answer` says what it gives."""
        result = await self._kernel.call(type(request).__name__, request, self._origin)
        assert isinstance(result, answer), f"{type(request).__name__} answered a {type(result).__name__}"
        return result


class Branch:
    """Which events of a tree's log are about one job and what it delegated, fed in the log's order.

    A job inside a tree waits with its tree: `tree.waiting` and `tree.running` belong to every branch.
    """

    def __init__(self, job: str) -> None:
        self.ended = False
        self._top = job
        self._jobs = {job}

    def has(self, event: Event) -> bool:
        """Whether the event belongs to the branch."""
        if isinstance(event, JobStarted) and event.parent in self._jobs:
            self._jobs.add(event.job)
        if isinstance(event, JobEnded) and event.job == self._top:
            self.ended = True
        return event.job in self._jobs or isinstance(event, TreeWaiting | TreeRunning)


def login() -> str:
    """Who is at this machine: the login name, else the user's number (a container may have no name for it)."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"uid-{os.getuid()}" if hasattr(os, "getuid") else "unknown"
