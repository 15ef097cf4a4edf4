"""What tests of the AG-UI door share: a client of their own that knows the rules, job logs, and a way to encode them.

The client is written from the protocol's rules, apart from the door: it fails for whatever makes a stock client end a run.
"""

import json
import re
from collections.abc import Iterable

from transom_agui.encode import TurnEncoder
from transom_agui.view import View
from transom_hookspecs import Caller, Entry, Event, JobStarted

AT = 1_772_366_400_000
ANNA = Caller(kind="person", id="anna", tenant="default")
FRAME = re.compile(rb"id: ([0-9]+)\.([0-9]+)\ndata: ([^\r\n]+)")
REQUIRED = {
    "RUN_STARTED": {"threadId", "runId", "protocolVersion"},
    "RUN_FINISHED": {"threadId", "runId", "outcome"},
    "RUN_ERROR": {"message", "code"},
    "STEP_STARTED": {"stepName"},
    "STEP_FINISHED": {"stepName"},
    "TEXT_MESSAGE_START": {"messageId", "role"},
    "TEXT_MESSAGE_CONTENT": {"messageId", "delta"},
    "TEXT_MESSAGE_END": {"messageId"},
    "TOOL_CALL_START": {"toolCallId", "toolCallName", "parentMessageId"},
    "TOOL_CALL_ARGS": {"toolCallId", "delta"},
    "TOOL_CALL_END": {"toolCallId"},
    "TOOL_CALL_RESULT": {"messageId", "toolCallId", "content", "role"},
    "STATE_SNAPSHOT": {"snapshot"},
    "STATE_DELTA": {"delta"},
    "MESSAGES_SNAPSHOT": {"messages"},
    "CUSTOM": {"name", "value"},
}
OPTIONAL = {"RUN_FINISHED": {"metadata"}, "RUN_ERROR": {"rawEvent"}}


class Broken(AssertionError):
    """A stock client would have ended the run."""


def frames_of(stream: bytes) -> list[tuple[tuple[int, int], dict]]:
    """The whole frames of a stream, each with its id; what is not whole at the end is not there."""
    found = []
    for part in stream.split(b"\n\n")[:-1]:
        if part.startswith(b":"):
            continue
        match = FRAME.fullmatch(part)
        if match is None:
            raise Broken(f"no frame: {part[:200]!r}")
        found.append(((int(match[1]), int(match[2])), json.loads(match[3])))
    return found


class Client:
    """A client's state over the runs of a thread: messages, state, and what is open.

    `terminal`: whether the last run ended; `events`: all it was told.
    """

    def __init__(self):
        self.events: list[dict] = []
        self.messages: list[dict] = []
        self.state: object = {}
        self.interrupts: list[dict] = []
        self.running = self.failed = self.finished = False
        self._texts: set[str] = set()
        self._calls: set[str] = set()
        self._steps: set[str] = set()
        self._before: set[str] = set()

    def take(self, stream: bytes) -> "Client":
        """Take a stream, or a part of it that ends after a whole frame."""
        last = (-1, -1)
        for place, event in frames_of(stream):
            if place <= last:
                raise Broken(f"ids go back: {place} after {last}")
            last = place
            self.on(event)
        return self

    def on(self, event: dict) -> None:
        kind = event.get("type")
        if kind not in REQUIRED:
            raise Broken(f"unknown event {kind!r}")
        fields = set(event) - {"type"}
        if not REQUIRED[kind] <= fields <= REQUIRED[kind] | OPTIONAL.get(kind, set()):
            raise Broken(f"{kind} has the fields {sorted(fields)}")
        if None in event.values():
            raise Broken(f"{kind} has a null")
        if kind != "RUN_STARTED" and not self.running:
            raise Broken(f"{kind} outside of a run")
        getattr(self, "_" + kind.lower())(event)
        self.events.append(event)

    def kinds(self) -> list[str]:
        """The names of the events so far; a custom one's own."""
        return [event["name"] if event["type"] == "CUSTOM" else event["type"] for event in self.events]

    def of(self, kind: str) -> list[dict]:
        """The events of a type, or the values of custom ones of a name."""
        return [e["value"] if e["type"] == "CUSTOM" else e for e in self.events if kind in (e["type"], e.get("name"))]

    def text(self) -> str:
        """All that the agent said, a line a message."""
        return "\n".join(m["content"] for m in self.messages if m["role"] == "assistant" and m.get("content"))

    def message(self, identity: str) -> dict | None:
        return next((m for m in self.messages if m["id"] == identity), None)

    def _run_started(self, event):
        if self.running:
            raise Broken("a run in a run")
        self.running, self.failed, self.finished = True, False, False
        self._texts, self._calls, self._steps, self._before = set(), set(), set(), set()

    def _run_finished(self, event):
        if self._texts or self._calls or self._steps:
            raise Broken(f"finished with open {self._texts | self._calls | self._steps}")
        outcome = event["outcome"]
        if outcome["type"] == "interrupt":
            ids = [each["id"] for each in outcome["interrupts"]]
            if not ids or len(set(ids)) != len(ids):
                raise Broken(f"interrupts {ids}")
        elif outcome not in ({"type": "success"}, {"type": "cancelled"}):
            raise Broken(f"outcome {outcome}")
        self.interrupts = outcome.get("interrupts", [])
        self.running, self.finished = False, True

    def _run_error(self, event):
        self.running, self.failed = False, True

    def _step_started(self, event):
        if event["stepName"] in self._steps:
            raise Broken("a step twice")
        self._steps.add(event["stepName"])
        if len(self._steps) > 32:
            raise Broken("more than 32 steps")

    def _step_finished(self, event):
        if event["stepName"] not in self._steps:
            raise Broken("a step that is not open")
        self._steps.remove(event["stepName"])

    def _text_message_start(self, event):
        identity = event["messageId"]
        if identity in self._texts or identity in self._before:
            raise Broken(f"message {identity} twice")
        if event["role"] != "assistant":
            raise Broken(event["role"])
        self._texts.add(identity)
        self._before.add(identity)
        if self.message(identity) is None:
            self.messages.append({"id": identity, "role": "assistant", "content": ""})

    def _text_message_content(self, event):
        if event["messageId"] not in self._texts:
            raise Broken("content of no open message")
        if not event["delta"]:
            raise Broken("an empty delta")
        message = self.message(event["messageId"])
        message["content"] = message.get("content", "") + event["delta"]

    def _text_message_end(self, event):
        if event["messageId"] not in self._texts:
            raise Broken("the end of no open message")
        self._texts.remove(event["messageId"])

    def _tool_call_start(self, event):
        call, parent = event["toolCallId"], event["parentMessageId"]
        if call in self._calls:
            raise Broken(f"call {call} twice")
        self._calls.add(call)
        owner = self.message(parent)
        if owner is None:
            owner = {"id": parent, "role": "assistant"}
            self.messages.append(owner)
        if owner["role"] != "assistant":
            raise Broken("a call of no assistant message")
        made = {"id": call, "type": "function", "function": {"name": event["toolCallName"], "arguments": ""}}
        owner.setdefault("toolCalls", []).append(made)

    def _tool_call_args(self, event):
        if event["toolCallId"] not in self._calls:
            raise Broken("arguments of no open call")
        self._made(event["toolCallId"])["function"]["arguments"] += event["delta"]

    def _tool_call_end(self, event):
        if event["toolCallId"] not in self._calls:
            raise Broken("the end of no open call")
        self._calls.remove(event["toolCallId"])
        json.loads(self._made(event["toolCallId"])["function"]["arguments"])

    def _tool_call_result(self, event):
        if self.message(event["messageId"]) is not None:
            raise Broken("a result twice")
        if not isinstance(event["content"], str) or event["role"] != "tool":
            raise Broken("a result that is no text")
        message = {"id": event["messageId"], "role": "tool", "toolCallId": event["toolCallId"], "content": event["content"]}
        self.messages.append(message)

    def _made(self, call):
        return next(c for m in self.messages for c in m.get("toolCalls", ()) if c["id"] == call)

    def _state_snapshot(self, event):
        self.state = event["snapshot"]

    def _state_delta(self, event):
        for operation in event["delta"]:
            self._patch(operation)

    def _patch(self, operation):
        path = operation["path"].split("/")
        if path[:3] != ["", "board", "notes"] or len(path) != 4:
            raise Broken(f"path {operation['path']}")
        notes = self.state["board"]["notes"]
        if operation["op"] == "add" and path[3] == "-":
            notes.append(operation["value"])
        elif operation["op"] == "replace" and int(path[3]) < len(notes):
            notes[int(path[3])] = operation["value"]
        else:
            raise Broken(f"patch {operation}")

    def _messages_snapshot(self, event):
        given = {m["id"]: m for m in event["messages"]}
        mine = {m["id"] for m in self.messages}
        kept = [given[m["id"]] for m in self.messages if m["id"] in given]
        self.messages = [dict(m) for m in [*kept, *(m for m in event["messages"] if m["id"] not in mine)]]

    def _custom(self, event):
        if not event["name"].startswith("oz0."):
            raise Broken("a name that is not ours")


class Says:
    """Facts of a caller who may see and answer everything, or not what is named."""

    def __init__(self, blind: Iterable[str] = (), not_mine: Iterable[str] = (), label: str = "secret"):
        self._blind, self._not_mine, self._label = set(blind), set(not_mine), label

    def sees(self, job: str) -> bool:
        return job not in self._blind

    def answers(self, wait: str) -> bool:
        return wait not in self._not_mine

    def hidden(self, job: str) -> str:
        return self._label


def view(**changes) -> View:
    """The view of the person who started job `j` in thread `t` as run `r`, with a client of 1.0."""
    facts = {"thread": "t", "run": "r", "job": "j", "caller": "person:anna", "person": True, "protocol": "1.0", "board": True}
    return View(**{**facts, "label": "AI", **changes})


def started(**changes) -> JobStarted:
    """The turn's own beginning."""
    return JobStarted(**{"job": "j", "agent": "echo", "caller": ANNA, **changes})


def log(*events: Event, after: int = 0) -> list[Entry]:
    """Events as a tree's log has them."""
    return [Entry(after + i, AT + i, event) for i, event in enumerate(events, 1)]


def encode(entries: Iterable[Entry], view: View, facts: object = None, **options) -> bytes:
    """The stream that a log becomes."""
    encoder = TurnEncoder(view, facts or Says(), **options)
    return b"".join(b"".join(encoder.on(entry)) for entry in entries)


def read(entries: Iterable[Entry], view: View, facts: object = None, **options) -> Client:
    """A client that has read it."""
    return Client().take(encode(entries, view, facts, **options))
