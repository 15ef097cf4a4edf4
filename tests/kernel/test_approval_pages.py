"""What waits for a person, in pages: none missed, none twice, and a bounded look at what a caller may not see."""

import msgspec
import pytest
from job_kit import eventually, hooks_plugin, open_waits, start
from kernel_kit import OPERATOR, agents_plugin

from transom import decisions
from transom_hookspecs import GetJob, ListApprovals, TransomError, Verdict, Wait, WaitPage
from transom_testing.doubles import ManualClock

pytestmark = [pytest.mark.anyio, pytest.mark.req("RT-26")]


async def asker(ctx, input):
    return await ctx.ask("colour?")


async def authorize(access):
    hidden = access.permission == "jobs.read" and access.object == "hidden"
    return Verdict(ruling="deny" if hidden else "allow")


PLUGINS = [agents_plugin(asker), hooks_plugin(authorize=authorize)]


async def fill(k, **copies: int) -> None:
    """Jobs with so many more waits each; three are opened in each millisecond, the jobs' own in turn."""
    made: list[Wait] = []
    for job, count in copies.items():
        await start(k, "asker", job)
        (wait,) = await open_waits(k, job)
        made += [
            msgspec.structs.replace(wait, id=f"w-{n:04d}-{job}", token=f"{n}{job}", opened_at=wait.opened_at + n // 3)
            for n in range(count)
        ]
    await k.store.transact("default", lambda tx: [tx.put(wait) for wait in made])


async def page(k, **request) -> WaitPage:
    return await k.call("ListApprovals", ListApprovals(**request), OPERATOR)


async def pages(k, **request) -> list[WaitPage]:
    """All pages."""
    found = [await page(k, **request)]
    while found[-1].cursor:
        found.append(await page(k, cursor=found[-1].cursor, **request))
    return found


@pytest.mark.parametrize("limit", [1, 3, 7, 22, 50, 51, 200])
async def test_pages_are_the_whole_list_in_its_order(kernel, limit) -> None:
    async with kernel(plugins=PLUGINS) as k:
        await fill(k, one=60, hidden=30, two=60)
        found = await pages(k, limit=limit)
        waits = [wait for each in found for wait in each.waits]
        assert len({wait.id for wait in waits}) == len(waits) == 122
        assert waits == sorted(waits, key=lambda wait: (wait.opened_at, wait.id))
        assert "hidden" not in {wait.job for wait in waits}
        assert all(len(each.waits) == limit for each in found[:-1])
        assert {wait.job for each in await pages(k, limit=limit, job="one") for wait in each.waits} == {"one"}
        assert sum(len(each.waits) for each in await pages(k, limit=limit, job="one", tree=True)) == 61


async def test_a_page_that_looked_at_enough_ends_short_and_goes_on(kernel, monkeypatch) -> None:
    monkeypatch.setattr(decisions, "MOST_LOOKED_AT", 100)
    async with kernel(plugins=PLUGINS) as k:
        await fill(k, hidden=250, last=0)
        (wait,) = await open_waits(k, "last")
        later = msgspec.structs.replace(wait, id="later", token="later", opened_at=wait.opened_at + 10_000)
        await k.store.transact("default", lambda tx: tx.put(later))
        found = await pages(k, limit=10)
        assert len(found) == 3
        assert sorted(w.id for each in found for w in each.waits) == ["later", wait.id]
        assert [w.id for w in found[2].waits] == ["later"]


async def test_a_wait_that_goes_or_comes_between_two_pages_moves_no_other(kernel) -> None:
    clock = ManualClock()
    async with kernel(plugins=PLUGINS, clock=clock) as k:
        await fill(k, one=9)
        first = await page(k, limit=4)
        await k.store.transact("default", lambda tx: tx.update(tx.get(Wait, first.waits[3].id), open=False))
        clock.forward(1)
        await start(k, "asker", "new")
        await open_waits(k, "new")
        rest = await page(k, limit=50, cursor=first.cursor)
        assert [wait.id for wait in rest.waits if wait.job == "one"][-1] == "w-0008-one"
        assert len(rest.waits) == 7


async def test_what_is_past_its_deadline_is_declined_on_the_way_and_is_on_no_page(kernel) -> None:
    clock = ManualClock()
    async with kernel(plugins=PLUGINS, clock=clock) as k:
        await start(k, "asker")
        (wait,) = await open_waits(k)
        clock.forward((wait.expires_at - clock.now()) / 1000)
        assert await page(k) == WaitPage(waits=())
        await eventually(lambda: ended(k))


async def ended(k) -> bool:
    return (await k.call("GetJob", GetJob(id="job"), OPERATOR)).status == "completed"


@pytest.mark.parametrize(
    "request_", [{"cursor": "x"}, {"cursor": "1"}, {"cursor": "-1.a"}, {"limit": 0}, {"limit": 201}], ids=str
)
async def test_a_cursor_or_limit_that_will_not_do_is_refused(kernel, request_) -> None:
    async with kernel(plugins=PLUGINS) as k:
        with pytest.raises(TransomError, match=next(iter(request_))) as refused:
            await page(k, **request_)
        assert refused.value.code == "invalid_argument"
