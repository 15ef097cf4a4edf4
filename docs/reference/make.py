"""Writes the parts of the reference that the code knows best: between `<!-- made: … -->` and `<!-- end -->`.

python docs/reference/make.py           writes them
python docs/reference/make.py --check   says which are out of date, and exits with 1

Each part is a function of `PARTS`. What a key means stands in the docstring of its Struct; where that says nothing,
it stands in `MEANINGS`. A test runs the check.
"""

import inspect
import re
import sys
import tomllib
import types
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import click
import msgspec

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent
_PART: Final = re.compile(r"(<!-- made: ([a-z-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

MEANINGS: Final[dict[str, str]] = {
    "host": "the address that `serve` and `dev` listen on",
    "port": "the port that they listen on; 0 takes a free one",
    "tenants": "the tenants there are; `transom dev`, and `transom run` without a settings file, add `acme`",
    "bundles": "by a bundle's name: in which tenants it is",
    "plugins": "which plugins are loaded",
    "limits": "bounds; times in seconds, sizes in bytes",
    "management": "a second port, for operators with certificates; left out, there is none",
    "store": "the store to use; needed only when plugins register several",
    "engine": "the engine to use; needed only when plugins register several",
    "data": "the data folder, relative to the settings file; `--data` and `TRANSOM_DATA` are relative to the current folder",
    "bundle": "folders with `agents/` and `flows/` of your own, relative to the settings file",
    "limits.job": "the longest time of a job, waits included",
    "limits.steps": "steps of one job",
    "limits.parallel_calls": "calls that one model answer may make at once; the others come back with an error",
    "limits.depth": "how deep jobs may delegate",
    "limits.children": "jobs that one job may delegate to",
    "limits.tree_jobs": "jobs of one tree",
    "limits.input": "size of a job's input, as JSON",
    "limits.arguments": "size of a call's arguments, as JSON",
    "limits.result": "size of a call's result, as JSON; a larger one is cut, and says so",
    "limits.answer": "size of a model's answer and of a job's output; a larger one fails",
    "limits.text_flush": "streamed text is recorded after this time at the latest; 0 records each piece by itself",
    "limits.text_flush_bytes": "streamed text is recorded when there is this much of it",
    "limits.attempts": "attempts of a model call whose answer broke off",
    "outbound.proxy": "the proxy for addresses that the operator wrote down, as those of models; never for this machine",
    "outbound": "how addresses outside are reached",
    "dev": "development mode: the demo bundle and its tokens; guarded requests may reach private addresses",
    "bundles.<name>.tenants": "the tenants that the bundle is in; empty means every one",
    "board.note_bytes": "the longest note, in bytes of UTF-8",
    "board.notes_per_tree": "how many notes one job tree may have",
    "openai.models": "the models, by the names that agents use",
    "openai.models.<name>.prices": "USD for a million tokens; left out, a call costs nothing",
    "identity.callers.<name>.kind": "what it is; an `operator` belongs to no tenant, has no role and may do everything",
    "identity.callers.<name>.role": "what it may do; needed by all but operators",
    "identity.callers.<name>.token_sha256": "the SHA-256 of its token, in hex; this or `token_env`",
    "openai.models.<name>.prices.input": "USD for a million input tokens",
    "openai.models.<name>.prices.output": "USD for a million output tokens",
    "openai.models.<name>.prices.cached": "USD for a million input tokens that the server had cached; left out, as `input`",
    "scripted.usd_per_million_input": "what a million words of a prompt cost, in USD, to try costs with",
    "scripted.usd_per_million_output": "what a million words of an answer cost, in USD",
    "agent.title": "for lists",
    "agent.description": "for lists, and for agents that may delegate to it",
    "agent.temperature": "how freely the model chooses its words; left out, the model's own",
    "agent.input": "what an input must match; left out, it takes text or any JSON",
    "agent.output": "what the answer must match; left out, it answers text",
    "agent.card": "an answer that matches it is marked as a card, for clients that show one",
    "agent.conversations": "whether it takes part in conversations; if not, a start that names one is refused",
    "flow.input": "what an input must match",
    "flow.output": "what the result must match",
    "flow.steps": "one after the other; see below",
    "flow.title": "for lists",
    "flow.description": "for lists, and for agents that may delegate to it",
}
"""What a key means, where its Struct's docstring does not say it by this name."""


def main() -> int:
    """Write or check every part; returns the exit code."""
    check, stale = "--check" in sys.argv, []
    for page in sorted(HERE.glob("*.md")):
        before = page.read_text(encoding="utf-8")
        after = _PART.sub(lambda found: f"{found[1]}\n{PARTS[found[2]]().strip()}\n\n{found[4]}", before)
        if after != before:
            stale.append(page.name)
            if not check:
                page.write_text(after, encoding="utf-8")
    for name in stale:
        print(f"{name} {'is out of date' if check else 'written'}")
    return 1 if check and stale else 0


# -- settings and documents ---------------------------------------------------------------------------------------


def kernel_settings() -> str:
    """The top of transom.toml, and the kernel's own tables."""
    from transom.config import BundleConfig, Config, Limits, Management, Outbound, PluginsConfig

    tables = (
        *(("plugins", PluginsConfig), ("bundles.<name>", BundleConfig), ("outbound", Outbound)),
        *(("management", Management), ("limits", Limits)),
    )
    top = fields_table(Config, "", leave_out=("path", "tables"))
    return "\n\n".join([top, *(f"### `[{name}]`\n\n{fields_table(kind, name)}" for name, kind in tables)])


def plugin_settings() -> str:
    """The tables of the plugins of this distribution."""
    parts: list[str] = []
    for name, cls in sorted(plugin_classes().items()):
        kind = cls.Config
        if msgspec.structs.fields(kind):
            parts.extend(settings_tables(name, kind))
    without = sorted(name for name, cls in plugin_classes().items() if not msgspec.structs.fields(cls.Config))
    return "\n\n".join([*parts, f"The plugins {', '.join(f'`{each}`' for each in without)} have no settings."])


def local_model_settings() -> str:
    """The table of the contributed local model."""
    sys.path.insert(0, str(ROOT / "contrib" / "transom-local-model"))
    from transom_local_model.settings import LocalSettings

    return fields_table(LocalSettings, "local_model")


def plugin_classes() -> dict[str, Any]:
    """The plugins of this distribution by name."""
    entries = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["transom"]
    found = {}
    for name, value in entries.items():
        module, _, attribute = value.partition(":")
        found[name] = getattr(import_module(module), attribute)
    return found


def settings_tables(name: str, kind: type) -> Iterator[str]:
    """A table of settings, and the tables inside it."""
    yield f"### `[{name}]`\n\n{fields_table(kind, name)}"
    for field, hint in get_type_hints(kind, include_extras=True).items():
        inner = struct_in(hint)
        if inner is not None:
            below = f"{name}.{field}.<name>" if get_origin(bare(hint)) is dict else f"{name}.{field}"
            yield from settings_tables(below, inner)


def agent_fields() -> str:
    """The fields of an agent's document."""
    from transom_agents.format import Declaration

    return fields_table(Declaration, "agent", heading="field")


def flow_fields() -> str:
    """The fields of a flow's document."""
    from transom_flows.format import Declaration

    return fields_table(Declaration, "flow", heading="field")


def flow_actions() -> str:
    """The actions of a flow's step, with what goes with each."""
    from transom_flows.actions import ACTIONS
    from transom_flows.format import Step

    text = " ".join((inspect.getdoc(Step) or "").partition("Parameters:")[0].split())
    told = dict(re.findall(r"(\w+): (.*?[^:])\.(?= \w+: |\Z)", text.partition("take templates: ")[2]))
    rows = [
        (f"`{name}`", ", ".join(f"`{each}`" for each in ACTIONS[name].takes) if name in ACTIONS else "", marked(told[name]))
        for name in [*ACTIONS, "together"]
    ]
    return table(("action", "goes with it", "what it does"), rows)


def marked(text: str) -> str:
    """Text of a docstring for a page: names in backquotes as they are, the mark of templates spelled."""
    return text.replace("*", "")


def fields_table(kind: type, prefix: str, *, heading: str = "key", leave_out: tuple[str, ...] = ()) -> str:
    """A Struct's fields with type, default and meaning."""
    hints, said = get_type_hints(kind, include_extras=True), parameters_of(kind)
    rows = []
    for field in msgspec.structs.fields(kind):
        if field.encode_name in leave_out:
            continue
        name = field.encode_name
        key = f"{prefix}.{name}" if prefix else name
        meaning = MEANINGS.get(key) or said.get(name)
        if meaning is None:
            raise SystemExit(f"{key}: neither its docstring nor MEANINGS says what it means")
        rows.append((f"`{name}`", type_text(hints[name]), default_text(field), meaning))
    return table((heading, "type", "default", "meaning"), rows)


def parameters_of(kind: type) -> dict[str, str]:
    """What the docstring's section `Parameters` says, by name."""
    section = (inspect.getdoc(kind) or "").partition("Parameters:\n")[2]
    said: dict[str, str] = {}
    for entry in re.split(r"\n(?= {4}\S)", section):
        names, _, meaning = " ".join(entry.split()).partition(": ")
        said |= dict.fromkeys(names.split(", "), meaning.rstrip("."))
    return said


def bare(hint: Any) -> Any:
    """A type without its annotations, and without what stands for 'not given'."""
    if get_origin(hint) is Annotated:
        return bare(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        left = [each for each in get_args(hint) if each not in (types.NoneType, msgspec.UnsetType)]
        return bare(left[0]) if len(left) == 1 else hint
    return hint


def struct_in(hint: Any) -> type | None:
    """The Struct that a table of settings holds, or None."""
    plain = bare(hint)
    if get_origin(plain) is dict:
        plain = bare(get_args(plain)[1])
    return plain if isinstance(plain, type) and issubclass(plain, msgspec.Struct) else None


def type_text(hint: Any) -> str:
    """A type in words."""
    described = next((m.description for m in metas(hint) if m.description), "")
    return described or _type_text(bare(hint)) + bounds_text(hint)


def _type_text(plain: Any) -> str:
    words = {int: "whole number", float: "number", str: "text", bool: "true or false"}
    origin = get_origin(plain)
    if plain is Any:
        return "any value"
    if plain in words:
        return words[plain]
    if origin is Literal:
        return " or ".join(f"`{each}`" for each in get_args(plain))
    if origin is tuple:
        return f"list of {_type_text(bare(get_args(plain)[0]))}s"
    if origin is dict:
        return "tables by name" if struct_in(plain) else "table"
    return "table"


def metas(hint: Any) -> Iterator[msgspec.Meta]:
    """Every Meta of a type."""
    for each in getattr(hint, "__metadata__", ()):
        if isinstance(each, msgspec.Meta):
            yield each
    for part in get_args(hint):
        yield from metas(part)


def bounds_text(hint: Any) -> str:
    """The bounds of a number."""
    signs = (("gt", "above"), ("ge", "at least"), ("lt", "below"), ("le", "at most"))
    said = [
        f"{word} {number_text(value)}"
        for meta in metas(hint)
        for name, word in signs
        if (value := getattr(meta, name)) is not None
    ]
    return f", {', '.join(said)}" if said else ""


def number_text(value: float) -> str:
    """A number as TOML takes it."""
    whole = int(value)
    return str(value) if whole != value else f"{whole:_}" if whole >= 10_000 else str(whole)


def default_text(field: Any) -> str:
    """A default as it would be written."""
    if field.default is msgspec.UNSET or (field.required and field.default is msgspec.NODEFAULT):
        return "required" if field.required else ""
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int | float):
        return f"`{number_text(value)}`"
    if isinstance(value, str):
        return f'`"{value}"`' if value else ""
    if isinstance(value, tuple) and value:
        return f"`{list(value)}`".replace("'", '"')
    return ""


# -- everything else ----------------------------------------------------------------------------------------------


def commands() -> str:
    """Every command's help."""
    from transom.__main__ import cli

    return "\n\n".join(_helps(cli, "transom"))


def _helps(command: click.Command, name: str) -> Iterator[str]:
    context = click.Context(command, info_name=name, terminal_width=100, **command.context_settings)
    yield f"## `{name}`\n\n```text\n{command.get_help(context).rstrip()}\n```"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            inner = command.get_command(context, each)
            assert inner is not None
            yield from _helps(inner, f"{name} {each}")


def events() -> str:
    """Every event of the log, with its fields."""
    from transom_hookspecs import AnyEvent

    return "\n\n".join(_event(kind) for kind in get_args(AnyEvent))


def _event(kind: Any) -> str:
    fields = [_field_text(each) for each in msgspec.structs.fields(kind) if each.name != "job"]
    listed = f"Fields: {', '.join(fields)}." if fields else "No fields of its own."
    return f"### `{kind.__struct_config__.tag}`\n\n{inspect.getdoc(kind)}\n\n{listed}"


def _field_text(field: Any) -> str:
    return f"`{field.encode_name}`" + ("" if field.required else "?")


def errors() -> str:
    """Every error code with its HTTP status and exit code."""
    from transom_cli.exits import exit_code
    from transom_doors.answers import STATUS
    from transom_hookspecs import CODES, TransomError

    rows = [(f"`{code}`", str(STATUS[code]), str(exit_code(TransomError(code, ""))), CODE_MEANINGS[code]) for code in CODES]
    return table(("code", "HTTP", "exit", "when"), rows)


CODE_MEANINGS: Final = {
    "canceled": "a job was cancelled, or the client left before its request was whole",
    "unknown": "a server that was asked gave an error without a code",
    "invalid_argument": "the request is wrong whatever the state: a field, a schema, a cursor, a body that is too large",
    "deadline_exceeded": "a model, a function or a job did not end within its time",
    "not_found": "no such agent, job, wait, function or tenant",
    "already_exists": "the ID or Idempotency-Key was used for another start",
    "permission_denied": "the role, a scope, the wait's rule or policy says no; a call that a person denied",
    "resource_exhausted": "a limit of the runtime is reached, or a provider's rate limit",
    "failed_precondition": "the state does not allow it: settings, a typed value that is missing, a broken plugin",
    "aborted": "someone was faster: the wait is decided, the conversation's turn runs, another worker has the job",
    "out_of_range": "not used by the runtime itself",
    "unimplemented": "no such operation here, or a method that a route does not take",
    "internal": "a bug, in the runtime or in a plugin; the log has the cause",
    "unavailable": "try again: the store, a model or an address cannot be reached now",
    "data_loss": "not used by the runtime itself",
    "unauthenticated": "no token, or none that is good",
}
"""When each code is used."""


def every_operation() -> list[Any]:
    """The operations of the kernel and of the plugins of this distribution, by name."""
    from transom.table import OWN_OPERATIONS

    made = [cls(cls.Config()) for cls in plugin_classes().values() if hasattr(cls, "register_operations")]
    found = [*OWN_OPERATIONS, *(each for plugin in made for each in plugin.register_operations())]
    return sorted(found, key=lambda each: each.name)


def operations() -> str:
    """The table of operations."""
    rows = [
        (f"`{o.name}`", f"`{o.permission}`", f"`{o.audit}`" if o.audit else "", o.description.partition("\n")[0])
        for o in every_operation()
    ]
    return table(("operation", "permission", "audit action", "what it is"), rows)


def operation_bodies() -> str:
    """What each operation takes and answers over HTTP."""
    from transom_rest.routes import DOORS_OWN

    rows = []
    for each in every_operation():
        if not each.stream:
            taken = [f for f in msgspec.structs.fields(each.request) if (each.request, f.name) not in DOORS_OWN]
            given = [f"`{field.encode_name}`" for field in msgspec.structs.fields(each.response)]
            rows.append((f"`{each.name}`", ", ".join(map(_field_text, taken)), ", ".join(given)))
    return table(("operation", "fields of the body", "fields of the answer"), rows)


def roles() -> str:
    """What each role may do; see the page for what 'own jobs' means of deciding."""
    from transom_policy.table import PERMISSIONS, ROLES, reach

    words = {"any": "yes", "own": "own jobs", None: ""}
    rows = [(f"`{row.name}`", row.what, *(words[reach(role, row.name)] for role in ROLES)) for row in PERMISSIONS]
    rows.append(("everything else", "what other plugins ask for", *(words[reach(role, "else")] for role in ROLES)))
    return table(("permission", "what it lets one do", *(f"`{role}`" for role in ROLES)), rows)


def table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


PARTS: Final[dict[str, Callable[[], str]]] = {
    "kernel-settings": kernel_settings,
    "plugin-settings": plugin_settings,
    "local-model-settings": local_model_settings,
    "agent-fields": agent_fields,
    "flow-fields": flow_fields,
    "flow-actions": flow_actions,
    "commands": commands,
    "events": events,
    "errors": errors,
    "operations": operations,
    "operation-bodies": operation_bodies,
    "roles": roles,
}
"""The parts by name."""


if __name__ == "__main__":
    sys.exit(main())
