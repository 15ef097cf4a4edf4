"""Conversations: turns one after the other, their items in order, and the runs that view them."""

from typing import Literal

import msgspec

from .values import Json, JsonObject


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One request's view of a turn: what its encoder knows beside the log.

    Parameters:
        start: the tree's seq when the run was made; its events come after.
        view: what the door needs to encode it again, byte for byte (caller, protocol version, label, …).
        outcomes: what its resume decided, wait by wait.
    """

    conversation: str
    run: str
    job: str
    start: int
    created_at: int
    view: JsonObject = {}
    outcomes: JsonObject = {}


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation: its turns one after the other.

    Parameters:
        owner: the person whose it is, or empty.
        turns: how many turns it had; survives retention.
        items: how many items it has.
        job: the latest turn's.
    """

    id: str
    owner: str
    created_at: int
    updated_at: int
    turns: int = 0
    items: int = 0
    job: str = ""
    agent: str = ""
    title: str = ""
    taint: tuple[str, ...] = ()


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that a model asked for: its ID, `<tool>.<function>`, and the arguments."""

    id: str
    function: str
    arguments: JsonObject


class Item(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One item of a conversation, in order.

    Parameters:
        id: `<job>:in` for what the person said, `<job>:<step>` for an answer or a result; unique.
        content: text, or a tool's result.
        call: which call a result answers.
        client_id: the client's own id of the message.
    """

    conversation: str
    number: int
    id: str
    role: Literal["user", "assistant", "tool"]
    job: str
    turn: int
    content: Json = None
    calls: tuple[ToolCall, ...] = ()
    call: str = ""
    error: bool = False
    client_id: str = ""
