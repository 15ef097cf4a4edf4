"""The terminal: what is printed where, with colour and tables only where a person watches."""

import io
import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

import click
import msgspec

from .render import Span, Style
from .safe import safe_line

_STYLES: Final[dict[Style, dict[str, Any]]] = {
    "text": {},
    "head": {"bold": True},
    "dim": {"dim": True},
    "good": {"fg": "green"},
    "bad": {"fg": "red"},
    "warn": {"fg": "yellow"},
}


def watched(stream: Any) -> bool:
    """Whether a person sees what is written to a stream."""
    return bool(stream.isatty())


def coloured(stream: Any) -> bool:
    """Whether a stream takes colour: a terminal, and neither NO_COLOR nor TERM=dumb says no."""
    return watched(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def write(spans: Iterable[Span], *, err: bool = False) -> None:
    """Print spans, at once."""
    stream = _stream(err=err)
    colour = coloured(stream)
    text = "".join(
        click.style(span.text, **_STYLES[span.style]) if colour and _STYLES[span.style] else span.text for span in spans
    )
    if text:
        click.echo(text, file=stream, nl=False, color=colour)


def say(text: str, style: Style = "text", *, err: bool = False) -> None:
    """Print a line; the text must be safe."""
    write((Span(f"{text}\n", style),), err=err)


def print_json(value: Any) -> None:
    """Print a value as one line of JSON: plain ASCII, which any stream can take."""
    click.echo(json_line(value), color=False)


def json_line(value: Any) -> str:
    """A value as one line of ASCII JSON."""
    return json.dumps(msgspec.to_builtins(value), separators=(",", ":"))


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str) -> None:
    """Print rows in columns: a fitted table for a person, else plain columns; `empty` when there is none.

    The last column may be long; it is wrapped on a terminal.
    """
    safe_rows = [[safe_line(cell) for cell in row] for row in rows]
    if not safe_rows:
        say(empty, "dim", err=True)
    elif watched(sys.stdout):
        _rich_table(headers, safe_rows)
    else:
        _plain_table(headers, safe_rows)


def when(at: int) -> str:
    """A time in milliseconds (Unix) as people read it here; empty for none."""
    return datetime.fromtimestamp(at / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S") if at else ""


def _plain_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in (headers, *rows)) for column in range(len(headers))]
    for row in (headers, *rows):
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _rich_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colour = coloured(sys.stdout)
    fitted = Table(box=None, pad_edge=False, header_style="bold" if colour else "")
    for header in headers:
        fitted.add_column(header, overflow="fold")
    for row in rows:
        fitted.add_row(*(Text(cell) for cell in row))  # Text: no markup in what others wrote
    Console(no_color=not colour, highlight=False).print(fitted)


def _stream(*, err: bool) -> Any:
    """The stream, made to show as an escape what its encoding has no sign for."""
    stream = sys.stderr if err else sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")
    return stream
