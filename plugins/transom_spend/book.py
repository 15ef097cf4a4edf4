"""The book: a tenant's prices, quotas and budgets in memory, so that a job that nothing caps costs no look at the store.

It is read when it is first asked for and after each change, here or in another process. It says which caps concern a
job; what their limits are now is read again inside the transaction that takes from them.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from zoneinfo import ZoneInfo

import anyio
import anyio.to_thread
import msgspec

from transom_hookspecs import Job, Kernel, ModelPrice

from .ledger import Cap
from .money import Meter
from .records import Budget, Price, Quota, What
from .sweep import every, sweep
from .windows import zone_of

TOPIC = "spend"
"""The topic of changes of what is capped and priced."""

SWEEP = 60.0
"""Seconds between two looks at what ended jobs still hold, and at counters whose window is over."""

TREE_CAPS: tuple[What, ...] = ("tokens", "usd")


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant's. `quotas` are by kind and name, `defaults` are budgets by agent (empty for all agents)."""

    tenant: str
    zone_name: str
    zone: ZoneInfo
    prices: Mapping[str, Price]
    quotas: Mapping[tuple[str, str], Sequence[Quota]]
    budgets: Mapping[str, Budget]
    defaults: Mapping[str, str]

    def meter(self, model: str, own: ModelPrice | None) -> Meter:
        """What tokens of a model cost."""
        return Meter(own, self.prices.get(model))

    def default_budget(self, agent: str) -> str:
        """The budget of a job that names none; empty for none."""
        return self.defaults.get(agent) or self.defaults.get("", "")

    def quotas_of(self, job: Job) -> Iterator[Cap]:
        """The quotas that concern a job. One that names the scope stands in for the one for each of its kind."""
        scopes = (
            ("caller", f"{job.caller.kind}:{job.caller.id}"),
            ("team", job.team),
            ("agent", job.agent),
            ("tenant", self.tenant),
        )
        for kind, name in scopes:
            if not name:
                continue
            each = {(q.what, q.window): q for q in self.quotas.get((kind, "*"), ())}
            named = {(q.what, q.window): q for q in self.quotas.get((kind, name), ())}
            for (what, window), quota in (each | named).items():
                yield Cap(kind=kind, name=name, what=what, window=window, rule=quota.name)

    def stand_ins(self, quota: Quota) -> set[str]:
        """Those for whom a quota of their own stands in for one that is for each of its kind."""
        alike = (quota.kind, quota.what, quota.window)
        return {q.name for quotas in self.quotas.values() for q in quotas if (q.kind, q.what, q.window) == alike} - {"*"}

    def budget_of(self, job: Job) -> Iterator[Cap]:
        """The caps of a job's tree."""
        budget = self.budgets.get(job.budget)
        if budget is not None:
            for what in TREE_CAPS:
                if budget.cap(what) is not None:
                    yield Cap(kind="tree", name=job.tree, what=what, window="total", rule=budget.name)


class Books:
    """The books of all tenants.

    Parameters:
        prices: of transom.toml, for every tenant; those that were set stand in for them.
    """

    def __init__(self, prices: Mapping[str, Price]) -> None:
        self._given = prices
        self._books: dict[str, Book] = {}
        self._tenants: set[str] = set()
        self._changed = 0

    @contextmanager
    def open(self, kernel: Kernel) -> Iterator[None]:
        """Serve this kernel. Nothing is read or followed until a book is asked for."""
        with ExitStack() as stack:
            self.kernel, self._stack = kernel, stack
            yield

    async def of(self, tenant: str) -> Book:
        """A tenant's book as it is now."""
        book, zone = self._books.get(tenant), self.kernel.settings(tenant).time_zone
        if book is None or book.zone_name != zone:
            book = await self._read(tenant, zone)
        return book

    def forget(self) -> None:
        """Something changed: what is asked for next is read again."""
        self._changed += 1
        self._books.clear()

    async def _read(self, tenant: str, zone: str) -> Book:
        if not self._tenants:
            self.kernel.spawn(self._look_after, self._stack.enter_context(self.kernel.topic(TOPIC)), name="spend")
        self._tenants.add(tenant)
        seen, store = self._changed, self.kernel.store
        prices, quotas, budgets = (
            await every(store, tenant, Price),
            await every(store, tenant, Quota),
            await every(store, tenant, Budget),
        )
        by_scope: dict[tuple[str, str], list[Quota]] = {}
        for quota in quotas:
            by_scope.setdefault((quota.kind, quota.name), []).append(quota)
        book = Book(
            tenant=tenant,
            zone_name=zone,
            zone=await anyio.to_thread.run_sync(zone_of, zone),
            prices={**self._given, **{price.model: price for price in prices}},
            quotas=by_scope,
            budgets={budget.name: budget for budget in budgets},
            defaults={budget.agent: budget.name for budget in budgets if budget.default and not budget.deleted},
        )
        if seen == self._changed:
            self._books[tenant] = book
        return book

    async def _look_after(self, changed: Callable[[], Awaitable[None]]) -> None:
        while True:
            with anyio.move_on_after(SWEEP):
                await changed()
                self.forget()
                continue
            for tenant in tuple(self._tenants):
                try:
                    await sweep(self.kernel, tenant)
                except Exception as error:  # noqa: BLE001 - it is reported, and the others have their turn
                    self.kernel.report("what ended jobs hold of quotas and budgets", error)
