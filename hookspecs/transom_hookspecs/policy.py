"""The identity and policy family: deciding hooks. A hook that raises denies."""

from typing import Literal, Protocol

import msgspec

from .callers import Caller, Origin
from .doors import RequestHead
from .events import Rule
from .markers import hookspec
from .records import Job
from .stores import Tx
from .values import Json, JsonObject

Ruling = Literal["allow", "ask", "deny"]
"""From the mildest to the strictest; the strictest answer holds."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One plugin's answer. `rule`: under which a person must agree, for `ask`."""

    ruling: Ruling
    reason: str = ""
    rule: Rule | None = None


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """May this caller do this, here, to that?

    Parameters:
        permission: of the table of operations (`jobs.start`, `jobs.read`, `jobs.decide`, `content.read`, …).
        object: what it is about: an agent's name, a job's ID, a conversation's.
        job: the job, when it is about one.
        rule: the wait's rule, when it is about deciding one.
        parent: the job that delegates, when an agent starts another one on its caller's behalf.
    """

    caller: Caller
    tenant: str
    permission: str
    object: str = ""
    job: Job | None = None
    rule: Rule | None = None
    parent: Job | None = None


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """A start that passed every other check and is about to be committed."""

    origin: Origin
    job: Job
    input: Json
    parent: Job | None = None


class Reservation(Protocol):
    """What `admit` holds for a start; `reserve` runs inside the start's transaction."""

    def reserve(self, tx: Tx, job: Job) -> Job:
        """Take what the start needs and return the job (perhaps with taint or labels added).

        Raises:
            TransomError: why it may not start; the whole transaction is undone.
        """


class ToolUse(msgspec.Struct, frozen=True, kw_only=True):
    """A call that is about to be made.

    Parameters:
        sends_out: whether the function can send data out.
    """

    tenant: str
    job: Job
    function: str
    arguments: JsonObject
    sends_out: bool


class PolicyHooks:
    """Deciding hooks: async or plain."""

    @hookspec
    async def authenticate(self, head: RequestHead) -> Caller | None:
        """Who sends this request? The first answer counts; None when it carries nothing this plugin knows.

        Raises:
            TransomError: unauthenticated, when it carries a credential of this plugin's that is not good.
        """

    @hookspec
    async def authorize(self, access: Access) -> Verdict | None:
        """May the caller? The strictest answer counts; with none, only an operator may."""

    @hookspec
    async def admit(self, admission: Admission) -> Reservation | None:
        """May the job start now (quota, budget, limits)? What must hold at commit goes into the reservation.

        Raises:
            TransomError: the refusal.
        """

    @hookspec
    async def before_tool(self, use: ToolUse) -> Verdict | None:
        """May this call be made: allow, ask a person, deny? The strictest answer counts and is recorded."""
