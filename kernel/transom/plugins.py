"""Finding and loading plugins: entry points of the group `transom`, sorted by name.

Blocked names are never imported. Two distributions with one name are an error unless `plugins.replace` says which.
A plugin that fails stops the start, with its name, distribution and version, unless `plugins.optional` names it.
"""

import inspect
import logging
from collections.abc import Iterable, Sequence
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import Any

import msgspec
import pluggy

from transom_hookspecs import ENTRY_POINT_GROUP, SPEC_VERSION, JsonObject, PluginInfo, TransomError

from .config import Config
from .dispatch import kind_of, new_manager

log = logging.getLogger("transom.plugins")


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin class, not yet imported when it comes from an entry point."""

    name: str
    distribution: str
    version: str
    entry: EntryPoint | None = None
    cls: type | None = None

    @property
    def who(self) -> str:
        """How messages name it."""
        return f"plugin {self.name!r} (distribution {self.distribution} {self.version})"

    def info(self, state: str, why: str = "", hooks: tuple[str, ...] = ()) -> PluginInfo:
        """It, for a list of plugins."""
        return PluginInfo(
            name=self.name, distribution=self.distribution, version=self.version, state=state, why=why, hooks=hooks
        )


def installed() -> list[Found]:
    """Every entry point of the group, once; a distribution whose metadata cannot be read is skipped with a warning."""
    found: dict[tuple[str, str], Found] = {}
    for distribution in distributions():
        try:
            name, version = distribution.metadata["Name"], distribution.version
            entries = [e for e in distribution.entry_points if e.group == ENTRY_POINT_GROUP]
        except Exception:  # noqa: BLE001 - anything may stand in a broken dist-info
            log.warning("a distribution's metadata cannot be read and is skipped: %s", location(distribution))
            continue
        for entry in entries if name else ():
            found.setdefault((entry.name, name), Found(name=entry.name, distribution=name, version=version, entry=entry))
    return [found[key] for key in sorted(found)]


def location(distribution: Distribution) -> str:
    """Where a distribution stands, for a message."""
    return str(getattr(distribution, "_path", "unknown place"))


def given(classes: Iterable[type]) -> list[Found]:
    """Plugin classes handed over by an embedding program or a test, named by their attribute `name` or class."""
    return [
        Found(
            name=getattr(cls, "name", "") or cls.__name__.removesuffix("Plugin").lower(),
            distribution="(given)",
            version="",
            cls=cls,
        )
        for cls in classes
    ]


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """What a kernel starts with: the manager that holds the plugins, the plugins by name, and all that was found."""

    manager: pluggy.PluginManager
    plugins: dict[str, Any]
    infos: tuple[PluginInfo, ...]


def load(config: Config, extra: Sequence[type] = (), *, entry_points: bool = True, lenient: bool = False) -> Loaded:
    """Load the plugins that the settings allow.

    Parameters:
        extra: classes to load beside (and, under the same name, instead of) the installed ones.
        entry_points: whether installed plugins are loaded at all.
        lenient: go on after a failure, which then stands in `infos`, and let settings of no plugin be; for the
            commands that list and block plugins.

    Raises:
        TransomError: failed_precondition, naming the plugin, its distribution and version, and the cause.
    """
    chosen, infos = choose(config, given(extra), installed() if entry_points else [], lenient=lenient)
    manager = new_manager()
    plugins: dict[str, Any] = {}
    for found in reversed(chosen):  # pluggy calls the last registered first; hooks are called by name
        try:
            cls = imported(found)
            if getattr(cls, "dev_only", False) and not config.dev and found.name not in config.plugins.enable:
                infos.append(found.info("blocked", "for development mode; plugins.enable names it to load it all the same"))
                continue
            plugin = build(found, cls, config)
            register(found, plugin, manager)
        except TransomError as error:
            if not lenient:
                if found.name not in config.plugins.optional:
                    raise
                log.warning("%s", error.message)
            infos.append(found.info("failed", error.message))
            continue
        plugins[found.name] = plugin
        infos.append(found.info("loaded", hooks=tuple(sorted(h.name for h in manager.get_hookcallers(plugin) or ()))))
    if not lenient:
        check_tables(config, {i.name for i in infos})
    return Loaded(manager=manager, plugins=plugins, infos=tuple(sorted(infos, key=lambda i: (i.name, i.distribution))))


def choose(config: Config, extra: list[Found], entries: list[Found], *, lenient: bool) -> tuple[list[Found], list[PluginInfo]]:
    """Who is loaded under each name (when lenient nobody, if it is not clear who), and what is said of the others."""
    rules, infos = config.plugins, []
    owners: dict[str, list[Found]] = {}
    for found in entries:
        owners.setdefault(found.name, []).append(found)
    for found in extra:
        infos += [f.info("replaced", "a class given by the embedding program") for f in owners.get(found.name, ())]
        owners[found.name] = [found]
    chosen = []
    for name, rivals in sorted(owners.items()):
        if name in rules.block:
            infos += [f.info("blocked", "plugins.block names it") for f in rivals]
            continue
        try:
            winner = pick(name, rivals, rules.replace.get(name, ""))
        except TransomError as error:
            if not lenient:
                raise
            infos += [f.info("failed", error.message) for f in rivals]
            continue
        infos += [f.info("replaced", f"plugins.replace chose {winner.distribution}") for f in rivals if f is not winner]
        chosen.append(winner)
    return chosen, infos


def pick(name: str, rivals: list[Found], wanted: str) -> Found:
    """The owner of a name."""
    if wanted:
        for found in rivals:
            if found.distribution.lower().replace("_", "-") == wanted.lower().replace("_", "-"):
                return found
        raise TransomError("failed_precondition", f"plugins.replace: no distribution {wanted!r} has a plugin {name!r}")
    if len(rivals) > 1:
        raise TransomError(
            "failed_precondition",
            f"plugin {name!r} is in {' and '.join(f'{f.distribution} {f.version}' for f in rivals)}; "
            f'say which in transom.toml: plugins.replace = {{ {name} = "{rivals[-1].distribution}" }}',
        )
    return rivals[0]


def imported(found: Found) -> type:
    """The plugin's class."""
    try:
        cls = found.cls if found.entry is None else found.entry.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, and what compiled extensions raise when they panic
        raise TransomError("failed_precondition", f"{found.who} cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(cls, type):
        raise TransomError("failed_precondition", f"{found.who} names {cls!r}, which is no class")
    return cls


def build(found: Found, cls: type, config: Config) -> object:
    """Check a plugin's version of the contract, decode its settings, and make its one instance."""
    check_spec(found, getattr(cls, "spec", None))
    settings = settings_of(found, cls, config)
    try:
        return cls(settings)
    except TransomError:
        raise
    except (Exception, SystemExit) as error:
        raise TransomError("failed_precondition", f"{found.who} cannot start: {type(error).__name__}: {error}") from error


def register(found: Found, plugin: object, manager: pluggy.PluginManager) -> None:
    """Check the plugin's hooks and put it among the others."""
    check_hooks(found, plugin, manager)
    try:
        manager.register(plugin, name=found.name)
    except pluggy.PluginValidationError as error:
        raise TransomError("failed_precondition", f"{found.who}: {' '.join(str(error).split())}") from error


def check_spec(found: Found, spec: object) -> None:
    """Same major version, and a minor that this kernel has."""
    try:
        major, minor = (int(part) for part in str(spec).split("."))
    except ValueError:
        raise TransomError(
            "failed_precondition", f'{found.who} has spec = {spec!r}; it must be "major.minor", as "1.0"'
        ) from None
    if major != SPEC_VERSION[0] or minor > SPEC_VERSION[1]:
        have = ".".join(map(str, SPEC_VERSION))
        raise TransomError(
            "failed_precondition",
            f"{found.who} is written for hook specifications {spec}, this is {have}: install a matching version of either",
        )


def settings_of(found: Found, cls: type, config: Config) -> msgspec.Struct:
    """The plugin's own settings, typed."""
    kind = getattr(cls, "Config", None) or type("Config", (msgspec.Struct,), {}, forbid_unknown_fields=True)
    table: JsonObject = config.tables.get(found.name, {})
    try:
        return msgspec.convert(table, kind, strict=False)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        path = str(error).rpartition(" - at `$")[2].rstrip("`") if " - at `$" in str(error) else ""
        raise TransomError(
            "failed_precondition",
            f"{config.path or 'environment'}: [{found.name}]{path}: {error} ({found.who})",
        ) from error


def check_hooks(found: Found, plugin: object, manager: pluggy.PluginManager) -> None:
    """No unknown hook, no wrong argument, no pluggy wrapper, and async only where a hook may be."""
    for name in dir(type(plugin)):
        if manager.parse_hookimpl_opts(plugin, name) is None:
            continue
        caller = getattr(manager.hook, name, None)
        if caller is None or caller.spec is None:
            known = ", ".join(sorted(vars(manager.hook)))
            raise TransomError("failed_precondition", f"{found.who} implements unknown hook {name!r}; known are {known}")
        kind, method = kind_of(name), getattr(plugin, name)
        options = method.transom_impl
        if options.get("wrapper") or options.get("hookwrapper"):
            raise TransomError("failed_precondition", f"{found.who}: {name} is a pluggy wrapper; use an around_* hook")
        if inspect.iscoroutinefunction(method) and kind in ("register", "around"):
            raise TransomError("failed_precondition", f"{found.who}: {name} must be a plain function, not async")
        if inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method):
            raise TransomError("failed_precondition", f"{found.who}: {name} must return its answer, not yield it")


def check_tables(config: Config, names: set[str]) -> None:
    """A table that belongs to no plugin is most likely misspelt; one of a blocked plugin is kept."""
    for name in sorted(set(config.tables) - names):
        raise TransomError(
            "failed_precondition",
            f"{config.path or 'environment'}: [{name}] belongs to no plugin here; there are {', '.join(sorted(names))}",
        )


__all__ = ["Found", "Loaded", "installed", "load"]
