"""The house's click: commands that return their exit code, tell errors in a line or two, and have examples in their help."""

import difflib
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from transom_hookspecs import Launcher, TransomError

from . import exits
from .client import Client, Target, connect
from .safe import safe
from .screen import json_line, say

_SETTINGS = {"help_option_names": ["-h", "--help"]}


class Command(click.Command):
    """A command whose function returns its exit code, or None for 0.

    Parameters:
        examples: command lines shown in its help.
    """

    def __init__(self, *args: Any, examples: Sequence[str] = (), **kwargs: Any) -> None:
        kwargs["context_settings"] = {**_SETTINGS, **(kwargs.get("context_settings") or {})}
        super().__init__(*args, **kwargs)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, as they are to be typed."""
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"{' ' * formatter.current_indent}{line}\n" for line in self.examples))

    def invoke(self, ctx: click.Context) -> None:
        """Run it, and exit with what it returns or with the code of the error that stopped it."""
        with _errors_told(ctx):
            _check_text(ctx)
            code = super().invoke(ctx)
            if code:
                ctx.exit(code)


class Group(click.Group):
    """A group of such commands."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["context_settings"] = {**_SETTINGS, **(kwargs.get("context_settings") or {})}
        super().__init__(*args, **kwargs)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names; of one that is not there, those that are near."""
        name, names = args[0], self.list_commands(ctx)
        if name not in names and not name.startswith("-") and not ctx.resilient_parsing:
            near = difflib.get_close_matches(name, names, n=3)
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {' or '.join(near)}?" if near else ""))
        return super().resolve_command(ctx, args)


def launcher_of(ctx: click.Context) -> Launcher:
    """What the kernel's script gave to the commands."""
    launcher: Launcher = ctx.obj
    return launcher


def run_async(main: Callable[[], Awaitable[int | None]]) -> int | None:
    """Run a command's coroutine; of several errors at once the first is raised."""
    import anyio

    try:
        return anyio.run(main)
    except BaseExceptionGroup as group:
        raise _first(group) from group


def with_client(
    ctx: click.Context, where: Target, main: Callable[[Client], Awaitable[int | None]], *, agents: Sequence[str] = ()
) -> int | None:
    """Run a command's coroutine with a client of the runtime."""

    async def connected() -> int | None:
        async with connect(launcher_of(ctx), where, agents=agents) as client:
            return await main(client)

    return run_async(connected)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _check_text(ctx: click.Context) -> None:
    """Refuse arguments that are no text: the shell passes any bytes, and no store, wire or JSON takes them."""
    for name, value in ctx.params.items():
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, str) and not each.isascii() and re.search("[\ud800-\udfff]", each):
                raise click.UsageError(f"{name}: it is not UTF-8 text.")


@contextmanager
def _errors_told(ctx: click.Context) -> Iterator[None]:
    try:
        yield
    except TransomError as error:
        _tell(error, as_json=bool(ctx.params.get("as_json")))
        ctx.exit(exits.exit_code(error))
    except KeyboardInterrupt:
        ctx.exit(exits.INTERRUPTED)


def _tell(error: TransomError, *, as_json: bool) -> None:
    """Print the error on stderr: what is wrong, then what to do next; as one line of JSON where JSON is read."""
    if as_json:
        body = {"code": error.code, "message": error.message, "details": error.details}
        click.echo(json_line(body), err=True)
        return
    say(f"Error: {safe(error.message)}", "bad", err=True)
    if step := _next_step(error):
        say(safe(step), err=True)


def _next_step(error: TransomError) -> str:
    notes: list[str] = getattr(error, "__notes__", [])
    if notes:
        return notes[0]
    plugin = error.details.get("plugin")
    if isinstance(plugin, str):
        return f"`transom plugins list` shows what is loaded; `transom plugins block {plugin}` leaves it out."
    return ""
