"""What a run's encoder knows beside the log: facts of the request, kept with the run so that its stream can be made again.

What policy says of a wait or a job is asked before the log event that needs it reaches the encoder, and given to it as
plain answers (`Facts`).
"""

from typing import Protocol

import msgspec

from transom_hookspecs import JsonObject


class Resumed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How one entry of a resume was taken.

    Parameters:
        interrupt: its ID as the client sent it.
        outcome: `decided` by this resume, `already_decided`, or `acknowledged` (a vote, or what an entry cannot decide).
        approved: for a decision that this resume made.
    """

    interrupt: str
    wait: str
    outcome: str
    approved: bool | None = None


class View(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request's view of a turn.

    Parameters:
        thread, run: the client's IDs, as it sent them.
        job: the turn's; it is the root of its tree.
        start: the seq that the run begins after.
        tenant: for links.
        caller: `person:anna`; `person` whether it is one.
        protocol: the version that the client named; empty for one from before 1.0.
        label: what the tenant's AI answers are marked with, without brackets; empty when turned off.
        console: where people reach the console; empty when there is none.
        wait_seconds: the tenant's deadline of a wait.
        board: whether the caller may read the content of the whole tree.
        decided: waits that were over when the client asked: a stop for them ends nothing.
        resumed: how the entries of this run's resume were taken.
    """

    thread: str
    run: str
    job: str
    start: int = 0
    tenant: str = "default"
    caller: str = ""
    person: bool = False
    protocol: str = ""
    label: str = ""
    console: str = ""
    wait_seconds: int = 86_400
    board: bool = False
    decided: tuple[str, ...] = ()
    resumed: tuple[Resumed, ...] = ()

    @property
    def mark(self) -> str:
        """What a message's first content begins with."""
        return f"[{self.label}] " if self.label else ""


class Facts(Protocol):
    """What policy says, asked before it is needed."""

    def sees(self, job: str) -> bool:
        """Whether the caller may see the content of a job of the tree."""

    def answers(self, wait: str) -> bool:
        """Whether a yes of the caller's to this wait would count; for a caller that is no person, whether it waits at all."""

    def hidden(self, job: str) -> str:
        """The label under which a job's content is withheld from the caller."""


Messages = tuple[JsonObject, ...]
"""Messages as the client sent them, or as it is to have them."""
