"""The counters: caps that concern a job, taking from them, settling, and granting more. All inside a transaction.

`taken` of a counter is raised and read in one step, so that two workers never both get the last of a cap; whoever finds
it past the cap raises, and the transaction is undone.
"""

from collections.abc import Sequence
from zoneinfo import ZoneInfo

import msgspec

from transom_hookspecs import Tx

from .records import Budget, Counter, CounterKey, Extension, Held, Policy, Quota, What, Window
from .windows import window_of


class Cap(msgspec.Struct, frozen=True, kw_only=True):
    """A cap that concerns a job.

    Parameters:
        kind, name: whose counter it is.
        rule: the quota's own name (`*` for each), or the budget's.
        seen: whether the job's caller may read its figures.
    """

    kind: str
    name: str
    what: What
    window: Window
    rule: str
    seen: bool = True

    @property
    def is_budget(self) -> bool:
        """Whether it is a tree's."""
        return self.kind == "tree"

    def now(self, tx: Tx) -> tuple[int, Policy] | None:
        """Its limit and policy as they are now; None when it was taken away."""
        if self.is_budget:
            budget = tx.get(Budget, self.rule)
            limit = budget.cap(self.what) if budget else None
            return None if budget is None or limit is None else (limit, budget.policy)
        quota = tx.get(Quota, self.kind, self.rule, self.what, self.window)
        return (quota.limit, quota.policy) if quota else None

    def key(self, now: int, zone: ZoneInfo) -> tuple[CounterKey, int]:
        """Its counter in the window that a time is in, and the window's end."""
        start, end = window_of(self.window, now, zone)
        return (self.kind, self.name, self.what, self.window, start), end


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A cap and its counter, as they are with what was asked for.

    Parameters:
        limit: with what was granted on top of it.
        amount: what was asked for; `counter` has it already.
    """

    cap: Cap
    counter: Counter
    limit: int
    policy: Policy
    amount: int

    @property
    def over(self) -> int:
        """By how much it is past its limit."""
        return max(0, self.counter.taken - self.limit)


def take(tx: Tx, cap: Cap, amount: int, zone: ZoneInfo, *, hold: bool) -> Standing | None:
    """Take from a cap, whether or not there is room; None when nobody caps it any more.

    Parameters:
        hold: only reserved, to be settled later.
    """
    now = cap.now(tx)
    if now is None:
        return None
    key, end = cap.key(tx.now, zone)
    if tx.get(Counter, *key) is None:
        tx.insert(counter_at(key, end))
    tx.add(Counter, key, "taken", amount)
    if hold:
        tx.add(Counter, key, "reserved", amount)
    counter = tx.get(Counter, *key)
    assert counter is not None
    limit, policy = now
    return Standing(cap=cap, counter=counter, limit=limit + counter.extra, policy=policy, amount=amount)


def used_up(tx: Tx, cap: Cap, zone: ZoneInfo) -> Standing | None:
    """A cap whose limit is reached by what was used, so that nothing that needs some of it could be done; else None."""
    now = cap.now(tx)
    if now is None or now[1] == "wait":
        return None
    key, end = cap.key(tx.now, zone)
    counter = tx.get(Counter, *key) or counter_at(key, end)
    limit = now[0] + counter.extra
    return Standing(cap=cap, counter=counter, limit=limit, policy=now[1], amount=0) if counter.used >= limit else None


def grant(tx: Tx, standing: Standing, held: Held, by: str) -> None:
    """Raise a cap, in its present window, by what it is short of."""
    counter = standing.counter
    key: CounterKey = (counter.kind, counter.name, counter.what, counter.window, counter.start)
    tx.add(Counter, key, "extra", standing.over)
    tx.put(
        Extension(
            job=held.job,
            step=held.step,
            attempt=held.attempt,
            kind=counter.kind,
            name=counter.name,
            what=counter.what,
            window=counter.window,
            amount=standing.over,
            by=by,
            at=tx.now,
        )
    )


def settle(tx: Tx, held: Held, tokens: int, micro_usd: int) -> None:
    """Charge what was used in the counters that hold it, whichever window it is by now, and let go of the rest."""
    for key in held.counters:
        if tx.get(Counter, *key) is None:
            continue  # its window was over long ago
        reserved = held.amount(key[2])
        used = tokens if key[2] == "tokens" else micro_usd
        tx.add(Counter, key, "taken", used - reserved)
        tx.add(Counter, key, "reserved", -reserved)
        if used > reserved:
            tx.add(Counter, key, "excess", used - reserved)
        elif held.granted:
            _give_back(tx, held, key, reserved - used)
    tx.delete(Held, held.job, held.step, held.attempt)


def _give_back(tx: Tx, held: Held, key: CounterKey, unused: int) -> None:
    """Lower a cap that was raised for a call by what the call did not need after all."""
    extension = tx.get(Extension, held.job, held.step, held.attempt, *key[:4])
    if extension is not None:
        tx.add(Counter, key, "extra", -min(extension.amount, unused))


def settle_as_held(tx: Tx, holds: Sequence[Held]) -> None:
    """Charge all that is held, where nobody will ever know what was used."""
    for held in holds:
        settle(tx, held, held.tokens, held.micro_usd)


def counter_at(key: CounterKey, ends_at: int) -> Counter:
    """A counter that counted nothing yet."""
    kind, name, what, window, start = key
    tree = name if kind == "tree" else ""
    return Counter(kind=kind, name=name, what=what, window=window, start=start, ends_at=ends_at, tree=tree)
