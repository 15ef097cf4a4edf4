"""The demo's tools: they do nothing but wait and, for `demo`, write the ledger."""

import os
from typing import Annotated

import anyio
import msgspec

from transom_hookspecs import CallContext, Rule, Tool, function, tool

LEDGER = "TRANSOM_DEMO_LEDGER"
"""The environment variable that names a file: each nap and send adds `<job> <step>` to it when it is over."""

Seconds = Annotated[float, msgspec.Meta(ge=0, le=3600, description="how long it takes")]


def greet(channel: Annotated[str, msgspec.Meta(description="the channel, as #team")]) -> str:
    """Greet a channel of the team."""
    return f"Greeted {channel}."


def announce(text: Annotated[str, msgspec.Meta(description="what is announced")]) -> str:
    """Announce something to the whole team."""
    return f"Announced: {text}"


def remove(name: Annotated[str, msgspec.Meta(description="who is removed")]) -> str:
    """Remove someone from the team."""
    return f"Removed {name}."


def post(to: Annotated[str, msgspec.Meta(description="the recipient")], text: str) -> str:
    """Send a message to somebody outside. It is only said to be sent."""
    return f"Sent to {to}: {text}"


async def nap(context: CallContext, seconds: Seconds) -> str:
    """Sleep for a while; a nap may be taken again."""
    await anyio.sleep(seconds)
    await _enter(context)
    return f"Slept {seconds:g} s."


async def send(context: CallContext, seconds: Seconds) -> str:
    """Send something that may not be sent twice; it takes a while."""
    await anyio.sleep(seconds)
    await _enter(context)
    return f"Sent after {seconds:g} s."


async def _enter(context: CallContext) -> None:
    """Add a call to the ledger, when there is one."""
    if path := os.environ.get(LEDGER):
        await anyio.to_thread.run_sync(_add_line, path, f"{context.job} {context.step}\n")


def _add_line(path: str, line: str) -> None:
    """One append in one write: whole lines, whoever else writes, and nothing is left in a buffer at a kill."""
    ledger = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(ledger, line.encode())
    finally:
        os.close(ledger)


TEAM = tool(
    "team",
    function(greet, open_world=False, destructive=False, approval=Rule(reason="a greeting needs a yes")),
    function(
        announce, open_world=False, destructive=False, approval=Rule(four_eyes=True, reason="an announcement needs four eyes")
    ),
    function(remove, open_world=False, approval=Rule(typed="name", reason="the name of who is removed must be typed")),
    description="A team that is not there.",
)
DEMO = tool(
    "demo",
    function(nap, open_world=False, destructive=False, idempotent=True, timeout=3700.0),
    function(send, open_world=False, destructive=False, timeout=3700.0),
    description="Steps that take time.",
)
POST = tool("post", function(post, name="send", destructive=False), description="Messages that leave the house.")

TOOLS: tuple[Tool, ...] = (TEAM, DEMO, POST)
