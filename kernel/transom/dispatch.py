"""Calling hooks: pluggy validates and orders the implementations, and from then on the kernel calls them itself.

pluggy's own calling cannot await, loses whose result is whose, and lets one that raises stop the rest. `Hooks`
turns each hook into a tuple of bound functions, once; nothing else calls a hook.
"""

import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import msgspec
import pluggy

from transom_hookspecs import FAMILIES, Json, PluginError, PluginInfo, Rule, TransomError, Verdict

log = logging.getLogger("transom.hooks")

DECIDING = frozenset({"authenticate", "authorize", "admit", "before_tool", "before_model"})
STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
OFF_AFTER = 5


def kind_of(name: str) -> str:
    """The kind of a hook, which the first word of its name tells."""
    word = name.partition("_")[0]
    if name in DECIDING:
        return "deciding"
    if word in ("register", "on", "around"):
        return word
    raise ValueError(f"hook {name!r} has no kind: its first word must be register, on, around or a deciding verb")


class Manager(pluggy.PluginManager):
    """pluggy's manager, which looks for hooks among a plugin's functions only and runs none of its properties."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        """The marker's options when the attribute is a function that has it."""
        if not inspect.isroutine(inspect.getattr_static(plugin, name, None)):
            return None
        return super().parse_hookimpl_opts(plugin, name)


def new_manager() -> Manager:
    """A plugin manager that knows the contract's hooks."""
    manager = Manager("transom")
    for family in FAMILIES:
        manager.add_hookspecs(family)
    return manager


class Impl:
    """One plugin's implementation of a hook, called with the hook's arguments in their order."""

    __slots__ = ("call", "failures", "is_async", "plugin")

    def __init__(self, implementation: pluggy.HookImpl, arguments: Sequence[str]) -> None:
        self.plugin = implementation.plugin_name
        self.is_async = inspect.iscoroutinefunction(implementation.function)
        self.call = adapted(implementation.function, tuple(implementation.argnames), tuple(arguments))
        self.failures = 0


def adapted(function: Callable[..., Any], taken: tuple[str, ...], given: tuple[str, ...]) -> Callable[..., Any]:
    """The function itself when it takes every argument, else one that passes on those that it takes."""
    if taken == given:
        return function
    places = [given.index(name) for name in taken]
    return lambda *args: function(*[args[i] for i in places])


@contextmanager
def blamed(plugin: str, hook: str) -> Iterator[None]:
    """Whatever a plugin raises that is no TransomError becomes a PluginError that names it."""
    try:
        yield
    except TransomError:
        raise
    except Exception as error:
        log.exception("plugin %r failed in %s", plugin, hook)
        raise PluginError(plugin, hook) from error


@asynccontextmanager
async def contained(plugin: str, hook: str, make: Callable[[], AbstractAsyncContextManager[Any]]) -> AsyncIterator[None]:
    """Enter and leave a plugin's context manager, which is blamed for what it raises, and for nothing else.

    An error of what it wraps is shown to it and goes on unchanged: the plugin cannot swallow it. An error of the
    plugin's own takes its place, but never a cancellation's.
    """
    with blamed(plugin, hook):
        manager = make()
        await manager.__aenter__()
    try:
        yield
    except BaseException as error:
        try:
            with blamed(plugin, hook):
                await shown(manager, error)
        except TransomError:
            if isinstance(error, Exception):
                raise
        raise
    with blamed(plugin, hook):
        await manager.__aexit__(None, None, None)


async def shown(manager: AbstractAsyncContextManager[Any], error: BaseException) -> None:
    """Leave a context manager with an error; raises what is not that very error."""
    try:
        await manager.__aexit__(type(error), error, error.__traceback__)
    except BaseException as raised:
        if not same(raised, error):
            raise


def same(raised: BaseException, error: BaseException) -> bool:
    """Whether it is that very error, alone or in the groups that a task group makes."""
    if isinstance(raised, BaseExceptionGroup) and raised is not error:
        return all(same(each, error) for each in raised.exceptions)
    return raised is error


class Hooks:
    """Every hook's implementations, frozen at start.

    Parameters:
        order: names of plugins that are called before all others, in this order.
        infos: the plugins as the loader found them, so that the errors of a start name their distributions.
    """

    def __init__(self, manager: pluggy.PluginManager, order: Sequence[str] = (), *, infos: Sequence[PluginInfo] = ()) -> None:
        self._infos = {info.name: info for info in infos if info.state == "loaded" and info.version}
        self.switched_off: list[str] = []
        self.impls: dict[str, tuple[Impl, ...]] = {}
        for name, caller in vars(manager.hook).items():
            if isinstance(caller, pluggy.HookCaller) and caller.spec is not None:
                self.impls[name] = tuple(
                    Impl(i, caller.spec.argnames) for i in ordered(list(reversed(caller.get_hookimpls())), order)
                )

    def collect(
        self, hook: str, *args: Any, left_out: Callable[[str, BaseException], None] | None = None
    ) -> list[tuple[str, Any]]:
        """Every object that the plugins register, each with its plugin's name.

        Parameters:
            left_out: told of each plugin that fails (how messages name it, and the cause), which is then left out.

        Raises:
            PluginError: one raised, or returned something that is no list; not with `left_out`.
            TransomError: one raised it, and is named in it now; not with `left_out`.
        """
        found: list[tuple[str, Any]] = []
        for impl in self.impls[hook]:
            try:
                found.extend([(impl.plugin, each) for each in impl.call(*args) or ()])
            except (Exception, SystemExit) as error:
                if left_out is None:
                    raise self._at_start(impl.plugin, hook, error) from error
                left_out(f"plugin {impl.plugin!r}{self._origin(impl.plugin)}", error)
        return found

    def _at_start(self, plugin: str, hook: str, error: BaseException) -> TransomError:
        """The error that stops the start: names the plugin, its distribution and version, and the hook."""
        origin = self._origin(plugin)
        if isinstance(error, TransomError):
            return TransomError(error.code, f"plugin {plugin!r}{origin}: {hook}: {error.message}", error.details)
        log.error("plugin %r%s failed in %s", plugin, origin, hook, exc_info=error)
        failed = PluginError(plugin, f"{hook}{origin}")
        info = self._infos.get(plugin)
        known: dict[str, Json] = {"distribution": info.distribution, "version": info.version} if info else {}
        failed.details.update(known, hook=hook)
        return failed

    def _origin(self, plugin: str) -> str:
        """Where a plugin comes from, for a message; empty for a class that was handed over."""
        info = self._infos.get(plugin)
        return f" (distribution {info.distribution} {info.version})" if info else ""

    async def first(self, hook: str, *args: Any) -> Any:
        """The first answer that is not None; one that raises ends the search."""
        for impl in self.impls[hook]:
            with blamed(impl.plugin, hook):
                value = await impl.call(*args) if impl.is_async else impl.call(*args)
            if value is not None:
                return value
        return None

    async def every(self, hook: str, *args: Any) -> list[tuple[str, Any]]:
        """All answers that are not None, in order, each with its plugin's name; one that raises ends the search."""
        found: list[tuple[str, Any]] = []
        for impl in self.impls[hook]:
            with blamed(impl.plugin, hook):
                value = await impl.call(*args) if impl.is_async else impl.call(*args)
            if value is not None:
                found.append((impl.plugin, value))
        return found

    async def strictest(self, hook: str, *args: Any) -> Verdict | None:
        """The strictest verdict, the first of equals, with the rules of all that ask; a plugin that fails denies."""
        worst: Verdict | None = None
        for impl in self.impls[hook]:
            try:
                with blamed(impl.plugin, hook):
                    verdict: Verdict | None = await impl.call(*args) if impl.is_async else impl.call(*args)
            except TransomError as error:
                return Verdict(ruling="deny", reason=error.message)
            if verdict is None:
                continue
            if worst is None or STRICTNESS[verdict.ruling] > STRICTNESS[worst.ruling]:
                worst = verdict
            elif verdict.ruling == worst.ruling == "ask":
                rule = (worst.rule or Rule()).stricter(verdict.rule or Rule())
                worst = msgspec.structs.replace(worst, rule=rule)
            if worst.ruling == "deny":
                break
        return worst

    async def tell(self, hook: str, *args: Any) -> None:
        """Tell everyone; failures are logged, and five in a row switch an implementation off."""
        for impl in self.impls[hook]:
            if impl.failures >= OFF_AFTER:
                continue
            try:
                await impl.call(*args) if impl.is_async else impl.call(*args)
                impl.failures = 0
            except Exception:
                impl.failures += 1
                log.exception("plugin %r failed in %s (%d in a row)", impl.plugin, hook, impl.failures)
                if impl.failures >= OFF_AFTER:
                    self.switched_off.append(f"plugin {impl.plugin!r}: {hook} is off after {OFF_AFTER} failures in a row")

    def has(self, hook: str) -> bool:
        """Whether any plugin implements it."""
        return bool(self.impls[hook])

    @asynccontextmanager
    async def around(self, hook: str, *args: Any) -> AsyncIterator[None]:
        """Nest the context managers that plugins return; one that fails to open or close fails what it wraps."""
        async with AsyncExitStack() as stack:
            for impl in self.impls[hook]:
                await stack.enter_async_context(contained(impl.plugin, hook, partial(impl.call, *args)))
            yield


def ordered(implementations: list[pluggy.HookImpl], order: Sequence[str]) -> list[pluggy.HookImpl]:
    """Plugins that the setting `plugins.order` names first, in that order; all others as they were."""
    places = {name: i for i, name in enumerate(order)}
    return sorted(implementations, key=lambda i: places.get(i.plugin_name, len(places)))
