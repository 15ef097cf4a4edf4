"""The audit trail and those who are told: refusals stand in it, and nothing is lost to a moment's trouble."""

import pytest
from job_kit import UnavailableOnce, eventually, hooks_plugin, on_disk, ran, resting, start
from kernel_kit import OPERATOR, agents_plugin

from transom_hookspecs import Caller, CancelJob, Origin, TransomError, Verdict

pytestmark = pytest.mark.anyio


async def hello(ctx, input):
    return "hello"


@pytest.mark.req("IDN-6")
async def test_a_start_that_was_refused_stands_in_the_trail(kernel) -> None:
    nobody = hooks_plugin(authorize=lambda access: Verdict(ruling="deny", reason="closed"))
    caller = Origin(tenant="default", caller=Caller(kind="key", id="ci", tenant="default"), door="test")
    async with kernel(**on_disk(agents_plugin(hello), nobody)) as k:
        with pytest.raises(TransomError, match="closed"):
            await start(k, "hello", who=caller)
        (row,) = await k.store.audit("default")
    entry = row.entry
    assert (entry.action, entry.caller, entry.door, entry.object, entry.outcome) == (
        "run.start",
        caller.caller.principal,
        "test",
        "job",
        "refused",
    )


async def test_receivers_are_told_of_everything_though_the_store_was_unavailable_for_a_moment(kernel) -> None:
    told = []

    async def on_audit(tenant, rows):
        told.extend(row.entry.object for row in rows)

    async def told_of_both():
        return {"one", "two"} <= set(told)

    store = UnavailableOnce()
    async with kernel(**on_disk(agents_plugin(hello), hooks_plugin(on_audit=on_audit), store=store)) as k:
        store.refuses = lambda what: what == "audit"
        await ran(k, "hello", "one")
        await eventually(lambda: unavailable_was(store))
        await ran(k, "hello", "two")
        await eventually(told_of_both, seconds=3)


async def unavailable_was(store: UnavailableOnce) -> bool:
    return store.refuses is None


async def test_observers_are_told_of_a_job_that_was_cancelled_while_it_rested(kernel) -> None:
    told = []

    async def on_job_ended(tenant, job):
        told.append((job.id, job.status))

    async def told_of_any():
        return told

    async def sleeper(ctx, input):
        await ctx.sleep(60)

    async with kernel(**on_disk(agents_plugin(sleeper), hooks_plugin(on_job_ended=on_job_ended))) as k:
        await start(k, "sleeper")
        await resting(k)
        await k.call("CancelJob", CancelJob(id="job"), OPERATOR)
        assert await eventually(told_of_any, seconds=3) == [("job", "cancelled")]
