"""What the kernel's operations take and give: one request Struct an operation, named as the operation is."""

import msgspec

from .deciding import RunRequest, WaitView
from .errors import ErrorInfo
from .records import JobStatus, StepState
from .values import Json, JsonObject


class StartJob(msgspec.Struct, frozen=True, kw_only=True):
    """Start an agent or a flow.

    Parameters:
        id: the job's ID and the start's idempotency key; empty: from the Idempotency-Key, else a new one.
        timeout: seconds for the whole job, waits included.
        conversation: go on with this conversation, or begin it under this ID.
        continue_from: go on with the conversation of this job.
        client_message: the client's own id of the message.
        run: a run record to write with it.
    """

    agent: str
    input: Json = None
    id: str = ""
    timeout: float | None = None
    tags: tuple[str, ...] = ()
    team: str = ""
    budget: str = ""
    data_subjects: tuple[str, ...] = ()
    conversation: str = ""
    continue_from: str = ""
    client_message: str = ""
    run: RunRequest | None = None


class BranchCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one job of a tree cost."""

    job: str
    agent: str
    models: tuple[str, ...] = ()
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0


class CostView(msgspec.Struct, frozen=True, kw_only=True):
    """What a job and all that it delegated cost; `branches` has the job itself first."""

    usd: float = 0.0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    branches: tuple[BranchCost, ...] = ()


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job as callers see it.

    Parameters:
        caller: who started it; empty where lists name nobody but the caller.
        content: whether the caller may see content; without it `output` and the waits' details are left out.
        redacted: the label under which a data rule withholds content and tags from the caller, or empty.
    """

    id: str
    agent: str
    status: JobStatus
    started_at: int
    tree: str
    token: str
    closed_at: int = 0
    output: Json = None
    error: ErrorInfo | None = None
    children: tuple[str, ...] = ()
    approvals: tuple[WaitView, ...] = ()
    flow: bool = False
    card: bool = False
    cost: CostView | None = None
    conversation: str = ""
    turn: int = 0
    tags: tuple[str, ...] = ()
    team: str = ""
    labels: tuple[str, ...] = ()
    taint: tuple[str, ...] = ()
    caller: str = ""
    content: bool = True
    redacted: str = ""


class JobAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A job, and whether the start was a retry and nothing started again."""

    job: JobView
    retried: bool = False


class GetJob(msgspec.Struct, frozen=True, kw_only=True):
    """Name one job."""

    id: str


class ListJobs(msgspec.Struct, frozen=True, kw_only=True):
    """Recent top-level jobs, newest first. `limit` 1 to 200; `cursor` from the last page."""

    limit: int = 50
    cursor: str = ""


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of jobs, without their outputs and costs."""

    jobs: tuple[JobView, ...]
    cursor: str = ""


class CancelJob(msgspec.Struct, frozen=True, kw_only=True):
    """Cancel a job and all that it delegated."""

    id: str
    reason: str = ""


class WatchJob(msgspec.Struct, frozen=True, kw_only=True):
    """May this caller follow this job, from here? `token` is the one its events came with."""

    id: str
    since_seq: int = 0
    token: str = ""


class WatchGrant(msgspec.Struct, frozen=True, kw_only=True):
    """The job may be followed: `kernel.watch(tenant, tree, since_seq)` gives its tree's log."""

    job: JobView
    since_seq: int


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """A step as the trace shows it, without content."""

    job: str
    key: str
    kind: str
    name: str
    state: StepState
    attempt: int
    verdict: str = ""
    error: ErrorInfo | None = None
    child: str = ""
    begun_at: int = 0
    ended_at: int = 0


class GetJobTrace(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a job."""

    id: str


class JobTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A job's steps in order."""

    job: JobView
    steps: tuple[StepView, ...]


class PendingStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that is not done: what it waits for, in one sentence (`why`), beside the facts."""

    key: str
    kind: str
    name: str
    attempts: int
    why: str
    waits_for: str = ""
    last_failure: str = ""
    since: int = 0


class GetJobWait(msgspec.Struct, frozen=True, kw_only=True):
    """Why does a job wait?"""

    id: str


class JobWait(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job waits, in plain words."""

    job: str
    status: JobStatus
    why: str
    queue: str = ""
    steps: tuple[PendingStep, ...] = ()
    redacted: str = ""


class GetCatalog(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant's agents and flows."""


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """An agent or flow as the catalog lists it."""

    name: str
    title: str = ""
    description: str = ""
    flow: bool = False
    conversations: bool = True
    input_schema: JsonObject | None = None
    output_schema: JsonObject | None = None
    card_schema: JsonObject | None = None
    plugin: str = ""
    definition: str = ""


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """Agents and flows by name."""

    agents: tuple[AgentView, ...]


class SetJobTags(msgspec.Struct, frozen=True, kw_only=True):
    """Add tags to a job and remove others, also after it ended."""

    id: str
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


class PublishEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Tell of an outside event; steps that wait for one of its source, and whose match it has, go on."""

    source: str
    payload: JsonObject = {}


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs an event woke."""

    jobs: tuple[str, ...]


class GetJobBoard(msgspec.Struct, frozen=True, kw_only=True):
    """The board of the tree that a job belongs to."""

    id: str


class NoteView(msgspec.Struct, frozen=True, kw_only=True):
    """A note as callers see it; without the right to read content, `text` and `tags` are left out.

    Parameters:
        id: its number in the tree.
        at: when it was pinned, in milliseconds (Unix).
        supersedes, superseded_by: numbers of other notes, or 0.
    """

    id: int
    kind: str
    job: str
    agent: str
    at: int
    text: str = ""
    tags: tuple[str, ...] = ()
    supersedes: int = 0
    superseded_by: int = 0
    tainted: bool = False
    labels: tuple[str, ...] = ()


class JobBoard(msgspec.Struct, frozen=True, kw_only=True):
    """The notes in the order they were pinned.

    Parameters:
        content: whether their words are shown.
        redacted: the label under which a data rule withholds them, or empty.
    """

    tree: str
    notes: tuple[NoteView, ...]
    content: bool = True
    redacted: str = ""
