"""The `transom` script: finds the commands that plugins register, and runs one.

It holds no command of its own. The commands that list, block or remove plugins work when a plugin is broken: one that
cannot be loaded is left out here and told of by them, one whose commands cannot be had is told of at once.
"""

import sys
from importlib.metadata import version

import click

from transom_hookspecs import TransomError

from . import config as settings
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
            for plugin, command in hooks.collect("register_commands", left_out=no_commands):
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


def main() -> None:
    """Run the command line; an error is two lines on stderr, never a traceback."""
    try:
        cli(prog_name="transom")
    except TransomError as error:
        click.echo(f"Error: {error.message}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
