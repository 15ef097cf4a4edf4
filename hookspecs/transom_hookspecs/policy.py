"""The identity and policy family: deciding hooks. A hook that raises denies."""

from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from .callers import Caller, Origin
from .doors import RequestHead
from .events import Rule
from .markers import hookspec
from .models import ModelPrice, TokenCount
from .records import Job
from .stores import Tx
from .values import Json, JsonObject

Ruling = Literal["allow", "ask", "deny"]
"""From the mildest to the strictest; the strictest answer holds."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One plugin's answer.

    Parameters:
        reason: why, in words.
        rule: under which a person must agree, for `ask`.
        by: which rule decided, for programs (`role:member`, `scope`, `wall:<name>`, `kill-switch`, …).
        label: what withheld content is marked with, when a data rule withholds it.
    """

    ruling: Ruling
    reason: str = ""
    rule: Rule | None = None
    by: str = ""
    label: str = ""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """May this caller do this, here, to that?

    Parameters:
        permission: of the table of operations (`jobs.start`, `jobs.read`, `jobs.decide`, `content.read`, …).
            `jobs.continue` is asked of a job's caller before each of its steps that has an effect.
        object: what it is about: an agent's name (`jobs.start`, `jobs.continue`), a job's ID, a conversation's.
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
        job: the job that makes it, with the taint that it has by now.
        sends_out: whether the function can send data out.
        rule: the function's own, when it asks a person whatever policy says.
    """

    tenant: str
    job: Job
    function: str
    arguments: JsonObject
    sends_out: bool
    rule: Rule | None = None


class ModelUse(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of a model call that is about to be made.

    Parameters:
        job: the job that makes it.
        step, attempt: which of its steps, and the how-manieth try; together with the job they name the attempt.
        count: gives an upper bound of the input's tokens; called only by who needs it, as it reads the whole prompt.
        max_tokens: the upper bound of output tokens.
        price: the model's own, when it knows it.
    """

    tenant: str
    job: Job
    step: str
    attempt: int
    model: str
    count: Callable[[], int]
    max_tokens: int
    price: ModelPrice | None = None


class Spending(Protocol):
    """What one attempt of a model call may use, held until it is known what it did use."""

    capped: bool
    """Whether anything caps it; else nothing is reserved or settled, and only `priced` is asked."""

    def reserve(self, tx: Tx, *, granted: str = "") -> None:
        """Hold all that the attempt may use; an attempt that is held already stays as it is.

        What earlier attempts of the step still hold is settled as it was reserved: a crash left it.

        Parameters:
            granted: who said yes to raising the caps that could wait by what is missing; empty when nobody did.

        Raises:
            TransomError: the refusal, with a `Refusal` as its details; the transaction is undone.
        """

    def settle(self, tx: Tx, usage: TokenCount | None) -> None:
        """Charge what was used and free the rest; None: nobody knows, so all that is held is charged."""

    def priced(self, usage: TokenCount) -> TokenCount:
        """The usage with what the provider left out: what it cost, or all of it."""


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

    @hookspec
    async def before_model(self, use: ModelUse) -> Spending | None:
        """What may this attempt of a model call use? All answers hold; None when nothing caps or prices it.

        Raises:
            TransomError: why it may not be made.
        """
