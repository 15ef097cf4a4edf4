"""Jobs on a store on disk: how to start and await them, and stores that are quick, slow or unavailable at a moment."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
from kernel_kit import OPERATOR, crashing_plugin

from transom_hookspecs import (
    AuditRow,
    DecideApproval,
    Decided,
    GetJob,
    Job,
    JobView,
    Origin,
    StartJob,
    StoreUnavailable,
    Wait,
)
from transom_sqlite import SqliteStore
from transom_sqlite.writer import Work


def on_disk(
    *plugins: type | str, store: SqliteStore | None = None, sweep: float = 0.3, config: Any = None, **options: Any
) -> dict[str, Any]:
    """Options of the `kernel` fixture: these plugins, this very store (or a good one), and the engine of one machine.

    Parameters:
        sweep: seconds after which the engine finds what nobody told it of.
    """
    settings = {"store": "sqlite", "local_engine": {"sweep": sweep}, **(config or {})}
    chosen = ["local_engine", crashing_plugin(store or SqliteStore()), *plugins]
    return {"plugins": chosen, "jobs": False, "config": settings, **options}


async def eventually(found: Callable[[], Awaitable[Any]], seconds: float = 10.0) -> Any:
    """Look until there is something, and return it."""
    with anyio.fail_after(seconds):
        while not (there := await found()):
            await anyio.sleep(0.005)
        return there


async def start(k: Any, agent: str, job: str = "job", who: Origin = OPERATOR, **more: Any) -> None:
    """Start a job under an ID that the test knows."""
    await k.call("StartJob", StartJob(agent=agent, id=job, **more), who)


async def ended(k: Any, job: str = "job", seconds: float = 10.0) -> JobView:
    """The job, once it has ended."""

    async def found() -> JobView | None:
        view = await k.call("GetJob", GetJob(id=job), OPERATOR)
        return view if view.closed_at else None

    return await eventually(found, seconds)


async def ran(k: Any, agent: str, job: str = "job", **more: Any) -> JobView:
    """Start a job and return it at its end."""
    await start(k, agent, job, **more)
    return await ended(k, job)


async def resting(k: Any, job: str = "job") -> None:
    """Return once the job waits and holds no memory: what comes next finds it in the store alone."""

    async def found() -> bool:
        kept = await k.store.get("default", Job, job)
        return kept.status == "waiting" and ("default", job) not in k.running

    await eventually(found)


async def open_waits(k: Any, job: str = "job", count: int = 1) -> list[Wait]:
    """What waits for a person in a job, once that many do."""

    async def found() -> list[Wait] | None:
        waits = await k.store.select("default", Wait, "job", {"job": job, "open": True})
        return waits if len(waits) == count else None

    return await eventually(found)


async def decide(k: Any, wait: Wait, **how: Any) -> Decided:
    """Decide a wait as the operator."""
    return await k.call("DecideApproval", DecideApproval(wait=wait.id, **how), OPERATOR)


class EagerStore(SqliteStore):
    """A store whose writer always wins: it has committed, and told of it, before whoever wrote runs again.

    Blocks the event loop on purpose: use it through the fixture `eager_store`.
    """

    eager = False

    async def transact(self, tenant: str, fn: Any, *, relaxed: bool = False) -> Any:
        if not self.eager:
            return await super().transact(tenant, fn, relaxed=relaxed)
        future = asyncio.get_running_loop().create_future()
        self._parts.writer.submit(Work(tenant, fn, relaxed, future))
        time.sleep(0.004)
        return await future


class UnavailableOnce(SqliteStore):
    """A store that refuses one write or one look at the audit trail: the next that `refuses` says yes to."""

    refuses: Callable[[Any], bool] | None = None

    def _check(self, what: Any) -> None:
        if self.refuses is not None and self.refuses(what):
            self.refuses = None
            raise StoreUnavailable("locked for a moment")

    async def transact(self, tenant: str, fn: Any, *, relaxed: bool = False) -> Any:
        self._check(fn)
        return await super().transact(tenant, fn, relaxed=relaxed)

    async def audit(self, *args: Any, **options: Any) -> Sequence[AuditRow]:
        self._check("audit")
        return await super().audit(*args, **options)


class SlowToTell(SqliteStore):
    """A store that commits what `of` says yes to, and takes its time to say so."""

    def __init__(self, of: Callable[[Any], bool]) -> None:
        super().__init__()
        self._of = of

    async def transact(self, tenant: str, fn: Any, *, relaxed: bool = False) -> Any:
        result = await super().transact(tenant, fn, relaxed=relaxed)
        if self._of(fn):
            await anyio.sleep(0.1)
        return result


def starts_a_job(fn: Any) -> bool:
    """Whether a transaction is the start of a job."""
    return getattr(fn, "__qualname__", "") == "Plan.commit"


def starts_a_child(fn: Any) -> bool:
    """Whether a transaction is the start of a job by another job."""
    return starts_a_job(fn) and fn.__self__._parent is not None


def hooks_plugin(**hooks: Callable[..., Any]) -> type:
    """A plugin class with these hook implementations, each a function without `self`."""
    from transom_hookspecs import hookimpl

    def taken(self: object, config: object) -> None: ...

    implementations = {name: staticmethod(hookimpl(fn)) for name, fn in hooks.items()}
    return type("HooksTestPlugin", (), {"name": "test_hooks", "spec": "1.0", "__init__": taken, **implementations})


def model_plugin(stream: Callable[..., Any], name: str = "m") -> type:
    """A plugin class with a model whose answers are this function's."""

    class Model:
        def count(self, request: object) -> int:
            return 1

        def stream(self, request: object) -> Any:
            return stream(request)

    Model.name = name
    return hooks_plugin(register_models=lambda: [Model()])
