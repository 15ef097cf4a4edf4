"""A job ends once: completed, failed, cancelled or timed out, and all that it delegated with it."""

import anyio
import pytest

from transom_hookspecs import Context, function, tool

pytestmark = pytest.mark.anyio


async def parent(ctx: Context, input):
    return await ctx.together(*[lambda b: b.delegate("middle") for _ in range(2)])


async def middle(ctx: Context, input):
    return await ctx.together(lambda b: b.delegate("asks"), lambda b: b.delegate("works"))


async def asks(ctx: Context, input):
    return await ctx.ask("Well?")


async def works(ctx: Context, input):
    return await ctx.call("t.work")


class Work:
    def __init__(self) -> None:
        self.begun = self.over = 0

    async def work(self) -> str:
        self.begun += 1
        await anyio.sleep(30)
        self.over += 1
        return "worked"

    def tools(self):
        return (tool("t", function(self.work, open_world=False)),)


async def whole_tree(home, job: str, who: str = "anna") -> list[dict]:
    found = [await home.job(job, who)]
    for each in found:
        found += [await home.job(name, who) for name in each.get("children", ())]
    return found


async def grown(home, work: Work, job: str) -> None:
    """Wait until the tree has all of its jobs and waits."""
    with anyio.fail_after(10):
        while work.begun < 2 or len(await whole_tree(home, job)) < 7 or len(await home.waits()) < 2:
            await anyio.sleep(0.01)


@pytest.mark.req("RT-15", "RT-16")
@pytest.mark.parametrize("how", ["cancelled", "timed_out"])
async def test_the_end_of_a_job_is_the_end_of_all_below_it_and_of_their_waits(house, how) -> None:
    work = Work()
    async with house(parent, middle, asks, works, tools=work.tools()) as home:
        job = await home.started("parent", **({"timeout": "1.5s"} if how == "timed_out" else {}))
        await grown(home, work, job)
        (wait, _) = await home.waits()
        if how == "cancelled":
            answer = await home.post(f"/v1/jobs/{job}/cancel", json={"reason": "enough"})
            assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
        ended = await home.until(job)
        assert ended["status"] == how
        assert ended["closedAt"]
        tree = await whole_tree(home, job)
        assert len(tree) == 7
        # the bound is the whole tree's, so at that moment a child may find that its own time is over
        assert {each["status"] for each in tree[1:]} <= {"cancelled", how}
        assert (await home.get("/v1/approvals", "ada")).json()["approvals"] == []
        late = await home.post(f"/v1/approvals/{wait['id']}/answer", json={"answer": "x"})
        assert late.status_code == 409
        events = await home.events(job)
        assert [e["job"] for _, e in events if e["type"] == "job.ended"][-1] == job
        assert sum(e["type"] == "wait.decided" and e["outcome"] == "cancelled" for _, e in events) == 2
        await anyio.sleep(0.05)
        assert not home.kernel.running, "something runs on"
        assert work.over == 0


@pytest.mark.req("RT-15")
async def test_a_parent_that_completes_takes_its_children_along(house) -> None:
    work = Work()

    async def hasty(ctx: Context, input):
        async def leave(b: Context):
            await b.sleep(0.2)
            return "first"

        _, result = await ctx.first(lambda b: b.delegate("works"), leave)
        return result

    async with house(hasty, works, tools=work.tools()) as home:
        job = await home.ran("hasty")
        assert (job["status"], job["output"]) == ("completed", "first")
        assert [each["status"] for each in (await whole_tree(home, job["id"]))[1:]] == ["cancelled"]


@pytest.mark.req("RT-15")
async def test_a_childs_cancel_is_its_parents_error(house) -> None:
    async with house(asks, delegator) as home:
        job = await home.started("delegator")
        (wait,) = await home.waits()
        assert (await home.post(f"/v1/jobs/{wait['job']}/cancel", json={})).json()["status"] == "cancelled"
        ended = await home.until(job)
        assert (ended["status"], ended["error"]["code"]) == ("failed", "canceled")


async def delegator(ctx: Context, input):
    return await ctx.delegate("asks")


@pytest.mark.req("RT-15", "RT-8")
async def test_a_cancel_may_come_again_and_changes_nothing_that_ended(house) -> None:
    async with house(asks) as home:
        job = await home.started("asks")
        first = await home.post(f"/v1/jobs/{job}/cancel", json={})
        again = await home.post(f"/v1/jobs/{job}/cancel")
        assert (first.json(), 200) == (again.json(), again.status_code)
        done = await home.ran("echo")
        answer = await home.post(f"/v1/jobs/{done['id']}/cancel", json={})
        assert (answer.status_code, answer.json()) == (200, done)


@pytest.mark.req("RT-15")
@pytest.mark.parametrize(
    ("who", "status"), [("anna", 200), ("omar", 200), ("ada", 200), ("deskapp", 401), ("rita", 403), ("echo_key", 403)]
)
async def test_who_may_cancel(house, who, status) -> None:
    async with house(asks) as home:
        job = await home.started("asks")
        assert (await home.post(f"/v1/jobs/{job}/cancel", who, json={})).status_code == status
        assert (await home.job(job))["status"] in (("cancelled",) if status == 200 else ("running", "waiting"))


@pytest.mark.req("RT-15", "RT-8")
@pytest.mark.parametrize("n", range(12))
async def test_of_a_cancel_and_the_jobs_own_end_the_first_recorded_one_stands(house, n) -> None:
    async def soon(ctx: Context, input):
        for _ in range(n % 4):
            await ctx.now()
        return "done"

    async with house(soon) as home:
        jobs = [await home.started("soon") for _ in range(5)]
        answers: dict[str, dict] = {}

        async def cancel(job: str) -> None:
            answers[job] = (await home.post(f"/v1/jobs/{job}/cancel", json={})).json()

        async with anyio.create_task_group() as tasks:
            for job in jobs:
                tasks.start_soon(cancel, job)
        for job in jobs:
            ended = await home.until(job)
            assert answers[job]["status"] == ended["status"], "a cancel was told of an end that did not stand"
            events = await home.events(job)
            ends = [e for _, e in events if e["type"] == "job.ended"]
            assert [e["status"] for e in ends] == [ended["status"]]
            assert ("output" in ended) == (ended["status"] == "completed")


@pytest.mark.req("RT-16")
@pytest.mark.parametrize("paused", ["by a person", "by a timer", "by an event", "by a child"])
async def test_a_timeout_bounds_the_waits_too(house, paused) -> None:
    async def pauses(ctx: Context, input):
        if paused == "by a person":
            return await ctx.ask("Well?", timeout=1000)
        if paused == "by a timer":
            return await ctx.sleep(1000)
        if paused == "by an event":
            return await ctx.wait_for_event("nothing")
        return await ctx.delegate("asks")

    async with house(pauses, asks) as home:
        job = await home.ran("pauses", timeout="0.4s")
        assert (job["status"], job["error"]["code"]) == ("timed_out", "deadline_exceeded")
        below = (await whole_tree(home, job["id"]))[1:]
        assert len(below) == (paused == "by a child")
        assert {each["status"] for each in below} <= {"cancelled", "timed_out"}
        assert (await home.get("/v1/approvals", "ada")).json()["approvals"] == []


@pytest.mark.req("RT-16", "RT-36")
async def test_a_timeout_that_passed_while_nothing_ran_holds_at_the_next_start(house, tmp_path) -> None:
    async with house(asks, data=str(tmp_path / "d")) as home:
        await home.started("asks", id="one", timeout="0.3s")
        await home.waits()
    await anyio.sleep(0.4)
    async with house(asks, data=str(tmp_path / "d")) as home:
        assert (await home.until("one"))["status"] == "timed_out"
