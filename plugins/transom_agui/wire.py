"""AG-UI 1.0 on the wire: the events that this door sends, and how one is framed as a Server-Sent Event.

Names are camelCase; an optional field that says nothing is left out, never null. Frames end their lines with LF alone:
the stock client splits events at an empty line of LFs and takes nothing else.
"""

from typing import Final, Literal

import msgspec

from transom_hookspecs import Json, JsonObject

PROTOCOL: Final = "1.0"
"""The version of the protocol that this door speaks."""


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, tag_field="type"):
    """Base of all events."""


class RunStarted(Wire, frozen=True, kw_only=True, tag="RUN_STARTED"):
    """A run begins."""

    thread_id: str
    run_id: str
    protocol_version: str


class Interrupt(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Something that waits for the caller; `response_schema` says what an answer's payload must be."""

    id: str
    reason: str
    response_schema: JsonObject
    metadata: JsonObject
    expires_at: str = ""
    message: str = ""
    tool_call_id: str = ""


class Success(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="success"):
    """The turn is over."""


class Cancelled(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="cancelled"):
    """The job was stopped."""


class Interrupted(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="interrupt"):
    """The turn waits for the caller."""

    interrupts: tuple[Interrupt, ...]


class RunFinished(Wire, frozen=True, kw_only=True, tag="RUN_FINISHED"):
    """A run ends; the turn may wait."""

    thread_id: str
    run_id: str
    outcome: Success | Cancelled | Interrupted
    metadata: JsonObject = {}


class RunError(Wire, frozen=True, kw_only=True, tag="RUN_ERROR"):
    """A run ends because it was refused, or the job failed; `raw_event` holds a refusal's facts under `oz0`."""

    message: str
    code: str
    raw_event: JsonObject = {}


class StepStarted(Wire, frozen=True, kw_only=True, tag="STEP_STARTED"):
    """A job that the turn delegated to begins."""

    step_name: str


class StepFinished(Wire, frozen=True, kw_only=True, tag="STEP_FINISHED"):
    """It is over, or the run is."""

    step_name: str


class TextStart(Wire, frozen=True, kw_only=True, tag="TEXT_MESSAGE_START"):
    """A message of the agent begins."""

    message_id: str
    role: Literal["assistant"]


class TextContent(Wire, frozen=True, kw_only=True, tag="TEXT_MESSAGE_CONTENT"):
    """More of its text."""

    message_id: str
    delta: str


class TextEnd(Wire, frozen=True, kw_only=True, tag="TEXT_MESSAGE_END"):
    """It gets no more text."""

    message_id: str


class CallStart(Wire, frozen=True, kw_only=True, tag="TOOL_CALL_START"):
    """A call, and the message that it belongs to."""

    tool_call_id: str
    tool_call_name: str
    parent_message_id: str


class CallArgs(Wire, frozen=True, kw_only=True, tag="TOOL_CALL_ARGS"):
    """Its arguments, as JSON text."""

    tool_call_id: str
    delta: str


class CallEnd(Wire, frozen=True, kw_only=True, tag="TOOL_CALL_END"):
    """Its arguments are whole."""

    tool_call_id: str


class CallResult(Wire, frozen=True, kw_only=True, tag="TOOL_CALL_RESULT"):
    """What it gave, as a message of its own."""

    message_id: str
    tool_call_id: str
    content: str
    role: Literal["tool"]


class StateSnapshot(Wire, frozen=True, kw_only=True, tag="STATE_SNAPSHOT"):
    """The whole state."""

    snapshot: Json


class StateDelta(Wire, frozen=True, kw_only=True, tag="STATE_DELTA"):
    """A change of the state, as a JSON Patch (RFC 6902)."""

    delta: tuple[JsonObject, ...]


class MessagesSnapshot(Wire, frozen=True, kw_only=True, tag="MESSAGES_SNAPSHOT"):
    """The messages that the client is to have."""

    messages: tuple[JsonObject, ...]


class Custom(Wire, frozen=True, kw_only=True, tag="CUSTOM"):
    """An event of our own."""

    name: str
    value: Json


AnyWire = (
    RunStarted
    | RunFinished
    | RunError
    | StepStarted
    | StepFinished
    | TextStart
    | TextContent
    | TextEnd
    | CallStart
    | CallArgs
    | CallEnd
    | CallResult
    | StateSnapshot
    | StateDelta
    | MessagesSnapshot
    | Custom
)

_encode = msgspec.json.Encoder().encode


def frame(seq: int, n: int, event: Wire) -> bytes:
    """One event with its id: the log event it came of, and its number among those that came of that one."""
    return b"id: %d.%d\ndata: %b\n\n" % (seq, n, _encode(event))


def text_of(value: Json) -> str:
    """A result as a tool message carries it: text as it is, all else as JSON."""
    return value if isinstance(value, str) else _encode(value).decode()
