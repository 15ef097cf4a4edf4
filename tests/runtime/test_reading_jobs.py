"""What a job, a list and a stream show, and that a stream goes on exactly where its client was."""

import re

import anyio
import pytest

from transom_hookspecs import Agent, Context, function, tool

pytestmark = pytest.mark.anyio

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def greet(name: str) -> str:
    return f"Hello, {name}"


TOOLS = (tool("t", function(greet, open_world=False)),)


async def parent(ctx: Context, input):
    await ctx.say("Two children, please.")
    return await ctx.together(*[lambda b, n=n: b.delegate("child", f"no {n}") for n in (1, 2)])


async def child(ctx: Context, input):
    await ctx.note(f"looked at {input}")
    return await ctx.call("t.greet", {"name": input})


async def waits(ctx: Context, input):
    return await ctx.ask("Which?", choices=("a", "b"))


async def fails(ctx: Context, input):
    raise ValueError("no such luck")


async def napper(ctx: Context, input):
    await ctx.sleep(3600)


@pytest.mark.req("RT-13", "REST-2")
async def test_a_job_shows_how_it_stands_and_ended(house) -> None:
    async with house(parent, child, tools=TOOLS) as home:
        job = await home.ran("parent", {"a": 1}, id="one", tags="x")
        assert {k: job[k] for k in ("id", "agent", "status", "output", "tags")} == {
            "id": "one",
            "agent": "parent",
            "status": "completed",
            "output": ["Hello, no 1", "Hello, no 2"],
            "tags": ["x"],
        }
        assert TIME.fullmatch(job["startedAt"])
        assert TIME.fullmatch(job["closedAt"])
        assert len(job["children"]) == 2
        below = [await home.job(name) for name in job["children"]]
        assert {(each["agent"], each["status"]) for each in below} == {("child", "completed")}
        assert sorted(each["output"] for each in below) == job["output"]
        assert not {"error", "approvals", "flow"} & set(job)


@pytest.mark.req("RT-13")
async def test_a_failed_job_shows_its_error_and_no_answer(house) -> None:
    async with house(fails) as home:
        job = await home.ran("fails")
        assert job["error"]["code"] == "internal"
        assert "no such luck" in job["error"]["message"]
        assert "output" not in job


@pytest.mark.req("RT-13", "RT-24")
async def test_a_waiting_job_shows_what_it_waits_for_while_it_waits(house) -> None:
    async with house(waits) as home:
        job = await home.started("waits")
        (wait,) = await home.waits()
        shown = await home.until(job, "waiting")
        (approval,) = shown["approvals"]
        assert (approval["id"], approval["kind"], approval["message"], approval["choices"]) == (
            wait["id"],
            "question",
            "Which?",
            ["a", "b"],
        )
        assert "closedAt" not in shown
        why = (await home.get(f"/v1/jobs/{job}/wait")).json()
        assert (why["status"], why["queue"]) == ("waiting", "local")
        (step,) = why["steps"]
        assert (step["kind"], step["waitsFor"], step["attempts"]) == ("ask", wait["id"], 1) or step["waitsFor"] == wait["id"]
        assert step["why"].endswith(".")
        assert "person" in step["why"]
        assert (await home.post(f"/v1/approvals/{wait['id']}/answer", json={"answer": "a"})).status_code == 200
        ended = await home.until(job)
        assert "approvals" not in ended
        assert ended["output"] == "a"
        why = (await home.get(f"/v1/jobs/{job}/wait")).json()
        assert (why["steps"], why["why"]) == ([], "The job has ended (completed).")


WAITS = {
    "a timer": (napper, "timer"),
    "a child": (Agent(name="delegates", run=lambda ctx, value: ctx.delegate("napper")), "job job-"),
    "an event": (Agent(name="listens", run=lambda ctx, value: ctx.wait_for_event("github")), "github"),
}


@pytest.mark.req("RT-24")
@pytest.mark.parametrize(("agent", "words"), WAITS.values(), ids=WAITS)
async def test_why_a_job_waits_is_said_in_words_and_fields(house, agent, words) -> None:
    agents = {getattr(a, "name", None) or a.__name__: a for a in (agent, napper)}
    async with house(*agents.values()) as home:
        job = await home.started(next(iter(agents)))
        with anyio.fail_after(5):
            while not (why := (await home.get(f"/v1/jobs/{job}/wait")).json())["steps"] or not why["steps"][0].get("waitsFor"):
                await anyio.sleep(0.01)
        assert words in why["why"]
        assert TIME.fullmatch(why["steps"][0]["since"])


@pytest.mark.req("RT-13")
async def test_the_cost_has_one_branch_for_each_job_of_the_tree_itself_first(house) -> None:
    async def boss(ctx: Context, input):
        return await ctx.together(lambda b: b.delegate("echo", "one two"), lambda b: b.delegate("quiet", "x"))

    async def quiet(ctx: Context, input):
        return "nothing spent"

    async with house(boss, quiet) as home:
        job = await home.ran("boss")
        branches = job["cost"]["branches"]
        assert [b["agent"] for b in branches] == ["boss", "echo", "quiet"] or [b["agent"] for b in branches] == [
            "boss",
            "quiet",
            "echo",
        ]
        assert branches[0]["job"] == job["id"]
        by = {b["agent"]: b for b in branches}
        assert by["echo"]["outputTokens"] > 0
        assert by["echo"]["models"] == ["scripted"]
        assert by["quiet"]["calls"] == by["boss"]["calls"] == 0
        assert job["cost"]["calls"] == 1
        assert job["cost"]["inputTokens"] == by["echo"]["inputTokens"]
        alone = await home.ran("quiet")
        assert alone["cost"] == {
            "usd": 0.0,
            "calls": 0,
            "inputTokens": 0,
            "outputTokens": 0,
            "branches": [{"job": alone["id"], "agent": "quiet", "calls": 0, "inputTokens": 0, "outputTokens": 0, "usd": 0.0}],
        }


@pytest.mark.req("RT-17")
async def test_a_list_has_top_level_jobs_newest_first_in_pages_without_a_gap(house) -> None:
    async with house(parent, child, fails, tools=TOOLS) as home:
        made = [(await home.ran(agent, id=f"{agent}-{n}"))["id"] for n, agent in enumerate(["parent", "fails", "echo"] * 4)]
        seen: list[str] = []
        cursor = ""
        while True:
            page = (await home.get("/v1/jobs", params={"limit": "5", "cursor": cursor})).json()
            seen += [job["id"] for job in page["jobs"]]
            assert len(page["jobs"]) <= 5
            if not (cursor := page["cursor"]):
                break
            if len(seen) == 5:
                await home.ran("echo", id="meanwhile")
        assert seen == made[::-1]
        assert (await home.jobs())[0] == "meanwhile"


@pytest.mark.req("RT-17")
async def test_a_page_has_50_jobs_unless_said_and_at_most_200(house) -> None:
    async with house() as home:
        for n in range(55):
            await home.started("echo", "x", id=f"job {n:02}")
        page = (await home.get("/v1/jobs")).json()
        assert [j["id"] for j in page["jobs"]] == [f"job {n:02}" for n in range(54, 4, -1)]
        rest = (await home.get("/v1/jobs", params={"cursor": page["cursor"]})).json()
        assert [j["id"] for j in rest["jobs"]] == [f"job {n:02}" for n in range(4, -1, -1)]
        for limit in ("0", "201"):
            assert (await home.get("/v1/jobs", params={"limit": limit})).status_code == 400
        for cursor in ("x", "1", "-1.a", "99999999999999999999.a", "."):
            assert (await home.get("/v1/jobs", params={"cursor": cursor})).status_code == 400, cursor


@pytest.mark.req("RT-18", "REST-5")
async def test_a_stream_tells_what_a_job_and_its_children_do_and_ends_with_its_end(house) -> None:
    async with house(parent, child, tools=TOOLS) as home:
        job = await home.started("parent")
        events = await home.events(job)
        kinds = [event["type"] for _, event in events]
        assert kinds[0] == "job.started"
        assert kinds[-1] == "job.ended"
        assert kinds.count("job.started") == kinds.count("job.ended") == 3
        assert kinds.count("call") == kinds.count("call.ended") == kinds.count("note") == 2
        assert {"text", "text.ended"} <= set(kinds)
        last = events[-1][1]
        assert (last["job"], last["status"], last["output"]) == (job, "completed", ["Hello, no 1", "Hello, no 2"])
        assert [event["seq"] for _, event in events] == list(range(1, len(events) + 1))
        assert all(TIME.fullmatch(event["at"]) for _, event in events)
        (token,) = {identity.partition("-")[2] for identity, _ in events}
        assert token
        assert [identity for identity, _ in events] == [f"{event['seq']}-{token}" for _, event in events]


@pytest.mark.req("RT-18", "REST-5")
async def test_a_stream_goes_on_after_each_event_with_exactly_what_came_after(house) -> None:
    async with house(parent, child, tools=TOOLS) as home:
        job = await home.started("parent")
        whole = await home.events(job)
        for n in range(len(whole) - 1):
            assert await home.events(job, last=whole[n][0]) == whole[n + 1 :]
        assert await home.events(job, last=whole[-1][0]) == []
        assert await home.events(job) == whole


@pytest.mark.req("RT-18", "REST-5")
async def test_a_childs_stream_is_its_own_part_of_the_log(house) -> None:
    async with house(parent, child, tools=TOOLS) as home:
        job = await home.ran("parent")
        for name in job["children"]:
            whole = await home.events(name)
            assert {event["job"] for _, event in whole} == {name}
            assert whole[0][1]["type"] == "job.started"
            assert whole[-1][1]["type"] == "job.ended"
            for n in range(len(whole)):
                assert await home.events(name, last=whole[n][0]) == whole[n + 1 :]


@pytest.mark.req("RT-18", "REST-5", "RT-11")
@pytest.mark.parametrize(
    "last", ["1-another", "99999-{token}", "0-{token}", "-1-{token}", "abc", "1", "", "1-{token}\t2"], ids=ascii
)
async def test_a_cursor_that_is_none_of_this_jobs_is_refused(house, last) -> None:
    async with house() as home:
        job = await home.ran("echo", "a b")
        token = (await home.events(job["id"]))[0][0].partition("-")[2]
        answer = await home.get(f"/v1/jobs/{job['id']}/events", headers={"Last-Event-ID": last.format(token=token)})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")


@pytest.mark.req("RT-18")
async def test_a_cursor_of_another_job_is_refused(house) -> None:
    async with house() as home:
        one, two = await home.ran("echo", "a b"), await home.ran("echo", "a b")
        cursor = (await home.events(one["id"]))[0][0]
        assert (await home.get(f"/v1/jobs/{two['id']}/events", headers={"Last-Event-ID": cursor})).status_code == 400


@pytest.mark.req("RT-18")
async def test_fifty_watchers_that_come_at_any_time_see_the_same(house) -> None:
    async with house() as home:
        job = await home.started("streamer", {"deltas": 60, "bytes": 30, "delay_ms": 5})
        seen = []

        async def watch(n: int) -> None:
            await anyio.sleep(n * 0.01)
            seen.append(await home.events(job))

        async with anyio.create_task_group() as tasks:
            for n in range(50):
                tasks.start_soon(watch, n)
        assert all(each == seen[0] for each in seen)
        text = "".join(event["delta"] for _, event in seen[0] if event["type"] == "text")
        assert len(text) == 60 * 30
        assert text == (await home.job(job))["output"]


@pytest.mark.req("RT-18")
async def test_a_stream_shows_approvals_and_what_became_of_them(house) -> None:
    async with house() as home:
        job = await home.started("helper")
        (wait,) = await home.waits()
        await home.events(job, until="tree.waiting")
        assert (await home.post(f"/v1/approvals/{wait['id']}/approve", "omar", json={"comment": "go"})).status_code == 200
        kinds = [event["type"] for _, event in await home.events(job)]
        order = ["call", "wait.opened", "tree.waiting", "wait.decided", "tree.running", "call.ended", "job.ended"]
        assert [kind for kind in kinds if kind in order] == order
