"""The kernel: it implements `transom_hookspecs.Kernel`, and holds what the other modules share."""

import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from transom_hookspecs import (
    KERNEL_RECORDS,
    NEVER,
    SYSTEM,
    Agent,
    AgentView,
    Caller,
    Clock,
    Document,
    Engine,
    Entry,
    Filter,
    Health,
    Job,
    Json,
    Lease,
    Origin,
    Outbound,
    PluginInfo,
    Record,
    RequestHead,
    Rule,
    Secrets,
    Stale,
    Store,
    StoreUnavailable,
    Tenants,
    TenantSettings,
    TransomError,
    Tx,
    Verdict,
    Worker,
)

from . import auditing, claims, jobs, operations, registry, run, schemas, workers
from .catalog import Catalog
from .config import Config
from .dispatch import Hooks, contained
from .filters import Filters
from .groups import ungrouped
from .log import Hub
from .outbound import OutboundService
from .plugins import Loaded
from .secret import load_secret
from .timers import Timer, Timers
from .watchdog import Watchdog

log = logging.getLogger("transom")

S = TypeVar("S")
DRAIN = 5.0
MAX_PROBLEMS = 20
PROBLEM_FOR = 300_000
STORE_BAD_FOR = 30_000


class SystemClock:
    """The computer's clock."""

    def now(self) -> int:
        """Milliseconds (Unix)."""
        return time.time_ns() // 1_000_000


class Core:
    """The kernel. One instance a program may have several of; no state is outside it."""

    def __init__(self, config: Config, loaded: Loaded, clock: Clock | None = None, agents: Sequence[str] = ()) -> None:
        self.config = config
        self.clock: Clock = clock or SystemClock()
        self.plugins: Sequence[PluginInfo] = loaded.infos
        self.data, self.dev = config.data, config.dev
        self.instances = loaded.plugins
        self.hooks = Hooks(loaded.manager, config.plugins.order, infos=loaded.infos)
        self.outbound: Outbound = OutboundService(config, partial(self.service, Secrets))
        self.catalog = Catalog(config)
        self.catalog.fill(self.hooks, agents)
        self.operations, self.operation_plugins = registry.operations(self.hooks)
        self.filters: list[tuple[str, Filter]] = self.hooks.collect("register_filters")
        self._services = registry.services(self.hooks)
        self._tenants = self.service(Tenants)
        self.records: Sequence[Record] = [*KERNEL_RECORDS, *(r for _, r in self.hooks.collect("register_records"))]
        self._store: Store | None = registry.chosen(self.hooks, "register_stores", config.store, "store")
        self._engine: Engine | None = registry.chosen(self.hooks, "register_engines", config.engine, "engine")
        self.advancing: set[tuple[str, str]] = set()
        self.running: dict[tuple[str, str], run.JobRun] = {}
        self.starting: set[tuple[str, str]] = set()
        self.claims: dict[tuple[str, str], claims.Claim] = {}
        self.secret = b""
        self.enrolled = False
        self._problems: deque[tuple[int, str]] = deque(maxlen=MAX_PROBLEMS)
        self._watchdog = Watchdog()
        self._store_refused = 0
        self._timers = Timers(self.report)
        self._tasks: TaskGroup | None = None
        self._hub: Hub | None = None

    @property
    def store(self) -> Store:
        """The one store."""
        if self._store is None:
            raise TransomError("failed_precondition", "there is no store; enable a plugin that registers one (such as sqlite)")
        return self._store

    @property
    def engine(self) -> Engine:
        """The one engine."""
        if self._engine is None:
            raise TransomError("failed_precondition", "there is no engine; enable a plugin that registers one")
        return self._engine

    @property
    def hub(self) -> Hub:
        """Followers, while the kernel runs."""
        if self._hub is None:
            raise TransomError("unavailable", "the kernel is not running")
        return self._hub

    # -- its life -----------------------------------------------------------------------------------------

    @asynccontextmanager
    async def open(self, *, own_only: bool = False) -> AsyncIterator[None]:
        """Open the store, start the plugins' lives and the engine, and close them in the reverse order.

        Parameters:
            own_only: advance only the jobs that this kernel started.
        """
        async with ungrouped(), AsyncExitStack() as stack:
            if self._store is not None:
                await self._open_store(stack)
                if not own_only:
                    await workers.enroll(self)
            self._tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(self._tasks.cancel_scope.cancel)
            self.spawn(self._timers.run, name="timers")
            if self._store is not None:
                told = self._on_ended if self.hooks.has("on_job_ended") else None
                self._hub = Hub(self._store, self._on_job, self._on_anything, told)
                self.spawn(self._run_hub, name="changes")
            await self._open_plugins(stack)
            if self._store is not None and self.hooks.has("on_audit"):
                self.spawn(auditing.tell, self, name="audit receivers")
            if self._store is not None and self._engine is not None:
                stack.push_async_callback(self._give_back)
                await stack.enter_async_context(self._engine.run(self, own_only=own_only))
                stack.push_async_callback(self._drain)
            self._watchdog.start()
            stack.callback(self._watchdog.stop)
            stack.callback(self.close_streams)
            yield

    async def _open_store(self, stack: AsyncExitStack) -> None:
        store = self.store
        store.data, store.clock = self.data, self.clock.now
        await stack.enter_async_context(store.open(self.records))
        self.secret = await anyio.to_thread.run_sync(load_secret, Path(self.data))
        await anyio.to_thread.run_sync(schemas.warm)
        await self.catalog.keep(store)

    async def _open_plugins(self, stack: AsyncExitStack) -> None:
        for name, plugin in sorted(self.instances.items()):
            life = getattr(plugin, "run", None)
            if life is not None:
                await stack.enter_async_context(contained(name, "run", partial(life, self)))

    async def _run_hub(self) -> None:
        while True:
            try:
                await self.hub.run()
            except Exception as error:  # noqa: BLE001 - it is reported
                self.report("changes of the store", error)
            await anyio.sleep(1)
            self.hub.everything()

    async def _drain(self) -> None:
        """Give calls in flight that may not be repeated a few seconds to end."""
        with anyio.move_on_after(DRAIN):
            while any(job.critical for job in self.running.values()):  # noqa: ASYNC110 - at shutdown only
                await anyio.sleep(0.02)

    async def _give_back(self) -> None:
        """Leave what this worker still holds to whoever comes first."""
        try:
            with anyio.CancelScope(shield=True):
                await self.release(self.store.worker, died=False)
        except StoreUnavailable as error:
            log.warning("what this worker holds is freed when others see that it is gone: %s", error.message)

    async def release(self, worker: str, *, died: bool = True) -> list[Lease]:
        """Free every lease of a worker that is gone, and forget the worker; returns what can go on now."""

        def write(tx: Tx) -> list[Lease]:
            held = tx.select(Lease, "due", {"worker": worker}, limit=NEVER)
            tx.delete(Worker, worker)
            return [tx.update(lease, worker="", at=tx.now, deaths=lease.deaths + died) for lease in held]

        return await self.store.transact(SYSTEM, write)

    def close_streams(self) -> None:
        """End every follower, so that streams close before the server waits for them."""
        if self._hub is not None:
            self._hub.close()

    # -- the kernel's face --------------------------------------------------------------------------------

    async def authenticate(self, head: RequestHead) -> Caller:
        """Who sends this request; see `Kernel.authenticate`."""
        caller = await self.hooks.first("authenticate", head)
        if caller is None:
            raise TransomError("unauthenticated", "no valid credential; send Authorization: Bearer <token>")
        return cast(Caller, caller)

    async def call(self, operation: str, request: msgspec.Struct, origin: Origin) -> Any:
        """The one way in; see `Kernel.call`."""
        try:
            return await operations.call(self, operation, request, origin)
        except StoreUnavailable:
            self._store_refused = self.clock.now()
            raise

    async def may(
        self, caller: Caller, tenant: str, permission: str, object: str = "", job: Job | None = None, rule: Rule | None = None
    ) -> Verdict:
        """What policy says of an access; see `Kernel.may`."""
        return await operations.may(self, caller, tenant, permission, object, job, rule)

    def watch(self, tenant: str, tree: str, after: int = 0) -> AsyncIterator[Sequence[Entry]]:
        """A tree's log from a seq on; see `Kernel.watch`."""
        return self.hub.follow(tenant, tree, after)

    def topic(self, topic: str) -> AbstractContextManager[Callable[[], Awaitable[None]]]:
        """Follow a topic of changes; see `Kernel.topic`."""
        return self.hub.topic(topic)

    def service(self, protocol: Callable[..., S]) -> S | None:
        """The provider of a service, or None; the Protocol class itself is the key."""
        return cast(S | None, self._services.get(protocol))

    def spawn(self, fn: Callable[..., Awaitable[None]], *args: Any, name: str = "") -> None:
        """Run a task that the kernel owns; see `Kernel.spawn`."""
        if self._tasks is None:
            raise TransomError("unavailable", "the kernel is not running")
        self._tasks.start_soon(self._guarded, fn, args, name, name=name or None)

    async def _guarded(self, fn: Callable[..., Awaitable[None]], args: tuple[Any, ...], name: str) -> None:
        try:
            await fn(*args)
        except Exception as error:  # noqa: BLE001 - it is reported
            self.report(name or repr(fn), error)

    def later(self, seconds: float, do: Callable[[], None]) -> Timer:
        """Do something short after some seconds; see `Kernel.later`."""
        return self._timers.later(seconds, do)

    def report(self, what: str, error: BaseException) -> None:
        """Log a failure that nobody waits for, and show it in health for some minutes."""
        log.error("%s failed", what, exc_info=error)
        self._problems.append((self.clock.now(), f"{what} failed: {type(error).__name__}"))

    def agents(self, tenant: str) -> Sequence[AgentView]:
        """The tenant's agents and flows."""
        return self.catalog.views(tenant)

    def agent(self, tenant: str, name: str) -> Agent | None:
        """An agent or flow of the tenant's catalog."""
        offer = self.catalog.offer(tenant, name)
        return offer.agent if offer else None

    def documents(self, folder: str) -> Sequence[Document]:
        """The declared things of every bundle's subfolder."""
        return [d for d in self.catalog.documents if d.folder == folder]

    def tenants(self) -> Sequence[str]:
        """The tenants there are."""
        own = self.config.tenants
        return own if self._tenants is None else (*own, *(name for name in self._tenants.names() if name not in own))

    def settings(self, tenant: str) -> TenantSettings:
        """What a tenant's admins set."""
        return self._tenants.settings(tenant) if self._tenants is not None else TenantSettings()

    def health(self) -> Health:
        """How the process is."""
        since = self.clock.now() - PROBLEM_FOR
        problems = [text for at, text in self._problems if at >= since] + self.hooks.switched_off
        if blocked := self._watchdog.problem():
            problems.append(blocked)
        if self.clock.now() - self._store_refused < STORE_BAD_FOR:
            problems.append("the store refused work a moment ago; the log says why")
        bad = bool(problems)
        if not self.instances:
            problems.append("no plugin is loaded: there is no door, store or engine")
        return Health(ok=not bad, plugins=len(self.instances), problems=tuple(problems))

    async def attended(self) -> bool:
        """Whether another process goes on with jobs here; see `Kernel.attended`."""
        return await workers.attended(self)

    async def advance(self, tenant: str, job: str) -> None:
        """Claim a job and run it as far as it goes; see `Kernel.advance`."""
        try:
            await run.advance(self, tenant, job)
        except StoreUnavailable as error:
            self._store_refused = self.clock.now()
            log.warning("job %s goes on when the store takes work again: %s", job, error.message)
        except Exception as error:  # noqa: BLE001 - it is reported
            self.report("the advance of a job", error)

    # -- for the other modules ----------------------------------------------------------------------------

    def launch(self, tenant: str, job: Job, value: Json) -> None:
        """A job was committed: its claim is handed to the engine, when the start made it."""
        self.starting.discard((tenant, job.id))
        if self.engine.local:
            self.claims[tenant, job.id] = claims.Claim(job=job, epoch=1, input=value)
        self.engine.launch(tenant, job.id)

    async def adopt(self, tenant: str, job: Job) -> None:
        """Somebody here wants a job to go on that was started elsewhere: what no worker holds of its tree may be advanced."""
        if job.ended:
            return
        await workers.enroll(self)
        await workers.free(self)
        for member in await self.store.select(tenant, Job, "tree", {"tree": job.tree}, limit=10_000):
            if not member.ended:
                self.engine.launch(tenant, member.id)

    def rested(self, tenant: str, job: str, at: int) -> None:
        """A job gave its worker back and is due at a time."""
        self.engine.wake(tenant, job, at)

    def _on_ended(self, tenant: str, job: str) -> None:
        self.spawn(self._tell_ended, tenant, job, name="on_job_ended")

    async def _tell_ended(self, tenant: str, identity: str) -> None:
        job = await self.store.get(tenant, Job, identity)
        if job is not None:
            await self.hooks.tell("on_job_ended", tenant, job)

    def _on_job(self, tenant: str, job: str) -> None:
        if (running := self.running.get((tenant, job))) is not None:
            running.poke()
        else:
            self.engine.wake(tenant, job)

    def _on_anything(self) -> None:
        for running in self.running.values():
            running.poke()

    def fence(self, tx: Tx, job: str, epoch: int) -> Lease:
        """The job's lease, when this worker's claim still holds.

        Raises:
            Stale: it does not.
        """
        lease = tx.system.get(Lease, tx.tenant, job)
        if lease is None or lease.epoch != epoch or lease.worker != self.store.worker:
            raise Stale(job)
        return lease

    def filters_for(self, job: Job, tenant: str) -> Filters:
        """The filters that a job's texts pass, compiled."""
        return Filters(self.filters, tenant, job.id, job.agent)

    async def job(self, call: operations.OperationCall, identity: str, permission: str) -> Job:
        """A job that the caller may do this with.

        Raises:
            TransomError: not_found, or permission_denied.
        """
        job = await self.store.get(call.origin.tenant, Job, identity)
        if job is None:
            await call.require_sight(permission, identity)
            raise TransomError("not_found", f"there is no job {identity!r} here")
        await call.require(permission, job.id, job)
        return job

    async def descendants(self, tenant: str, job: Job) -> set[str]:
        """A job and all below it."""
        return jobs.below(job.id, await self.store.select(tenant, Job, "tree", {"tree": job.tree}, limit=10_000))
