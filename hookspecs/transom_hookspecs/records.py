"""What the store keeps: how a record is declared, and the kernel's own records.

A record is a frozen Struct; the store makes one table of it. Times are milliseconds (Unix). What is content
(inputs, answers, what steps read and wrote, what people said) stands in records of its own, so that retention
can purge it and leave the facts.
"""

from typing import Literal

import msgspec

from .callers import Caller
from .conversations import Conversation, Item, Run
from .errors import ErrorInfo, TransomError
from .events import Outcome, Rule, WaitKind
from .values import NEVER, Json, JsonObject

JobStatus = Literal["queued", "running", "waiting", "completed", "failed", "cancelled", "timed_out"]
ENDED: frozenset[str] = frozenset(("completed", "failed", "cancelled", "timed_out"))


class Index(msgspec.Struct, frozen=True):
    """A declared order of a record: `Index("recent", ("top", "-created_at", "-id"))`, `-` for descending."""

    name: str
    fields: tuple[str, ...]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """How one Struct is kept.

    Parameters:
        type: a frozen msgspec Struct; its scalar fields become columns, the others JSON text.
        key: the fields that are unique in a tenant.
        indexes: every order that `select` is asked for; each ends in fields that make it unique.
        schema: raised by one when the Struct's fields change; the store then adds the new columns.
        belongs: the fields that say what a row goes with when retention removes a job tree: `("tree",)`, `("job",)`, or
            `("conversation", "job")` for what is kept by conversation. The key or an index begins with the first.
            Empty for what stays.
    """

    type: type[msgspec.Struct]
    key: tuple[str, ...]
    indexes: tuple[Index, ...] = ()
    schema: int = 1
    belongs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a declaration by which nothing could be removed."""
        if not self.belongs:
            return
        known = {"tree", "job", "conversation"} & set(self.type.__struct_fields__)
        if self.belongs[0] not in {fields[0] for fields in (self.key, *(index.fields for index in self.indexes))}:
            why = f"neither its key nor an index begins with {self.belongs[0]!r}"
        elif unknown := set(self.belongs) - known:
            why = f"{min(unknown)!r} is none of its fields tree, job and conversation"
        else:
            return
        raise TransomError("invalid_argument", f"record {self.type.__name__!r}: belongs: {why}")

    @property
    def name(self) -> str:
        """The table's name: the Struct's, in snake case."""
        name = self.type.__name__
        return "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name))


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a job, and how it stands.

    Parameters:
        tree: the ID of the root job; the root's own is its ID.
        top: whether it is a root, for lists.
        definition: the digest of the declared agent, or `version:<v>` of a Python one.
        digest: SHA-256 of the start (agent, input, tags, …), which a retry is compared by.
        id_from: who chose the ID: `edge` (nobody may name it again), `client`, or `key` (an Idempotency-Key).
        token: of this holder of the ID alone: part of every cursor into its log.
        counted: whether it counts in its tree's `active`.
        deadline: when the whole job is over at the latest.
    """

    id: str
    tree: str
    agent: str
    definition: str
    caller: Caller
    status: JobStatus
    created_at: int
    digest: str
    id_from: Literal["edge", "client", "key"]
    token: str
    top: bool = True
    flow: bool = False
    parent: str = ""
    parent_step: str = ""
    depth: int = 0
    counted: bool = True
    conversation: str = ""
    turn: int = 0
    deadline: int = NEVER
    started_at: int = 0
    ended_at: int = 0
    error: ErrorInfo | None = None
    card: bool = False
    tags: tuple[str, ...] = ()
    team: str = ""
    budget: str = ""
    data_subjects: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    taint: tuple[str, ...] = ()
    door: str = ""

    @property
    def ended(self) -> bool:
        """Whether it has its final status."""
        return self.status in ENDED


class JobInput(msgspec.Struct, frozen=True, kw_only=True):
    """What a job was started with."""

    job: str
    value: Json


class JobOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a job answered."""

    job: str
    value: Json


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of a job tree.

    Parameters:
        active: its jobs that are queued or running.
        jobs: its jobs in all.
        waits: its open waits.
        events: its waits for outside events.
        notes: the number of the newest note.
        waiting: whether the log's last word is `tree.waiting`.
    """

    id: str
    active: int = 0
    jobs: int = 0
    waits: int = 0
    events: int = 0
    notes: int = 0
    waiting: bool = False


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """Who advances a job that has not ended, and when it is due. Kept under SYSTEM; gone when the job ends.

    Parameters:
        epoch: raised by each claim; a worker with an older one can write nothing.
        worker: whose job it is now; empty when it is parked and anyone may claim it.
        at: when it is due; NEVER while somebody works on it or nothing is due.
        deaths: how many workers in a row died with it before it had done another step.
        done: how many steps were done when it was claimed last.
    """

    tenant: str
    job: str
    epoch: int = 0
    worker: str = ""
    at: int = NEVER
    deaths: int = 0
    done: int = 0


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """A process that has served on this store. Kept under SYSTEM until its leases were taken over."""

    id: str
    started_at: int


StepState = Literal["waiting", "ready", "begun", "done"]


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step of a job's journal.

    Parameters:
        key: its path: `2`, or `2.1` for the first branch of the second step.
        kind: model, call, delegate, ask, say, note, output, sleep, event, now, random.
        name: the model, function or agent.
        state: waiting (for a person, child, timer or event), ready (may be run now), begun (in flight), done.
        arguments: what it was called with; a replay must ask for the same.
        edited: the arguments that a person put in their place, which are the ones that run.
        verdict: what policy decided, never asked again: `allow`, `ask`, `refuse`, with its reason.
        result: what the agent got; the same on every replay.
        error: what was raised instead.
        fatal: the error ends the job, whatever the agent makes of it.
        until: when a sleep is over, or a wait for an event; 0 when time does not end it.
        call: the call's ID, as the log names it.
        masked: filters changed its arguments, so that a replay need not ask for the very same.
    """

    job: str
    key: str
    kind: str
    name: str
    state: StepState
    attempt: int = 1
    arguments: Json = None
    edited: Json = None
    verdict: str = ""
    result: Json = None
    error: ErrorInfo | None = None
    fatal: bool = False
    until: int = 0
    child: str = ""
    call: str = ""
    masked: bool = False
    begun_at: int = 0
    ended_at: int = 0


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What a job's calls of one model cost so far."""

    tree: str
    job: str
    model: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    micro_usd: int = 0


class Vote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One person's word on a wait."""

    by: str
    approved: bool
    at: int
    via: str = ""
    comment: str = ""


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """Something that waits for a person.

    Parameters:
        token: what an answer must name (`ozi1.…`); its digest covers the full arguments and the rule.
        arguments: the whole arguments that a yes would run.
        shown: what people see of them.
        schema: what an answer must match.
        run: the run whose resume decided it.
    """

    id: str
    job: str
    tree: str
    step: str
    agent: str
    kind: WaitKind
    token: str
    rule: Rule
    opened_at: int
    expires_at: int
    starter: str
    open: bool = True
    message: str = ""
    function: str = ""
    call: str = ""
    arguments: Json = None
    shown: Json = None
    schema: JsonObject = {}
    choices: tuple[str, ...] = ()
    votes: tuple[Vote, ...] = ()
    outcome: Outcome | None = None
    answer: Json = None
    decided_by: str = ""
    decided_via: str = ""
    decided_at: int = 0
    comment: str = ""
    run: str = ""


class EventWait(msgspec.Struct, frozen=True, kw_only=True):
    """A step that waits for an outside event of a source, whose fields match."""

    source: str
    job: str
    step: str
    match: JsonObject
    since: int


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A declared agent or flow, kept by the digest of its document for the jobs that started under it."""

    digest: str
    kind: str
    name: str
    document: JsonObject


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation answered under an Idempotency-Key."""

    principal: str
    key: str
    operation: str
    digest: str
    response: Json
    at: int


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who did what to what, and how it came out."""

    action: str
    caller: str
    door: str
    object: str = ""
    outcome: str = "ok"
    via: str = ""
    at: int = 0
    details: JsonObject = {}


class AuditCursor(msgspec.Struct, frozen=True, kw_only=True):
    """How far a receiver was told of a tenant's audit trail. Kept under SYSTEM."""

    plugin: str
    tenant: str
    number: int


KERNEL_RECORDS: tuple[Record, ...] = (
    Record(
        type=Job,
        key=("id",),
        indexes=(
            Index("recent", ("top", "-created_at", "-id")),
            Index("tree", ("tree", "created_at", "id")),
        ),
    ),
    Record(type=JobInput, key=("job",), belongs=("job",)),
    Record(type=JobOutput, key=("job",), belongs=("job",)),
    Record(type=Tree, key=("id",)),
    Record(
        type=Lease,
        schema=2,
        key=("tenant", "job"),
        indexes=(Index("due", ("worker", "at", "tenant", "job")),),
    ),
    Record(type=Worker, key=("id",), indexes=(Index("all", ("id",)),)),
    Record(type=Step, schema=2, key=("job", "key"), indexes=(Index("job", ("job", "key")),), belongs=("job",)),
    Record(type=Cost, key=("tree", "job", "model"), indexes=(Index("tree", ("tree", "job", "model")),), belongs=("tree",)),
    Record(
        type=Wait,
        key=("id",),
        indexes=(
            Index("open", ("open", "opened_at", "id")),
            Index("tree", ("tree", "open", "opened_at", "id")),
            Index("job", ("job", "open", "opened_at", "id")),
            Index("token", ("token", "id")),
        ),
        belongs=("tree",),
    ),
    Record(
        type=EventWait,
        key=("source", "job", "step"),
        indexes=(Index("source", ("source", "job", "step")), Index("job", ("job", "source", "step"))),
        belongs=("job",),
    ),
    Record(
        type=Run,
        key=("conversation", "run"),
        indexes=(Index("job", ("job", "created_at", "run")),),
        belongs=("conversation", "job"),
    ),
    Record(type=Conversation, key=("id",), indexes=(Index("recent", ("-updated_at", "-id")),)),
    Record(
        type=Item,
        key=("conversation", "number"),
        indexes=(Index("latest", ("conversation", "-number")), Index("id", ("conversation", "id", "number"))),
        belongs=("conversation", "job"),
    ),
    Record(type=Definition, key=("digest",)),
    Record(type=Reply, key=("principal", "key"), indexes=(Index("age", ("at", "principal", "key")),)),
    Record(type=AuditCursor, key=("plugin", "tenant")),
)
