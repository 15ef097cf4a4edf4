"""What the command line gets of the kernel: implements `transom_hookspecs.Launcher`."""

import inspect
import re
import tomllib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pluggy

from transom_hookspecs import FAMILIES, AgentView, HookInfo, Kernel, Operation, PluginInfo, Secrets, TransomError

from . import config as settings
from . import ids
from .app import Transom
from .core import Core
from .dispatch import Hooks, kind_of
from .logs import redacted
from .plugins import Loaded, installed
from .plugins import load as load_plugins

DEV_TENANTS = ("default", "acme")


class KernelLauncher:
    """Ways to look at, embed and serve a kernel, for commands."""

    def __init__(self, config_path: str) -> None:
        self.config_path = config_path

    def config(self, *, data: str = "", dev: bool = False) -> settings.Config:
        """The settings, with what a command changes of them."""
        config = settings.load(self.config_path)
        config = msgspec.structs.replace(config, data=data or config.data)
        if not dev:
            return config
        tenants = config.tenants if config.tenants != ("default",) else DEV_TENANTS
        return msgspec.structs.replace(config, dev=True, tenants=tenants)

    def found(self) -> Sequence[PluginInfo]:
        """Every plugin that is installed; see `Launcher.found`."""
        return load_plugins(self.config(), lenient=True).infos

    def set_blocked(self, name: str, *, blocked: bool) -> str:
        """Block a plugin in the settings file, or no longer; the file is made when there is none."""
        path = Path(self.config_path or settings.FILE)
        names = list(settings.load(str(path) if path.is_file() else "", {}).plugins.block)
        known = {found.name for found in installed()}
        if blocked and name not in known:
            raise TransomError("not_found", f"there is no plugin {name!r}; there are {', '.join(sorted(known))}")
        names = sorted({*names, name}) if blocked else [each for each in names if each != name]
        text = path.read_bytes().decode("utf-8") if path.is_file() else ""
        changed = with_blocked(text, names)
        if not same_but_blocked(text, changed, names):
            line = f"block = [{', '.join(map(_quoted, names))}]"
            raise TransomError("failed_precondition", f"{path} cannot be changed safely; under [plugins] write: {line}")
        fresh = path.with_name(f".{path.name}.{ids.token(4)}")
        fresh.write_bytes(changed.encode("utf-8"))
        fresh.replace(path)
        return str(path)

    def hooks(self) -> Sequence[HookInfo]:
        """Every hook of the contract; see `Launcher.hooks`."""
        config = self.config()
        loaded = load_plugins(config, lenient=True)
        return [hook_info(loaded, name, family, config.plugins.order) for name, family in hook_families()]

    def operations(self) -> Sequence[Operation]:
        """The table of operations."""
        config = self.config()
        core = Core(config, load_plugins(config))
        return [core.operations[name] for name in sorted(core.operations)]

    def agents(self, tenant: str, *, dev: bool = False) -> Sequence[AgentView]:
        """A tenant's agents and flows, without opening anything."""
        config = self.config(dev=dev)
        return Core(config, load_plugins(config)).agents(tenant)

    @asynccontextmanager
    async def embedded(self, *, data: str = "", dev: bool = False, agents: Sequence[str] = ()) -> AsyncIterator[Kernel]:
        """A kernel inside this process; see `Launcher.embedded`."""
        transom = Transom(self.config(data=data, dev=dev), agents=agents)
        with redacted(partial(transom.kernel.service, Secrets)):
            async with transom:
                yield transom.kernel

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
        """Serve until told to stop; see `Launcher.serve`."""
        config = self.config(data=data, dev=dev)
        config = msgspec.structs.replace(config, host=host or config.host, port=config.port if port is None else port)
        from .web import serve

        return serve(config, ready, with_parent=with_parent)


def hook_families() -> list[tuple[str, type]]:
    """Every hook's name with the class that specifies it."""
    return [
        (name, family) for family in FAMILIES for name, function in vars(family).items() if hasattr(function, "transom_spec")
    ]


def hook_info(loaded: Loaded, name: str, family: type, order: Sequence[str]) -> HookInfo:
    """One hook and its implementations, in the order of the calls."""
    caller = getattr(loaded.manager.hook, name)
    assert isinstance(caller, pluggy.HookCaller)
    assert caller.spec is not None
    return HookInfo(
        name=name,
        kind=kind_of(name),
        family=family.__module__.rpartition(".")[2],
        arguments=tuple(caller.spec.argnames),
        description=(inspect.getdoc(caller.spec.function) or "").partition("\n")[0],
        plugins=tuple(impl.plugin for impl in Hooks(loaded.manager, order).impls[name]),
    )


def same_but_blocked(before: str, after: str, names: Sequence[str]) -> bool:
    """Whether a changed settings file says what the old one said, and blocks these names."""
    try:
        old, new = tomllib.loads(before), tomllib.loads(after)
    except tomllib.TOMLDecodeError:
        return False
    rules = new.get("plugins", {})
    blocked = rules.pop("block", None)
    old.get("plugins", {}).pop("block", None)
    old.setdefault("plugins", {})
    return blocked == list(names) and old == {**new, "plugins": rules}


def with_blocked(text: str, names: Sequence[str]) -> str:
    """A settings file's text with `plugins.block` set to these names; the rest stays as it was."""
    line = f"block = [{', '.join(map(_quoted, names))}]"
    section = re.search(r"(?ms)^\[plugins\][ \t]*\n(.*?)(?=^\[|\Z)", text)
    if section is None:
        return f"{text.rstrip()}\n\n[plugins]\n{line}\n".lstrip()
    body = section.group(1)
    changed, count = re.subn(r"(?ms)^block\s*=\s*\[.*?\][ \t]*$", line, body)
    body = changed if count else f"{line}\n{body}"
    return text[: section.start(1)] + body + text[section.end(1) :]


def _quoted(name: str) -> str:
    return f'"{name}"'
