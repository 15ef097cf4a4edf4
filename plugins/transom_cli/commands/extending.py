"""`transom plugins`: what is installed, blocking what is broken, and beginning a new one."""

import difflib
from pathlib import Path

import click
import msgspec

from transom_cli import exits
from transom_cli.clicks import Group, launcher_of
from transom_cli.options import json_option
from transom_cli.safe import safe, safe_line
from transom_cli.scaffold import KINDS, Scaffold
from transom_cli.screen import print_json, say, table
from transom_hookspecs import TransomError


@click.group(cls=Group)
def plugins() -> None:
    """List plugins, block one, begin a new one."""


@plugins.command("list", examples=("transom plugins list", "transom plugins list --json"))
@json_option
@click.pass_context
def list_plugins(ctx: click.Context, *, as_json: bool) -> int | None:
    """List the installed plugins and whether they load.

    Works when one is broken, and exits with 1 then.
    """
    found = launcher_of(ctx).found()
    if as_json:
        print_json({"plugins": msgspec.to_builtins(found)})
    else:
        rows = [
            (each.name, f"{each.distribution} {each.version}".strip(), each.state, each.why or ", ".join(each.hooks))
            for each in found
        ]
        table(("plugin", "distribution", "state", "hooks, or why not"), rows, empty="No plugin is installed.")
    return exits.FAILED if any(each.state == "failed" for each in found) else exits.OK


@plugins.command("block", examples=("transom plugins block github",))
@click.argument("name")
@click.pass_context
def block(ctx: click.Context, *, name: str) -> None:
    """Leave a plugin out from the next start on.

    It is not even imported then. Written to transom.toml.
    """
    _set_blocked(ctx, name, blocked=True)


@plugins.command("unblock", examples=("transom plugins unblock github",))
@click.argument("name")
@click.pass_context
def unblock(ctx: click.Context, *, name: str) -> None:
    """Load a blocked plugin again from the next start on."""
    _set_blocked(ctx, name, blocked=False)


@plugins.command("new", examples=("transom plugins new tool weather", "transom plugins new door slack --dir ~/src"))
@click.argument("kind", type=click.Choice(sorted(KINDS)))
@click.argument("name")
@click.option("--dir", "folder", default=".", metavar="DIR", help="Where to make it. [default: here]")
def new(*, kind: str, name: str, folder: str) -> None:
    """Begin a plugin.

    A small distribution of its own, with a README and tests that pass. KIND is what it brings first; it may bring
    more: agent (agents in Python), door (HTTP routes), filter (texts masked before they are recorded), model (a
    language model), policy (who may call which function), tool (functions that agents call).
    """
    scaffold = Scaffold(kind=kind, name=name)
    made = scaffold.write(Path(folder))
    say(f"Made {made} with:")
    for file in sorted(path.relative_to(made) for path in made.rglob("*") if path.is_file()):
        say(f"  {file}")
    say(f"\nNext:\n  cd {made}\n  pip install -e '.[test]'\n  pytest\n  transom plugins list")


def _set_blocked(ctx: click.Context, name: str, *, blocked: bool) -> None:
    launcher = launcher_of(ctx)
    names = [each.name for each in launcher.found()]
    if name not in names and blocked:
        near = difflib.get_close_matches(name, names, n=3)
        error = TransomError("not_found", f"there is no plugin {name!r}")
        error.add_note(f"Did you mean {' or '.join(near)}?" if near else "`transom plugins list` lists what is installed.")
        raise error
    path = launcher.set_blocked(name, blocked=blocked)
    say(f"Plugin {safe_line(name)} is {'blocked' if blocked else 'no longer blocked'} in {safe(path)}, from the next start on.")
