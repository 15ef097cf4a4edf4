"""Options and arguments that several commands share, and how they are read."""

import functools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import click
import msgspec

from transom_hookspecs import Json, JsonObject

from .client import Target, target
from .screen import say, watched

P = ParamSpec("P")
R = TypeVar("R")

_DURATION = re.compile(r"(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m)?(?:(?P<s>\d+(?:\.\d{1,3})?)s?)?\Z")
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, with the field names of the REST API.")


def seconds_of(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """An option's length of time (`90`, `90s`, `15m`, `1h30m`, `2d`) in seconds; a click callback."""
    if value is None:
        return None
    match = _DURATION.match(value)
    seconds = sum(float(n) * _SECONDS[unit] for unit, n in match.groupdict().items() if n) if match else 0.0
    if not seconds:
        raise click.BadParameter(f"{value!r} is no length of time; write it as 90s, 15m, 1h30m or 2d.")
    return seconds


def connected(command: Callable[P, R]) -> Callable[..., R]:
    """Add the options that say where the runtime is; the command gets them as `where`, a Target."""

    @click.option("--url", metavar="URL", help="A server. [env: TRANSOM_URL, OZ0_URL]")
    @click.option(
        "--token-file",
        metavar="FILE",
        help="A file with the server's token. [env of the token itself: TRANSOM_TOKEN, OZ0_API_KEY]",
    )
    @click.option("--ca-file", metavar="FILE", help="The authority of the server's certificate.")
    @click.option("--data", metavar="DIR", help="A data folder, used by a runtime inside this command.")
    @click.option(
        "--tenant",
        metavar="NAME",
        default="default",
        envvar="TRANSOM_TENANT",
        show_default=True,
        show_envvar=True,
        help="The tenant.",
    )
    @functools.wraps(command)
    def with_where(
        *args: Any, url: str | None, token_file: str | None, ca_file: str | None, data: str | None, tenant: str, **rest: Any
    ) -> R:
        where = target(url=url, data=data, tenant=tenant, token_file=token_file, ca_file=ca_file)
        warn_of_clear_text(where)
        return cast("Callable[..., R]", command)(*args, where=where, **rest)

    return with_where


def warn_of_clear_text(where: Target) -> None:
    """Say so when a token would travel unencrypted to another machine."""
    if where.token and where.url.startswith("http://") and not where.loopback:
        say(f"Warning: the token goes to {where.url} unencrypted; use https://.", "warn", err=True)


def read_input(text: str | None) -> str | None:
    """An input's text as it was given: itself, `-` for stdin, `@file` for a file; None for nothing.

    When it was not given it is read from stdin, unless that is a terminal, where it could have been given.
    """
    if text is not None:
        return _content(text, "INPUT")
    return None if watched(sys.stdin) else _content("-", "INPUT") or None


def input_value(text: str | None, *, as_json: bool) -> Json:
    """An input's value: JSON when it must be, or is an object or array; else the text, or null for none."""
    if text is None:
        return None
    return _json(text, "INPUT") if as_json else json_if_structured(text)


def json_if_structured(text: str) -> Json:
    """JSON when the text is an object or an array, else the text."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return cast("Json", msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError):
        return text


def read_json(text: str, name: str) -> Json:
    """JSON of any kind, given as such, as `-` or as `@file`."""
    return _json(_content(text, name), name)


def read_object(text: str, name: str) -> JsonObject:
    """A JSON object, given as such, as `-` or as `@file`."""
    value = read_json(text, name)
    if isinstance(value, dict):
        return value
    raise click.UsageError(f'{name}: a JSON object is needed, as {{"channel": "#team"}}.')


def _content(text: str, name: str) -> str:
    try:
        if text == "-":
            return sys.stdin.buffer.read().decode()
        if text.startswith("@"):
            return Path(text[1:]).read_text(encoding="utf-8")
    except OSError as error:
        problem = f"{name}: {text[1:]!r} cannot be read: {error.strerror}."
        raise click.UsageError(f"{problem} Text that begins with @ goes through stdin: -") from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{name}: it is not UTF-8 text.") from error
    return text


def _json(text: str, name: str) -> Json:
    try:
        return cast("Json", msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError) as error:
        raise click.UsageError(f"{name}: it is not JSON: {error}") from error
