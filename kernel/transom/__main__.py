"""The `transom` script: finds the commands that plugins register, and runs one.

It holds no command of its own. The commands that list, block or remove plugins work when a plugin is broken: one that
cannot be loaded is left out here and told of by them, one whose commands cannot be had is told of at once.
"""

import difflib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import TextIO

import click

from transom_hookspecs import Operation, TransomError

from . import config as settings
from . import registry
from .dispatch import Hooks
from .launcher import KernelLauncher
from .plugins import load as load_plugins


class Commands(click.Group):
    """A group whose commands come from plugins, found when one is asked for."""

    _found: dict[str, click.Command] | None = None

    def found(self) -> dict[str, click.Command]:
        """The plugins' commands by name."""
        if self._found is None:
            self._found = {}
            loaded = load_plugins(settings.load(settings.find()), lenient=True)
            hooks = Hooks(loaded.manager, infos=loaded.infos)
            for plugin, command in hooks.collect("register_commands", table(hooks), left_out=no_commands):
                if isinstance(command, click.Command) and command.name:
                    self._found[command.name] = command
                else:
                    click.echo(f"Warning: plugin {plugin!r} registers {command!r}, which is no command", err=True)
        return self._found

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in order."""
        return sorted(self.found())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One of them."""
        return self.found().get(cmd_name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names; of one that is not there, those that are near."""
        name = args[0]
        if name not in self.found() and not name.startswith("-") and not ctx.resilient_parsing:
            near = difflib.get_close_matches(name, self.found(), n=3)
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {' or '.join(near)}?" if near else ""))
        return super().resolve_command(ctx, args)


def table(hooks: Hooks) -> Sequence[Operation]:
    """The table of operations; without those of plugins, which is told, when one cannot be had."""
    try:
        return tuple(registry.operations(hooks)[0].values())
    except TransomError as error:
        click.echo(f"Warning: the commands of operations are left out: {error.message}", err=True)
        return ()


def no_commands(plugin: str, error: BaseException) -> None:
    """Tell of a plugin whose commands cannot be had, in one line."""
    cause = " ".join(f"{type(error).__name__}: {error}".split())
    click.echo(f"Warning: {plugin} has no commands, as register_commands failed: {cause}", err=True)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("transom"), prog_name="transom")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Transom: durable AI agents behind every door."""
    ctx.obj = KernelLauncher(settings.find())


def open_streams() -> None:
    """Put the null device where a standard stream is closed, so that no file or socket takes its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def let_go(stream: TextIO) -> None:
    """Let what is still to be written to a broken output go, so that the exit is quiet."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def main() -> None:
    """Run the command line; an error is two lines on stderr, never a traceback."""
    open_streams()
    try:
        cli(prog_name="transom")
    except TransomError as error:
        click.echo(f"Error: {error.message}", err=True)
        sys.exit(2)
    except OSError as error:  # a full disk below the output, a folder that may not be read
        let_go(sys.stdout)
        try:
            click.echo(f"Error: {error}", err=True)
        except OSError:
            let_go(sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
