"""What operations about waits take and give: what waits, and how people decide it."""

import msgspec

from .events import Rule, WaitKind
from .records import Vote
from .values import Json, JsonObject


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A run record to write with a start or with decisions; see `records.Run`."""

    conversation: str
    run: str
    view: JsonObject = {}


class WaitView(msgspec.Struct, frozen=True, kw_only=True):
    """An open wait as people see it.

    Parameters:
        can_decide: whether a yes of this caller's would count.
        starter, votes: without names where lists name nobody but the caller.
        redacted: the label under which a data rule withholds what waits, or empty.
        outcome: how it came out, when it is open no more.
    """

    id: str
    tenant: str
    job: str
    tree: str
    agent: str
    kind: WaitKind
    token: str
    message: str
    opened_at: int
    expires_at: int
    rule: Rule
    can_decide: bool
    starter: str = ""
    function: str = ""
    call: str = ""
    shown: Json = None
    schema: JsonObject = {}
    choices: tuple[str, ...] = ()
    votes: tuple[Vote, ...] = ()
    redacted: str = ""
    open: bool = True
    outcome: str = ""


class ListApprovals(msgspec.Struct, frozen=True, kw_only=True):
    """What waits for a person in running jobs, oldest first; `job` narrows, `tree` adds what it delegated to.

    `limit` 1 to 200; `cursor` from the last page.
    """

    job: str = ""
    tree: bool = False
    limit: int = 200
    cursor: str = ""


class WaitPage(msgspec.Struct, frozen=True, kw_only=True):
    """Open waits. A page may have fewer than asked for, or none, and a cursor: there may be more after it."""

    waits: tuple[WaitView, ...]
    cursor: str = ""


class DecideApproval(msgspec.Struct, frozen=True, kw_only=True):
    """Decide a wait.

    Parameters:
        wait: its ID, or its token.
        approved: yes or no; a question is declined by no.
        answer: the answer to a question, or what a wait's schema asks for.
        confirm: the typed value, where the rule asks for one.
        token: what was shown; when given, a wait that changed since is refused.
        run: the run whose resume decides.
    """

    wait: str
    approved: bool | None = None
    answer: Json = None
    comment: str = ""
    confirm: str = ""
    token: str = ""
    run: str = ""


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """How a decision came out: `decided` by it, `already_decided`, or `acknowledged` (a vote; others are needed).

    Parameters:
        by: who decided; `system:recheck` when a late yes was no longer permitted and became a no, for a `reason`.
    """

    wait: str
    job: str
    result: str
    outcome: str = ""
    by: str = ""
    reason: str = ""


class DecideTogether(msgspec.Struct, frozen=True, kw_only=True):
    """Decide several waits of one tree: every check runs for every decision before any is made, and all are made or none.

    A yes that comes late and is no longer permitted is the one exception: it is denied, and nothing else is decided.

    Parameters:
        tree: the tree that they wait in.
        edits: arguments to put in their place before a yes, by wait, as `EditWait` does.
        run: a run record to write with them.
        start: the seq after which the run's events come; -1 for what the decisions themselves add.
    """

    tree: str
    decisions: tuple[DecideApproval, ...] = ()
    edits: dict[str, JsonObject] = {}
    run: RunRequest | None = None
    start: int = -1


class DecidedTogether(msgspec.Struct, frozen=True, kw_only=True):
    """How each came out, in their order; a wait that was over by then is `already_decided`. `start`: the run's."""

    results: tuple[Decided, ...]
    start: int


class GetWait(msgspec.Struct, frozen=True, kw_only=True):
    """A wait, open or over, by its ID or its token."""

    wait: str


class EditWait(msgspec.Struct, frozen=True, kw_only=True):
    """Change the arguments that wait for approval; votes are cleared and the token changes."""

    wait: str
    arguments: JsonObject
