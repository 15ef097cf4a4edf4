"""What the plugin keeps: prices, quotas and budgets as they were set; counters, what is held, and what was granted.

Money is in micro-USD, times are milliseconds (Unix). A counter is one row for each scope, thing and window, so that a
check costs the same however long the history is.
"""

from typing import Literal

import msgspec

from transom_hookspecs import Index, Record

Kind = Literal["caller", "team", "agent", "tenant"]
What = Literal["jobs", "tokens", "usd"]
Window = Literal["minute", "hour", "day", "week", "month", "total"]
Policy = Literal["refuse", "wait"]

CounterKey = tuple[str, str, str, str, int]
"""Kind, name, what, window and the window's start."""


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """A model's price, in micro-USD for a million tokens."""

    model: str
    input: int
    output: int
    cached: int


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """How much of something a scope may use in a window.

    Parameters:
        name: whose; `*` is each of its kind for itself.
        limit: jobs, tokens or micro-USD.
        policy: what becomes of a model call that finds no room.
    """

    kind: Kind
    name: str
    what: What
    window: Window
    limit: int
    policy: Policy


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """What a job and all that it delegates to may use together.

    Parameters:
        micro_usd, tokens: the caps; None caps nothing.
        agent: the agent whose jobs get it when none is named, or empty for all agents; only of a default.
        default: whether jobs get it that name none.
        deleted: no new job gets it; those that have it are held to it.
    """

    name: str
    micro_usd: int | None
    tokens: int | None
    policy: Policy
    agent: str = ""
    default: bool = False
    deleted: bool = False

    def cap(self, what: str) -> int | None:
        """Its cap of tokens or money."""
        return self.tokens if what == "tokens" else self.micro_usd


class Counter(msgspec.Struct, frozen=True, kw_only=True):
    """What a scope, or a job tree (kind `tree`), has used and holds in a window.

    Parameters:
        start, ends_at: of the window; NEVER when it does not end.
        taken: all that counts against the cap: used and reserved.
        reserved: what of it is held for calls in flight.
        extra: what was granted on top of the cap.
        excess: what of the used was above its reservation, because a provider reported more than the upper bound.
        tree: the job tree that it is of, with which it is removed; empty for a scope.
    """

    kind: str
    name: str
    what: str
    window: str
    start: int
    ends_at: int
    tree: str = ""
    taken: int = 0
    reserved: int = 0
    extra: int = 0
    excess: int = 0

    @property
    def used(self) -> int:
        """What was settled."""
        return self.taken - self.reserved


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt of a model call holds until it is settled, and in which counters.

    Parameters:
        granted: somebody raised caps for it, see `Extension`.
    """

    job: str
    step: str
    attempt: int
    tokens: int
    micro_usd: int
    counters: tuple[CounterKey, ...]
    granted: bool = False

    def amount(self, what: str) -> int:
        """How much of it is tokens, or money."""
        return self.tokens if what == "tokens" else self.micro_usd


class Extension(msgspec.Struct, frozen=True, kw_only=True):
    """That somebody raised a cap for one call: by how much, and where. What the call did not need of it is given back."""

    job: str
    step: str
    attempt: int
    kind: str
    name: str
    what: str
    window: str
    amount: int
    by: str
    at: int


RECORDS: tuple[Record, ...] = (
    Record(type=Price, key=("model",), indexes=(Index("all", ("model",)),)),
    Record(
        type=Quota,
        key=("kind", "name", "what", "window"),
        indexes=(Index("all", ("kind", "name", "what", "window")),),
    ),
    Record(type=Budget, key=("name",), indexes=(Index("all", ("name",)),)),
    Record(
        type=Counter,
        key=("kind", "name", "what", "window", "start"),
        indexes=(
            Index("most", ("kind", "what", "window", "start", "-taken", "name")),
            Index("over", ("ends_at", "kind", "name", "what", "window", "start")),
            Index("tree", ("tree", "kind", "name", "what", "window", "start")),
        ),
        schema=2,
        belongs=("tree",),
    ),
    Record(type=Held, key=("job", "step", "attempt"), indexes=(Index("all", ("job", "step", "attempt")),), belongs=("job",)),
    Record(type=Extension, key=("job", "step", "attempt", "kind", "name", "what", "window"), belongs=("job",)),
)
