"""The kernel's face: what a plugin gets, once, in `run(kernel)`.

`run` is an async context manager of the plugin class, its whole life: what it needs is opened before `yield` and
closed after. A plugin without a life of its own leaves it out.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec

from .agents import Agent, Document
from .callers import Caller, Origin
from .doors import RequestHead
from .events import Entry, Rule
from .operations import Operation
from .outbound import Outbound
from .policy import Verdict
from .records import Job, Lease, Record
from .requests import AgentView
from .stores import Store
from .tenants import TenantSettings
from .values import Json

S = TypeVar("S")


class Clock(Protocol):
    """Time, so that tests may set it."""

    def now(self) -> int:
        """Milliseconds (Unix)."""


class Timer(Protocol):
    """Something that is to be done later."""

    def cancel(self) -> None:
        """It will not be done."""


class PluginInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin as the loader found it. `state`: loaded, blocked, replaced, failed."""

    name: str
    distribution: str
    version: str
    state: str
    why: str = ""
    hooks: tuple[str, ...] = ()


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the process is well, and what is wrong with it. `plugins` counts what is loaded."""

    ok: bool
    plugins: int
    problems: tuple[str, ...] = ()


class Kernel(Protocol):
    """The kernel, as plugins see it."""

    clock: Clock
    outbound: Outbound
    operations: Mapping[str, Operation]
    records: Sequence[Record]
    """All records that are kept, the kernel's and the plugins'."""
    plugins: Sequence[PluginInfo]
    data: str
    """The data folder's path."""
    dev: bool
    """Development mode: relaxed where the documentation says so."""

    @property
    def store(self) -> Store:
        """The one store."""

    async def authenticate(self, head: RequestHead) -> Caller:
        """Who sends this request.

        Raises:
            TransomError: unauthenticated when no plugin knows the credential, or one says that it is not good.
        """

    async def call(self, operation: str, request: msgspec.Struct, origin: Origin) -> Any:
        """The one way in: authorize → idempotency → handler → audit.

        Raises:
            TransomError: why not.
        """

    async def may(
        self, caller: Caller, tenant: str, permission: str, object: str = "", job: Job | None = None, rule: Rule | None = None
    ) -> Verdict:
        """What policy says of an access, for handlers whose answer depends on it."""

    def watch(self, tenant: str, tree: str, after: int = 0) -> AsyncIterator[Sequence[Entry]]:
        """A tree's log from a seq on, in batches, as it grows; never ends by itself.

        Followers of one tree share a tail; one who is behind it is caught up from the store.
        """

    def topic(self, topic: str) -> AbstractContextManager[Callable[[], Awaitable[None]]]:
        """Follow a topic of changes: inside, `await changed()` returns after the next change since the last call."""

    def service(self, protocol: Callable[..., S]) -> S | None:
        """The provider of a service, or None when no plugin offers it."""

    def spawn(self, fn: Callable[..., Awaitable[None]], *args: Any, name: str = "") -> None:
        """Run a task that the kernel owns: it is cancelled at shutdown, and health shows when it fails."""

    def later(self, seconds: float, do: Callable[[], None]) -> Timer:
        """Do something short after some seconds, unless it is taken back; longer work is spawned by it."""

    def report(self, what: str, error: BaseException) -> None:
        """Log a failure that nobody waits for, and show it in health."""

    def agents(self, tenant: str) -> Sequence[AgentView]:
        """The tenant's agents and flows, by name; the same object until the catalog changes."""

    def agent(self, tenant: str, name: str) -> Agent | None:
        """An agent or flow of the tenant's catalog."""

    def documents(self, folder: str) -> Sequence[Document]:
        """The declared things of every bundle's subfolder."""

    def tenants(self) -> Sequence[str]:
        """The tenants there are."""

    def settings(self, tenant: str) -> TenantSettings:
        """What a tenant's admins set."""

    def health(self) -> Health:
        """How the process is."""

    async def release(self, worker: str) -> Sequence[Lease]:
        """Free every job of a worker whose process is gone, and forget the worker; returns what can go on now."""

    async def attended(self) -> bool:
        """Whether another process, which is alive, advances jobs on this store."""

    async def advance(self, tenant: str, job: str) -> None:
        """Claim a job and run it as far as it goes; returns at once when it is another worker's or has ended.

        For engines. Raises nothing but cancellation.
        """


class HookInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A hook and who implements it, in the order of the calls."""

    name: str
    kind: str
    family: str
    arguments: tuple[str, ...]
    description: str
    plugins: tuple[str, ...]


class Launcher(Protocol):
    """What a command of the command line gets as `click.Context.obj`: ways to look at, embed and serve a kernel.

    `found`, and the commands made of it, work when a plugin is broken.
    """

    config_path: str
    """The transom.toml in use, or empty."""

    def found(self) -> Sequence[PluginInfo]:
        """Every plugin that is installed, without loading one that is blocked; a broken one is `failed`, and why."""

    def set_blocked(self, name: str, *, blocked: bool) -> str:
        """Block a plugin, or no longer, in transom.toml; returns the file's path."""

    def hooks(self) -> Sequence[HookInfo]:
        """Every hook of the contract, and who implements it."""

    def operations(self) -> Sequence[Operation]:
        """The table of operations."""

    def agents(self, tenant: str, *, dev: bool = False) -> Sequence[AgentView]:
        """A tenant's agents and flows, without a store; with `dev`, those that it has in development mode."""

    def embedded(self, *, data: str = "", dev: bool = False, agents: Sequence[str] = ()) -> AbstractAsyncContextManager[Kernel]:
        """A kernel inside this process, on a data folder; it advances only the jobs that it started.

        Parameters:
            data: the data folder; empty is the setting's.
            dev: with the demo bundle and relaxed rules.
            agents: paths of YAML files to add to the catalog of every tenant.
        """

    def serve(
        self,
        *,
        host: str = "",
        port: int | None = None,
        data: str = "",
        dev: bool = False,
        ready: Callable[[str, Kernel], None] | None = None,
        with_parent: bool = False,
    ) -> int:
        """Serve until SIGINT or SIGTERM and return the exit code.

        Parameters:
            host, port: instead of the setting's; port 0 takes a free one.
            ready: called once with the URL and the kernel, when it listens.
            with_parent: end also when the process that started this one ends, however it does.
        """


class Plugin(Protocol):
    """What an entry point of the group `transom` names: a class, one instance a kernel.

    `dev_only`: loaded in development mode alone, unless `plugins.enable` names it.
    """

    spec: ClassVar[str]
    dev_only: ClassVar[bool] = False

    def __init__(self, config: Any) -> None:
        """Take the plugin's own settings: its nested msgspec `Config`, decoded from its table of transom.toml."""


__all__ = ["Clock", "Health", "HookInfo", "Json", "Kernel", "Launcher", "Plugin", "PluginInfo", "Timer"]
