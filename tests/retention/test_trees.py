"""Job trees past their time: all of them goes, nothing else does, and the ID is free for another."""

import anyio
import msgspec
import pytest
from job_kit import ended, hooks_plugin, open_waits, resting, start
from kernel_kit import OPERATOR, CrashingStore, crashing_plugin
from retention_kit import WORD, Home, tenants_plugin

from transom_hookspecs import (
    KERNEL_RECORDS,
    Conversation,
    DecideApproval,
    Index,
    Item,
    Job,
    Lease,
    PublishEvent,
    Record,
    Reply,
    Run,
    RunRequest,
    StoreUnavailable,
    TransomError,
    Tree,
    WatchJob,
)
from transom_retention import trees
from transom_spend.records import Counter
from transom_spend.requests import SetBudget
from transom_sqlite.tx import SqliteTx

pytestmark = pytest.mark.anyio
FACTS = ("audit", "audit_chain", "audit_details")
"""What is kept longer: who started what, without a word of it."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What another plugin keeps of a job."""

    job: str
    word: str


MARKS = hooks_plugin(register_records=lambda: [Record(type=Mark, key=("job",), belongs=("job",))])


@pytest.mark.req("RT-11")
async def test_everything_of_an_old_tree_goes_and_is_in_no_byte_of_the_files(house):
    """Inputs, answers, steps, notes, waits, costs, the log, runs, items, and what other plugins keep of it."""
    async with house(plugins=[MARKS]) as home:
        run = RunRequest(conversation="c1", run="r1", view={"word": WORD})
        await home.ran("leaves_traces", "j1", input=f"{WORD} in", conversation="c1", run=run, tags=(WORD,))
        await start(home.kernel, "asks", "j2", input="")
        (wait,) = await open_waits(home.kernel, "j2")
        await home.kernel.call("DecideApproval", DecideApproval(wait=wait.id, answer=WORD), OPERATOR)
        await ended(home.kernel, "j2")
        await home.kernel.store.transact("default", lambda tx: tx.put(Mark(job="j1", word=WORD)))
        there = await home.rows(WORD)
        assert {"job", "job_input", "job_output", "step", "event", "note", "wait", "run", "item", "mark"} <= there
        home.days(91)
        done = await home.sweep()
        assert (done.trees, done.jobs) == (2, 3)
        assert await home.rows(WORD) == set()
        assert await home.rows("j1", leave_out=FACTS) == set()
        assert await home.bytes_with(WORD) == set()
        assert await home.gone("j1")


@pytest.mark.req("RT-11")
async def test_a_freed_id_starts_anew_and_old_cursors_are_refused(house):
    async with house() as home:
        await home.ran("echo", "j1", input="before")
        old = await home.kernel.store.get("default", Job, "j1")
        last = await home.kernel.store.last("default", "j1")
        home.days(91)
        await home.sweep()
        view = await home.ran("echo", "j1", input="after")
        assert view.output == "after"
        assert (await home.kernel.store.read("default", "j1", 0, 1))[0].seq == 1
        with pytest.raises(TransomError) as refused:
            await home.kernel.call("WatchJob", WatchJob(id="j1", since_seq=last, token=old.token), OPERATOR)
        assert (refused.value.code, "token" in refused.value.message) == ("invalid_argument", True)


async def test_what_a_tree_used_of_its_budget_goes_with_it_so_that_the_next_one_begins_at_nothing(house):
    async with house(plugins=("spend",)) as home:
        await home.kernel.call("SetBudget", SetBudget(name="small", tokens=1_000_000), OPERATOR)
        await home.ran("leaves_traces", "j1", budget="small")
        (used,) = await home.kernel.store.select("default", Counter, "tree", {"tree": "j1"})
        assert used.taken > 0
        home.days(91)
        await home.sweep()
        assert await home.kernel.store.select("default", Counter, "tree", {"tree": "j1"}) == []


@pytest.mark.req("RT-11")
async def test_an_id_stays_taken_until_then(house):
    async with house() as home:
        await home.ran("echo", "j1", input="before")
        home.days(89)
        assert (await home.sweep()).trees == 0
        with pytest.raises(TransomError) as refused:
            await start(home.kernel, "echo", "j1", input="after")
        assert refused.value.code == "already_exists"


async def test_what_is_young_runs_or_waits_and_what_is_another_tenants_stays_as_it_is(house):
    forever = anyio.Event()

    async def runs(ctx, input):
        await forever.wait()

    async def waits(ctx, input):
        await ctx.ask("Well?", timeout=20 * 86_400)

    acme = msgspec.structs.replace(OPERATOR, tenant="acme")
    async with house(runs, waits, plugins=[tenants_plugin(default=4)]) as home:
        await start(home.kernel, "waits", "waits", input="")
        await resting(home.kernel, "waits")
        await start(home.kernel, "runs", "runs", input="")
        await start(home.kernel, "echo", "acme's", who=acme, input=WORD)
        await home.ran("echo", "old", input="x")
        home.clock.forward(20 * 3600)
        await home.ran("echo", "young", input="x", conversation="c")
        home.days(3.5)
        before = await home.dump("audit", "audit_chain", "audit_details", "change")
        done = await home.sweep()
        assert (done.trees, done.jobs) == (1, 1)
        after = await home.dump("audit", "audit_chain", "audit_details", "change")
        left_out = {"thinned", "late", "event"}  # thinning is another matter
        for name in before.keys() - left_out:
            assert [row for row in before[name] if "old" not in row] == after[name], name
        forever.set()
        await ended(home.kernel, "runs")


async def test_a_tree_with_a_job_that_has_not_ended_or_has_just_stays_whole(house):
    """Also when its root has; no order of ends is relied on."""
    async with house() as home:
        await home.ran("leaves_traces", "j1", input="x")
        (child,) = [job for job in await home.kernel.store.select("default", Job, "tree", {"tree": "j1"}) if job.parent]
        home.days(91)
        for change in ({"status": "running"}, {"ended_at": home.clock.now() - 1000}):
            await home.kernel.store.transact(
                "default", lambda tx, change=change: tx.put(msgspec.structs.replace(child, **change))
            )
            before = await home.dump("audit", "audit_chain", "audit_details", "change", "thinned", "event")
            assert (await home.sweep()).trees == 0
            assert await home.dump("audit", "audit_chain", "audit_details", "change", "thinned", "event") == before


# -- conversations ----------------------------------------------------------------------------------------------------


@pytest.mark.req("RT-11")
async def test_a_conversation_keeps_its_counter_and_owner_and_loses_what_was_said(house):
    async with house() as home:
        await home.ran("echo", "j1", input=f"one {WORD}", conversation="c")
        home.days(50)
        await home.ran("echo", "j2", input="two", conversation="c")
        titled = await home.kernel.store.get("default", Conversation, "c")
        await home.kernel.store.transact("default", lambda tx: tx.update(titled, title=f"About {WORD}", owner="person:anna"))
        home.days(50)
        await home.sweep()
        items = await home.kernel.store.select("default", Item, "latest", {"conversation": "c"})
        assert {item.job for item in items} == {"j2"}
        kept = await home.kernel.store.get("default", Conversation, "c")
        assert (kept.turns, kept.job, kept.title) == (2, "j2", f"About {WORD}")
        home.days(50)
        await home.sweep()
        kept = await home.kernel.store.get("default", Conversation, "c")
        assert (kept.turns, kept.owner, kept.job, kept.title) == (2, "person:anna", "", "")
        await home.kernel.store.transact("default", lambda tx: tx.update(kept, owner=""))
        assert await home.rows(WORD) == set()
        assert (await home.ran("echo", "j3", input="three", conversation="c")).turn == 3
        assert [i.content for i in await home.kernel.store.select("default", Item, "latest", {"conversation": "c"})][
            -1
        ] == "three"


# -- keys -------------------------------------------------------------------------------------------------------------


async def test_idempotency_keys_are_kept_as_long_as_jobs(house):
    keyed = msgspec.structs.replace(OPERATOR, key="k1")
    request = PublishEvent(source="s", payload={"n": 1})
    async with house() as home:
        await home.kernel.call("PublishEvent", request, keyed)
        home.days(89)
        await home.sweep()
        assert await home.kernel.store.get("default", Reply, OPERATOR.caller.principal, "k1") is not None
        await home.kernel.call("PublishEvent", PublishEvent(source="s"), msgspec.structs.replace(OPERATOR, key="k2"))
        home.days(2)
        assert (await home.sweep()).replies == 1
        assert await home.kernel.store.get("default", Reply, OPERATOR.caller.principal, "k1") is None
        assert await home.kernel.store.get("default", Reply, OPERATOR.caller.principal, "k2") is not None


# -- in between -------------------------------------------------------------------------------------------------------


async def test_a_process_that_dies_between_two_slices_leaves_the_rest_to_the_next(house, monkeypatch):
    """Whatever was removed by then, the ID stays taken until nothing of the tree is left."""
    monkeypatch.setattr(trees, "BUDGET", 3)
    store = CrashingStore()
    slices = 0
    async with house(store=crashing_plugin(store)) as home:
        await home.ran("leaves_traces", "j1", input=WORD, conversation="c")
        home.days(91)
        while not await home.gone("j1"):
            store.left, slices = 1, slices + 1
            with pytest.raises(StoreUnavailable):
                await home.sweep()
            store.left = None
            there = {name for name in await home.rows("j1", leave_out=FACTS) if name != "change"}
            assert there == set() or {"job", "tree"} <= there
        assert slices > 5
        assert (await home.sweep()).trees == 0
        assert await home.rows(WORD) == set()


async def test_starts_under_the_id_and_purges_of_it_make_one_whole_job_or_the_other(house, monkeypatch):
    """Each start is answered with the old job, starts the new one, or is told to try again; none finds half a job."""
    monkeypatch.setattr(trees, "BUDGET", 2)
    async with house() as home:
        for n in range(5):
            await home.ran("echo", "j1", input="same")
            home.days(91)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(home.sweep)
                for wait in range(4):
                    tasks.start_soon(restart, home, (n + wait) % 5)
            home.days(91)
            await home.sweep()
            assert await home.gone("j1")
            assert await home.rows("j1", leave_out=(*FACTS, "change")) == set()


async def restart(home: Home, wait: int) -> None:
    for _ in range(wait):
        await anyio.lowlevel.checkpoint()
    try:
        await start(home.kernel, "echo", "j1", input="same")
    except TransomError as error:
        if error.code != "unavailable":
            raise
        return
    view = await ended_or_gone(home)
    if view is not None:
        assert view.output in ("same", None)


async def ended_or_gone(home: Home):
    try:
        return await ended(home.kernel, "j1")
    except TransomError as error:
        if error.code != "not_found":
            raise
        return None


async def test_who_follows_a_tree_that_is_removed_is_done_and_sees_nothing_of_the_next_one(house):
    async with house() as home:
        await home.ran("echo", "j1", input="before")
        seen = []

        async def follow(*, task_status) -> None:
            async for batch in home.kernel.watch("default", "j1"):
                seen.extend(entry.event.job for entry in batch)
                if batch[-1].event.__struct_config__.tag == "job.ended":
                    task_status.started()

        async with anyio.create_task_group() as tasks:
            await tasks.start(follow)
            count = len(seen)
            home.days(91)
            with anyio.fail_after(10):
                await home.sweep()
                await home.ran("echo", "j1", input="after")
        assert len(seen) == count
        new = [entry.event async for batch in first_batches(home) for entry in batch]
        assert [event.text for event in new if event.__struct_config__.tag == "text.ended"] == ["after"]


async def first_batches(home: Home):
    async for batch in home.kernel.watch("default", "j1"):
        yield batch
        if batch[-1].event.__struct_config__.tag == "job.ended":
            return


async def test_two_processes_that_sweep_at_once_remove_each_tree_once_and_their_followers_are_done(house):
    async with house() as home, house() as other:
        for n in range(15):
            await home.ran("leaves_traces", f"j{n}", input="x")
        followed = []

        async def follow(*, task_status) -> None:
            async for batch in other.kernel.watch("default", "j0"):
                followed.extend(batch)
                if batch[-1].event.__struct_config__.tag == "job.ended":
                    task_status.started()

        done = []

        async def sweep(one: Home) -> None:
            done.append(await one.sweep())

        async with anyio.create_task_group() as tasks:
            await tasks.start(follow)
            home.days(91)
            with anyio.fail_after(20):
                async with anyio.create_task_group() as sweeps:
                    sweeps.start_soon(sweep, home)
                    sweeps.start_soon(sweep, other)
        assert (sum(each.trees for each in done), sum(each.jobs for each in done)) == (15, 30)
        assert await home.bytes_with(WORD) == set()


async def test_large_trees_go_in_transactions_that_hold_nobody_up(house, monkeypatch):
    monkeypatch.setattr(trees, "BUDGET", 10)

    async def much(ctx, input):
        for n in range(60):
            await ctx.note(str(n))

    async with house(much) as home:
        await home.ran("much", "j1", input="")
        home.days(91)
        removed: dict[object, int] = {}
        for name in ("clear", "drop"):
            monkeypatch.setattr(SqliteTx, name, counting(getattr(SqliteTx, name), removed))
        await home.sweep()
        assert sum(removed.values()) > 180
        assert max(removed.values()) <= 11


def counting(method, removed: dict[object, int]):
    """A method of transactions that counts what each of them removes."""

    def counted(tx, *args):
        count = method(tx, *args)
        removed[tx] = removed.get(tx, 0) + count
        return count

    return counted


# -- declarations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"key": ("word",), "belongs": ("job",)}, "begins with 'job'"),
        ({"key": ("word",), "belongs": ("word",)}, "'word' is none"),
        ({"key": ("job",), "belongs": ("job", "tree")}, "'tree' is none"),
    ],
    ids=["no key or index begins with it", "a field that names nothing", "a field that there is not"],
)
def test_a_record_that_could_not_be_removed_is_refused_where_it_is_declared(declared, why):
    with pytest.raises(TransomError, match=why):
        Record(type=Mark, **declared)


def test_a_record_may_be_found_by_an_index():
    assert Record(type=Mark, key=("word",), indexes=(Index("job", ("job", "word")),), belongs=("job",)).belongs == ("job",)


def test_every_record_of_a_trees_content_says_what_it_belongs_to():
    """A record with a field `job` or `tree` goes with that, or is among those that are removed in another way."""
    elsewhere = {Job, Tree, Lease, Conversation}
    left = [r.name for r in KERNEL_RECORDS if {"job", "tree"} & set(r.type.__struct_fields__) and not r.belongs]
    assert set(left) <= {record.name for record in KERNEL_RECORDS if record.type in elsewhere}
    assert next(record for record in KERNEL_RECORDS if record.type is Run).belongs == ("conversation", "job")
