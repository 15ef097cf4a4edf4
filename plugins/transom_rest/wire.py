"""The JSON of the REST door: one Struct a shape, camelCase names, times in RFC 3339, empty optional fields left out.

`to_wire` makes them of what operations answer, field by field; a field that is not named here is not told.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from transom_doors.answers import rfc3339
from transom_hookspecs import (
    Catalog,
    Decided,
    ErrorInfo,
    JobAnswer,
    JobBoard,
    JobPage,
    JobTrace,
    JobView,
    JobWait,
    Json,
    JsonObject,
    Published,
    Usage,
    WaitOpened,
    WaitPage,
    WaitView,
)


class Time:
    """An instant on the wire."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


NO_TIME = Time("")


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all shapes. A field without a default is always there, one with a default only when it says something."""


class VoteBody(Wire, frozen=True, kw_only=True):
    """One person's word on a wait."""

    by: str
    approved: bool
    at: Time
    via: str = ""
    comment: str = ""


class RuleBody(Wire, frozen=True, kw_only=True):
    """Who may decide a wait."""

    count: int
    deciders: tuple[str, ...] = ()
    four_eyes: bool = False
    confirm: bool = False
    veto: bool = False
    typed: str = ""
    edit: bool = False
    reason: str = ""


class ApprovalBody(Wire, frozen=True, kw_only=True):
    """An open wait; `redacted`: the label of a data rule that hides what waits."""

    id: str
    tenant: str
    job: str
    tree: str
    agent: str
    kind: str
    token: str
    message: str
    opened_at: Time
    rule: RuleBody
    can_decide: bool
    expires_at: Time = NO_TIME
    starter: str = ""
    function: str = ""
    call: str = ""
    shown: Json = None
    schema: JsonObject = {}
    choices: tuple[str, ...] = ()
    votes: tuple[VoteBody, ...] = ()
    redacted: str = ""


class BranchBody(Wire, frozen=True, kw_only=True):
    """What one job of a tree cost."""

    job: str
    agent: str
    calls: int
    input_tokens: int
    output_tokens: int
    usd: float
    models: tuple[str, ...] = ()
    cached_tokens: int = 0


class CostBody(Wire, frozen=True, kw_only=True):
    """What a job and all that it delegated cost."""

    usd: float
    calls: int
    input_tokens: int
    output_tokens: int
    branches: tuple[BranchBody, ...]


class JobBody(Wire, frozen=True, kw_only=True):
    """A job; `redacted`: the label of a data rule that hides its content."""

    id: str
    agent: str
    status: str
    started_at: Time = NO_TIME
    closed_at: Time = NO_TIME
    output: Json = None
    error: ErrorInfo | None = None
    children: tuple[str, ...] = ()
    approvals: tuple[ApprovalBody, ...] = ()
    flow: bool = False
    cost: CostBody | None = None
    conversation: str = ""
    turn: int = 0
    tags: tuple[str, ...] = ()
    team: str = ""
    taint: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    card: bool = False
    redacted: str = ""


class StartedBody(JobBody, frozen=True, kw_only=True):
    """A job as its start answers it."""

    retried: bool


class JobsBody(Wire, frozen=True, kw_only=True):
    """A page of jobs; an empty cursor is the last page's."""

    jobs: tuple[JobBody, ...]
    cursor: str


class StepBody(Wire, frozen=True, kw_only=True):
    """A step of a trace."""

    job: str
    key: str
    kind: str
    name: str
    state: str
    attempt: int
    verdict: str = ""
    error: ErrorInfo | None = None
    child: str = ""
    begun_at: Time = NO_TIME
    ended_at: Time = NO_TIME


class TraceBody(Wire, frozen=True, kw_only=True):
    """A job and its steps."""

    job: JobBody
    steps: tuple[StepBody, ...]


class NoteBody(Wire, frozen=True, kw_only=True):
    """A note of a board."""

    id: int
    kind: str
    job: str
    agent: str
    at: Time
    text: str = ""
    tags: tuple[str, ...] = ()
    supersedes: int = 0
    superseded_by: int = 0
    tainted: bool = False
    labels: tuple[str, ...] = ()


class BoardBody(Wire, frozen=True, kw_only=True):
    """The notes of a job's tree; `content`: whether their words are shown; `redacted`: the label of a rule that hides them."""

    tree: str
    notes: tuple[NoteBody, ...]
    content: bool
    redacted: str = ""


class PendingBody(Wire, frozen=True, kw_only=True):
    """A step that is not done, and what it waits for."""

    key: str
    kind: str
    name: str
    attempts: int
    why: str
    waits_for: str = ""
    last_failure: str = ""
    since: Time = NO_TIME


class WaitBody(Wire, frozen=True, kw_only=True):
    """Why a job waits."""

    job: str
    status: str
    why: str
    steps: tuple[PendingBody, ...]
    queue: str = ""
    redacted: str = ""


class ApprovalsBody(Wire, frozen=True, kw_only=True):
    """A page of open waits, oldest first; an empty cursor is the last page's."""

    approvals: tuple[ApprovalBody, ...]
    cursor: str


class DecidedBody(Wire, frozen=True, kw_only=True):
    """How a decision came out."""

    wait: str
    job: str
    result: str
    outcome: str = ""
    by: str = ""
    reason: str = ""


class AgentBody(Wire, frozen=True, kw_only=True):
    """An agent or a flow."""

    name: str
    flow: bool
    conversations: bool
    title: str = ""
    description: str = ""
    input_schema: JsonObject | None = None
    output_schema: JsonObject | None = None
    card_schema: JsonObject | None = None
    plugin: str = ""
    definition: str = ""


class AgentsBody(Wire, frozen=True, kw_only=True):
    """The catalog."""

    agents: tuple[AgentBody, ...]


class PublishedBody(Wire, frozen=True, kw_only=True):
    """The jobs that an event woke."""

    jobs: tuple[str, ...]


class UsageEvent(Wire, frozen=True, kw_only=True, tag_field="type", tag="usage"):
    """The log's `usage`, in this wire's names."""

    job: str
    model: str
    step: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0
    estimated: bool = False


class WaitOpenedEvent(Wire, frozen=True, kw_only=True, tag_field="type", tag="wait.opened"):
    """The log's `wait.opened`, in this wire's names."""

    job: str
    wait: str
    kind: str
    token: str
    rule: RuleBody
    expires: Time = NO_TIME
    message: str = ""
    call: str = ""
    function: str = ""
    shown: Json = None
    schema: JsonObject = {}
    choices: tuple[str, ...] = ()


SHAPES: dict[type[msgspec.Struct], type[Wire]] = {
    Catalog: AgentsBody,
    Decided: DecidedBody,
    JobPage: JobsBody,
    JobBoard: BoardBody,
    JobTrace: TraceBody,
    JobView: JobBody,
    JobWait: WaitBody,
    Published: PublishedBody,
    Usage: UsageEvent,
    WaitOpened: WaitOpenedEvent,
    WaitView: ApprovalBody,
}


W = TypeVar("W", bound=Wire)


def to_wire(value: msgspec.Struct) -> Wire:
    """An operation's answer in this wire's shape."""
    if isinstance(value, JobAnswer):
        job = _shaped(value.job, JobBody)
        return StartedBody(**{name: getattr(job, name) for name in JobBody.__struct_fields__}, retried=value.retried)
    if isinstance(value, WaitPage):
        return ApprovalsBody(approvals=tuple(_shaped(wait, ApprovalBody) for wait in value.waits), cursor=value.cursor)
    return _shaped(value, SHAPES[type(value)])


def encode(value: msgspec.Struct | Mapping[str, Json]) -> bytes:
    """JSON."""
    return _ENCODER.encode(value)


def _shaped(value: msgspec.Struct, shape: type[W]) -> W:
    return msgspec.convert(value, shape, from_attributes=True, dec_hook=_decode)


def _decode(kind: type, value: Any) -> Any:
    if kind is not Time:
        raise NotImplementedError(kind)
    return Time(text) if (text := rfc3339(value)) else NO_TIME


def _encode(value: Any) -> str:
    if not isinstance(value, Time):
        raise NotImplementedError(type(value))
    return value.text


_ENCODER = msgspec.json.Encoder(enc_hook=_encode)
