"""`transom dev` and `transom serve`: a server in this terminal."""

import shlex

import click

from transom_cli.clicks import Command, launcher_of
from transom_cli.options import json_option
from transom_cli.safe import safe_line
from transom_cli.screen import print_json, say
from transom_hookspecs import DevTokens, Kernel

_host = click.option(
    "--host", default="", metavar="ADDRESS", help="Listen on this address. [default: the setting's, 127.0.0.1]"
)
_data = click.option("--data", default="", metavar="DIR", help="The data folder. [default: the setting's]")
_port = click.option(
    "--port", type=click.IntRange(0, 65_535), help="Listen on this port; 0 takes a free one. [default: the setting's, 7443]"
)
_with_parent = click.option(
    "--with-parent", is_flag=True, help="End also when the process that started this one ends, however it does."
)


@click.command(cls=Command, examples=("transom dev", "transom dev --port 0 --data /tmp/try --json --with-parent"))
@_host
@_port
@_data
@_with_parent
@click.option("--json", "as_json", is_flag=True, help='Print one line, {"url", "tokens"}, once it listens.')
@click.pass_context
def dev(ctx: click.Context, *, host: str, port: int | None, data: str, with_parent: bool, as_json: bool) -> int:
    """Serve for development.

    With the demo agents, and people whose tokens are printed. Ctrl-C ends it.
    """

    def ready(url: str, kernel: Kernel) -> None:
        service = kernel.service(DevTokens)
        tokens = service.tokens() if service else {}
        if as_json:
            print_json({"url": url, "tokens": tokens})
        else:
            _banner(url, kernel.data, tokens)

    launcher = launcher_of(ctx)
    return launcher.serve(host=host, port=port, data=data, dev=True, ready=ready, with_parent=with_parent)


@click.command(cls=Command, examples=("transom serve", "transom serve --host 0.0.0.0 --port 8443"))
@_host
@_port
@_data
@_with_parent
@json_option
@click.pass_context
def serve(ctx: click.Context, *, host: str, port: int | None, data: str, with_parent: bool, as_json: bool) -> int:
    """Serve what transom.toml says.

    SIGTERM or Ctrl-C ends it; jobs that run then go on at the next start.
    """

    def ready(url: str, kernel: Kernel) -> None:
        if as_json:
            print_json({"url": url})
        else:
            say(f"Transom serves at {safe_line(url)}, data in {safe_line(kernel.data)}.")

    launcher = launcher_of(ctx)
    return launcher.serve(host=host, port=port, data=data, dev=False, ready=ready, with_parent=with_parent)


def _banner(url: str, data: str, tokens: dict[str, str]) -> None:
    """Tell where it is and how to try it."""
    token = tokens.get("key") or next(iter(tokens.values()), "TOKEN")
    say(f"Transom is up at {safe_line(url)}", "head")
    say(f"Development mode: anybody with a token below may use it. Data in {safe_line(data)}.", "dim")
    say("\nTry it:")
    say(f"  curl -d hello -H 'Content-Type: text/plain' -H 'Authorization: Bearer {token}' {url}/v1/agents/echo/jobs")
    say(f"  TRANSOM_URL={shlex.quote(url)} TRANSOM_TOKEN={shlex.quote(token)} transom run helper hello")
    if tokens:
        say("\nTokens:")
        for name, value in tokens.items():
            say(f"  {safe_line(name):<10}{safe_line(value)}")
    say("\nCtrl-C ends it.", "dim")
