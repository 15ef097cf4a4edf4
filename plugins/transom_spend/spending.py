"""What a start and an attempt of a model call take: the objects that the kernel reserves with in its transactions."""

import math
from collections.abc import Sequence
from zoneinfo import ZoneInfo

import msgspec

from transom_hookspecs import (
    Admission,
    AuditEntry,
    Job,
    JsonObject,
    ModelUse,
    Reservation,
    Spending,
    TokenCount,
    TransomError,
    Tx,
)

from .book import Book, Books
from .ledger import Cap, Standing, counter_at, grant, settle, settle_as_held, take, used_up
from .money import MILLION, Meter, shown
from .records import Counter, Held
from .refusals import refused, with_sight


class StartReservation:
    """Takes one job from each quota of jobs, and refuses where nothing is left to use.

    Parameters:
        budget: the budget that the job's tree gets.
    """

    def __init__(self, caps: Sequence[Cap], budget: Sequence[Cap], zone: ZoneInfo) -> None:
        self._caps, self._budget, self._zone = caps, budget, zone

    def reserve(self, tx: Tx, job: Job) -> Job:
        """See `transom_hookspecs.Reservation`."""
        for cap in self._caps:
            if cap.what == "jobs":
                standing = take(tx, cap, 1, self._zone, hold=False)
                full = standing is not None and standing.over > 0
            else:
                standing = used_up(tx, cap, self._zone)
                full = standing is not None
            if standing is not None and full:
                raise refused(standing, could_wait=False)
        for cap in self._budget:
            key, _ = cap.key(tx.now, self._zone)
            tx.put(counter_at(key, job.deadline))  # goes some time after the tree is over; an ID that was freed begins anew
        return msgspec.structs.replace(job, budget=self._budget[0].rule) if self._budget else job


async def admit(books: Books, admission: Admission) -> Reservation | None:
    """What a start takes; None when nothing concerns it.

    Raises:
        TransomError: not_found for a budget that is not there.
    """
    tenant, job = admission.origin.tenant, admission.job
    book = await books.of(tenant)
    budget: list[Cap] = []
    if admission.parent is None:
        check_budget(book, job.budget)
        job = msgspec.structs.replace(job, budget=job.budget or book.default_budget(job.agent))
        budget = list(book.budget_of(job))
    caps = await with_sight(books.kernel, tenant, job, list(book.quotas_of(job)))
    return StartReservation(caps, budget, book.zone) if caps or budget else None


def check_budget(book: Book, name: str) -> None:
    """Refuse a budget that is not there.

    Raises:
        TransomError: not_found.
    """
    budget = book.budgets.get(name)
    if name and (budget is None or budget.deleted):
        raise TransomError(
            "not_found", f"budget: there is no budget {name!r} in tenant {book.tenant!r}; leave it out, or set it"
        )


class CallSpending:
    """What one attempt of a model call may use; implements `transom_hookspecs.Spending`."""

    def __init__(self, use: ModelUse, caps: Sequence[Cap], meter: Meter, zone: ZoneInfo) -> None:
        self.capped = bool(caps)
        self._use, self._caps, self._meter, self._zone = use, caps, meter, zone
        self._input: int | None = None

    def reserve(self, tx: Tx, *, granted: str = "") -> None:
        """Hold the upper bound of what it uses in every counter."""
        use = self._use
        if tx.get(Held, use.job.id, use.step, use.attempt) is not None:
            return
        left = tx.select(Held, "all", {"job": use.job.id, "step": use.step})
        settle_as_held(tx, left)
        most = self._most()
        held = Held(
            job=use.job.id,
            step=use.step,
            attempt=use.attempt,
            tokens=most.input_tokens + most.output_tokens,
            micro_usd=_micro(most),
            counters=(),
        )
        taken = [take(tx, cap, amount, self._zone, hold=True) for cap in self._caps if (amount := held.amount(cap.what))]
        self._make_room(tx, [standing for standing in taken if standing is not None and standing.over], held, granted)
        counters = tuple(_key(standing.counter) for standing in taken if standing is not None)
        tx.put(msgspec.structs.replace(held, counters=counters, granted=bool(granted)))

    def _make_room(self, tx: Tx, full: Sequence[Standing], held: Held, granted: str) -> None:
        """Refuse where there is no room, unless somebody granted what is missing."""
        final = [standing for standing in full if standing.policy == "refuse"]
        if final or (full and not granted):
            raise refused((final or full)[0], could_wait=not final)
        for standing in full:
            grant(tx, standing, held, granted)
            cap = standing.cap
            scope: JsonObject = {"kind": cap.kind, "name": cap.name, "what": cap.what, "window": cap.window}
            details = {**scope, "amount": shown(standing.over, cap.what), "step": held.step, "attempt": held.attempt}
            tx.audit(AuditEntry(action="budget.extend", caller=granted, door="runtime", object=held.job, details=details))
            tx.touch("audit")

    def settle(self, tx: Tx, usage: TokenCount | None) -> None:
        """Charge what was used; all that is held, when nobody knows."""
        held = tx.get(Held, self._use.job.id, self._use.step, self._use.attempt)
        if held is None:
            return  # it was settled as it was held, because its job had ended
        if usage is None:
            settle_as_held(tx, [held])
        else:
            settle(tx, held, usage.input_tokens + usage.output_tokens, _micro(usage))

    def priced(self, usage: TokenCount) -> TokenCount:
        """The usage with its cost; a provider that reports nothing at all is taken to have used the upper bound."""
        usage = sound(usage)
        if not (usage.input_tokens or usage.output_tokens or usage.usd):
            return self._most()
        if usage.usd or not self._meter.known:
            return usage
        return msgspec.structs.replace(usage, usd=self._meter.cost(usage) / MILLION)

    def count(self) -> None:
        """Count the input now, while the call's own task runs; a transaction runs on the store's thread."""
        self._input = max(0, self._use.count())

    def _most(self) -> TokenCount:
        """The upper bound of what it uses."""
        if self._input is None:
            self.count()
        assert self._input is not None
        output = self._use.max_tokens
        usd = self._meter.most(self._input, output) / MILLION
        return TokenCount(input_tokens=self._input, output_tokens=output, usd=usd, estimated=True)


async def before_model(books: Books, use: ModelUse) -> Spending | None:
    """What an attempt of a model call may use; None when nothing caps it and no price was set for it.

    Raises:
        TransomError: failed_precondition when money is capped and nobody knows what the model costs.
    """
    book = await books.of(use.tenant)
    caps = [cap for cap in book.quotas_of(use.job) if cap.what != "jobs"] + list(book.budget_of(use.job))
    meter = book.meter(use.model, use.price)
    if not caps:
        return CallSpending(use, (), meter, book.zone) if use.model in book.prices else None
    check_priced(use.model, caps, meter)
    spending = CallSpending(use, await with_sight(books.kernel, use.tenant, use.job, caps), meter, book.zone)
    spending.count()
    return spending


def check_priced(model: str, caps: Sequence[Cap], meter: Meter) -> None:
    """Refuse a call that would be free in silence.

    Raises:
        TransomError: failed_precondition.
    """
    capped = next((cap for cap in caps if cap.what == "usd"), None)
    if capped is not None and not meter.known:
        whose = f"budget {capped.rule!r}" if capped.is_budget else f"a quota of the {capped.kind}"
        raise TransomError(
            "failed_precondition",
            f"model {model!r} has no price, and {whose} caps money; an admin sets one (transom price set), 0 for a free model",
            {"reason": "no_price", "model": model},
        )


def sound(usage: TokenCount) -> TokenCount:
    """The usage without what is no amount: a provider that reports less than nothing has reported nothing."""
    return msgspec.structs.replace(
        usage,
        input_tokens=max(0, usage.input_tokens),
        output_tokens=max(0, usage.output_tokens),
        cached_tokens=max(0, usage.cached_tokens),
        usd=usage.usd if math.isfinite(usage.usd) and usage.usd > 0 else 0.0,
    )


def _micro(usage: TokenCount) -> int:
    return round(usage.usd * MILLION)


def _key(counter: Counter) -> tuple[str, str, str, str, int]:
    return (counter.kind, counter.name, counter.what, counter.window, counter.start)


__all__ = ["CallSpending", "StartReservation", "admit", "before_model"]
