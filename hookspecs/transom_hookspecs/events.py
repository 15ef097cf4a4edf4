"""The log's vocabulary: everything that a door's encoder may see of a job tree, and nothing else.

`(tree, seq)` is the order of everything. An event names the job that it is about; ids of messages are
`<job>:<step>` (a second attempt: `<job>:<step>~2`), ids of calls are the model's own.
"""

from typing import Literal

import msgspec

from .callers import Caller
from .errors import ErrorInfo
from .values import Json, JsonObject

EndStatus = Literal["completed", "failed", "cancelled", "timed_out"]
WaitKind = Literal["approval", "question", "outputs", "escalation", "changeset", "restart", "budget"]
Outcome = Literal["approved", "denied", "answered", "expired", "cancelled"]


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """Base of all log events; `job` is the job that the event is about."""

    job: str


class JobStarted(Event, frozen=True, kw_only=True, tag="job.started"):
    """A job of the tree was accepted; `step` is the parent's step that delegated it."""

    agent: str
    caller: Caller
    parent: str = ""
    step: str = ""
    label: str = ""
    flow: bool = False


class Text(Event, frozen=True, kw_only=True, tag="text"):
    """More text of a message; the deltas of some milliseconds are one event."""

    message: str
    delta: str


class TextEnded(Event, frozen=True, kw_only=True, tag="text.ended"):
    """A message is whole; `text` is all of it."""

    message: str
    text: str


class TextCut(Event, frozen=True, kw_only=True, tag="text.cut"):
    """A message will not be finished: its model call is made again, as a message of its own."""

    message: str


class CallStarted(Event, frozen=True, kw_only=True, tag="call"):
    """A function is called; `message` is the message whose model asked for it."""

    call: str
    function: str
    arguments: JsonObject
    message: str = ""


class CallEnded(Event, frozen=True, kw_only=True, tag="call.ended"):
    """A function's result, or why there is none."""

    call: str
    content: Json = None
    error: ErrorInfo | None = None


class NotePinned(Event, frozen=True, kw_only=True, tag="note"):
    """A note on the tree's board; `id` is its number in the tree, `call` the board_write that pinned it."""

    id: int
    kind: str
    text: str
    agent: str
    tags: tuple[str, ...] = ()
    supersedes: int = 0
    tainted: bool = False
    labels: tuple[str, ...] = ()
    call: str = ""


class WaitOpened(Event, frozen=True, kw_only=True, tag="wait.opened"):
    """Something waits for a person. `wait` is its id, `token` what an answer must name."""

    wait: str
    kind: WaitKind
    token: str
    expires: int
    message: str = ""
    call: str = ""
    function: str = ""
    shown: Json = None
    schema: JsonObject = {}
    choices: tuple[str, ...] = ()
    rule: "Rule"


class WaitVoted(Event, frozen=True, kw_only=True, tag="wait.voted"):
    """One of several people needed has voted."""

    wait: str
    by: str
    approved: bool


class WaitEdited(Event, frozen=True, kw_only=True, tag="wait.edited"):
    """The arguments that wait for approval were changed; votes are cleared and the token is another."""

    wait: str
    by: str
    token: str
    shown: Json = None


class WaitDecided(Event, frozen=True, kw_only=True, tag="wait.decided"):
    """A wait is over. `run` is the run whose resume decided it, if one did."""

    wait: str
    outcome: Outcome
    by: str
    via: str = ""
    run: str = ""
    comment: str = ""


class TreeWaiting(Event, frozen=True, kw_only=True, tag="tree.waiting"):
    """Nothing in the tree can go on until a person decides one of `waits`."""

    waits: tuple[str, ...]


class TreeRunning(Event, frozen=True, kw_only=True, tag="tree.running"):
    """The tree goes on after a `tree.waiting`."""


class OutputQueued(Event, frozen=True, kw_only=True, tag="output"):
    """A safe output's request has a new state."""

    output: str
    number: int
    state: str


class Usage(Event, frozen=True, kw_only=True, tag="usage"):
    """What one model call cost."""

    model: str
    step: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0
    estimated: bool = False


class JobEnded(Event, frozen=True, kw_only=True, tag="job.ended"):
    """How a job ended. `card`: its output matches the agent's card schema."""

    status: EndStatus
    output: Json = None
    error: ErrorInfo | None = None
    card: bool = False


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who may decide a wait, taken down when it opens and never changed after.

    Parameters:
        deciders: `role:<name>`, `person:<id>`, `team:<name>`; empty means whoever may decide in this tenant.
        count: how many distinct people must say yes.
        four_eyes: nobody says yes in a job that they started; a no of theirs counts.
        confirm: the acting person herself confirms, and nobody else need.
        veto: one no ends it, also when others are still needed; always so for `count` 1.
        typed: the argument whose value the decider must type.
        edit: the decider may change the arguments.
        reason: why a person is asked (`taint`, `policy`, the function's own rule).
    """

    deciders: tuple[str, ...] = ()
    count: int = 1
    four_eyes: bool = False
    confirm: bool = False
    veto: bool = True
    typed: str = ""
    edit: bool = False
    reason: str = ""

    def stricter(self, other: "Rule") -> "Rule":
        """The one rule that holds when both do; where both name deciders, those of `other` decide."""
        return Rule(
            deciders=other.deciders or self.deciders,
            count=max(self.count, other.count),
            four_eyes=self.four_eyes or other.four_eyes,
            confirm=self.confirm and other.confirm,
            veto=self.veto or other.veto,
            typed=self.typed or other.typed,
            edit=self.edit and other.edit,
            reason=other.reason or self.reason,
        )


AnyEvent = (
    JobStarted
    | Text
    | TextEnded
    | TextCut
    | CallStarted
    | CallEnded
    | NotePinned
    | WaitOpened
    | WaitVoted
    | WaitEdited
    | WaitDecided
    | TreeWaiting
    | TreeRunning
    | OutputQueued
    | Usage
    | JobEnded
)


class Entry(msgspec.Struct, frozen=True):
    """One event where it stands in its tree's log: `seq` counts from 1, `at` is in milliseconds (Unix)."""

    seq: int
    at: int
    event: AnyEvent
