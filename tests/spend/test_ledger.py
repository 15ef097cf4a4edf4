"""No interleaving of reservations, settlements, cuts and crashes passes a cap, on any store."""

from contextlib import asynccontextmanager
from zoneinfo import ZoneInfo

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transom_hookspecs import Caller, Job, ModelUse, TokenCount, TransomError
from transom_spend.book import TREE_CAPS
from transom_spend.ledger import Cap, settle_as_held
from transom_spend.money import Meter, price_of
from transom_spend.records import RECORDS, Budget, Counter, Held, Quota
from transom_spend.spending import CallSpending
from transom_sqlite import SqliteStore
from transom_testing.memory_store import MemoryStore

pytestmark = [pytest.mark.anyio, pytest.mark.req("IDN-4")]

PARIS = ZoneInfo("Europe/Paris")
MIDNIGHT = 1_806_188_400_000
"""The midnight before the night in which Paris changes its clocks (2027-03-28T00:00+01:00)."""

JOBS = 10
CAPS = [
    Cap(kind="caller", name="person:anna", what="tokens", window="day", rule="*"),
    Cap(kind="tenant", name="default", what="usd", window="day", rule="default"),
    Cap(kind="tenant", name="default", what="tokens", window="hour", rule="default"),
    *(Cap(kind="tree", name="tree", what=what, window="total", rule="b") for what in TREE_CAPS),
]
METER = Meter(None, price_of("m", 10_000.0, 10_000.0, None))


def spending(job: int, attempt: int, tokens: int) -> CallSpending:
    """What an attempt of a job's one step may use."""
    facts = Job(
        id=f"job{job}",
        tree="tree",
        agent="a",
        definition="",
        caller=Caller(kind="person", id="anna"),
        status="running",
        created_at=0,
        digest="",
        id_from="edge",
        token="",
        budget="b",
    )
    use = ModelUse(tenant="default", job=facts, step="1", attempt=attempt, model="m", count=lambda: tokens, max_tokens=0)
    made = CallSpending(use, CAPS, METER, PARIS)
    made.count()
    return made


class World:
    """Counters on a store, attempts in flight, and what should be true of them."""

    def __init__(self, store) -> None:
        self.store = store
        self.attempts = [0] * JOBS
        self.flying: dict[int, CallSpending] = {}
        self.now = MIDNIGHT

    async def setup(self, limits: list[int], policy: str) -> None:
        def write(tx):
            tx.put(Quota(kind="caller", name="*", what="tokens", window="day", limit=limits[0], policy=policy))
            tx.put(Quota(kind="tenant", name="default", what="usd", window="day", limit=limits[1] * 10_000, policy=policy))
            tx.put(Quota(kind="tenant", name="default", what="tokens", window="hour", limit=limits[2], policy=policy))
            tx.put(Budget(name="b", micro_usd=limits[3] * 10_000, tokens=limits[4], policy=policy))

        await self.store.transact("default", write)

    async def reserve(self, job: int, tokens: int, granted: str) -> None:
        self.attempts[job] += 1
        made = spending(job, self.attempts[job], tokens)

        def write(tx):
            made.reserve(tx, granted=granted)
            made.reserve(tx, granted=granted)  # the same attempt again, by a replay or by another worker

        try:
            await self.store.transact("default", write)
            self.flying[job] = made
        except TransomError as error:
            assert error.details["type"] in ("oz0_quota_exceeded", "oz0_budget_exceeded")  # noqa: PT017
            self.flying.pop(job, None)

    async def settle(self, job: int, used: int | None) -> None:
        made = self.flying.pop(job, None)
        if made is None:
            return
        usage = None if used is None else TokenCount(input_tokens=used, usd=used / 100)
        await self.store.transact("default", lambda tx: made.settle(tx, usage))
        await self.store.transact("default", lambda tx: made.settle(tx, usage))  # told twice, it is charged once

    async def end(self, job: int) -> None:
        """The job ended: what it holds is settled as it was held, whoever comes later."""

        def write(tx):
            settle_as_held(tx, tx.select(Held, "all", {"job": f"job{job}"}))

        await self.store.transact("default", write)

    async def play(self, plan, *, check: bool = False) -> None:
        for step, *arguments in plan:
            if step == "time":
                self.now += arguments[0]
            elif step == "crash":
                self.flying.pop(arguments[0], None)  # what it held stays until its next attempt or its end
            else:
                await getattr(self, step)(*arguments)
            if check:
                await self.check()

    async def check(self) -> None:
        """used + reserved is within the cap, but for what was granted and what providers reported above the bound."""
        held = await self.store.select("default", Held, "all", limit=1000)
        for counter in await self.store.select("default", Counter, "over", limit=1000):
            cap = next(c for c in CAPS if (c.kind, c.what, c.window) == (counter.kind, counter.what, counter.window))
            limit, _ = await self.store.transact("default", cap.now)
            key = (counter.kind, counter.name, counter.what, counter.window, counter.start)
            assert counter.reserved == sum(h.amount(counter.what) for h in held if key in h.counters)
            assert counter.used >= 0
            assert counter.taken <= limit + counter.extra + counter.excess


jobs = st.integers(0, JOBS - 1)
amounts = st.integers(0, 60)
steps = st.one_of(
    st.tuples(st.just("reserve"), jobs, amounts, st.sampled_from(["", "", "person:ada"])),
    st.tuples(st.just("settle"), jobs, st.one_of(st.none(), amounts)),
    st.tuples(st.just("crash"), jobs),
    st.tuples(st.just("end"), jobs),
    st.tuples(st.just("time"), st.integers(0, 40_000_000)),
)


@asynccontextmanager
async def opened(kind: str, folder):
    store = MemoryStore() if kind == "memory" else SqliteStore()
    world = World(store)
    store.clock, store.data = lambda: world.now, str(folder)
    async with store.open(list(RECORDS)):
        yield world


@given(
    plan=st.lists(steps, max_size=60),
    limits=st.lists(st.integers(0, 200), min_size=5, max_size=5),
    policy=st.sampled_from(["refuse", "wait"]),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_sequence_passes_a_cap(tmp_path, plan, limits, policy):
    async def run():
        async with opened("memory", tmp_path) as world:
            await world.setup(limits, policy)
            await world.play(plan, check=True)

    anyio.run(run)


@given(
    plans=st.lists(st.lists(steps, max_size=6), min_size=50, max_size=50),
    limits=st.lists(st.integers(50, 1000), min_size=5, max_size=5),
)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_no_interleaving_of_fifty_at_once_passes_a_cap(tmp_path_factory, kind, plans, limits):
    async def run():
        async with opened(kind, tmp_path_factory.mktemp("store")) as world:
            await world.setup(limits, "refuse")
            async with anyio.create_task_group() as group:
                for plan in plans:
                    group.start_soon(world.play, plan)
            await world.check()

    anyio.run(run)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_hundred_calls_at_once_get_what_fits_and_no_more(tmp_path, kind):
    async with opened(kind, tmp_path) as world:
        await world.setup([1_000_000, 1_000_000, 1_000_000, 1_000_000, 1_234], "refuse")
        made = [spending(i, 1, 100) for i in range(100)]
        fitted, refused = [], []

        async def one(each):
            try:
                await world.store.transact("default", each.reserve)
                fitted.append(each)
            except TransomError as error:
                refused.append(error.details["what"])

        async with anyio.create_task_group() as group:
            for each in made:
                group.start_soon(one, each)
        assert (len(fitted), refused) == (12, ["tokens"] * 88)
        await world.check()


@pytest.mark.parametrize(("over", "day"), [(23 * 3_600_000 - 1, "same"), (23 * 3_600_000, "next")])
async def test_the_day_on_which_clocks_change_has_23_hours(tmp_path, over, day):
    async with opened("memory", tmp_path) as world:
        await world.setup([100, 10_000, 10_000, 10_000, 10_000], "refuse")
        await world.reserve(0, 100, "")
        await world.settle(0, 100)
        world.now += over
        await world.reserve(1, 1, "")
        assert (1 in world.flying) is (day == "next")
