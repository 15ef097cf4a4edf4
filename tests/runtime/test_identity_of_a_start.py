"""IDs and retries: the same start is one job, another under its ID is refused, whatever became of the job."""

import anyio
import pytest

from transom_hookspecs import Context

pytestmark = pytest.mark.anyio


async def shout(ctx: Context, input):
    return str(input).upper()


async def forever(ctx: Context, input):
    await ctx.sleep(3600)


async def broken(ctx: Context, input):
    raise ValueError("no such luck")


def conflict(answer, job: str) -> dict:
    """Check that an answer refuses a start because the ID is taken."""
    assert answer.status_code == 409, answer.text
    body = answer.json()
    assert body["code"] == "already_exists"
    assert body["reason"] == body["details"]["reason"] == "oz0_id_conflict"
    assert body["details"]["type"] == "oz0.runtime.v1.IdConflict"
    assert body["job"] == body["details"]["job"] == job
    return body


@pytest.mark.req("REST-1", "RT-2")
async def test_a_start_answers_201_with_the_job_and_a_retry_200_with_the_same(house) -> None:
    async with house(shout) as home:
        first = await home.start("shout", "hi", id="one")
        assert (first.status_code, first.json()["id"], first.json()["retried"]) == (201, "one", False)
        ended = await home.until("one")
        again = await home.start("shout", "hi", id="one")
        assert (again.status_code, again.json()["retried"]) == (200, True)
        assert again.json() | {"retried": None} == ended | {"retried": None}


@pytest.mark.req("RT-6", "RT-8")
@pytest.mark.parametrize("agent", ["shout", "forever", "broken"])
async def test_the_same_start_under_an_id_is_the_same_job_running_ended_or_failed(house, agent) -> None:
    async with house(shout, forever, broken) as home:
        await home.started(agent, {"b": 1, "a": [1.0, "x"]}, id="one", tags="x,y", team="blue")
        await home.until("one", *(("waiting",) if agent == "forever" else ()))
        before = await home.get("/v1/jobs/one/trace"), await home.kernel.store.last("default", "one")
        again = await home.start(agent, {"a": [1.0, "x"], "b": 1}, id="one", tags="x,y", team="blue")
        assert (again.status_code, again.json()["retried"]) == (200, True)
        after = await home.get("/v1/jobs/one/trace"), await home.kernel.store.last("default", "one")
        assert (after[0].json()["steps"], after[1]) == (before[0].json()["steps"], before[1]), "something ran"
        assert await home.jobs() == ["one"]
        assert await home.audited("run.start") == 1


@pytest.mark.req("RT-6")
async def test_the_same_start_answers_also_where_the_agent_is_gone(house, tmp_path) -> None:
    async with house(shout, data=str(tmp_path / "d")) as home:
        await home.ran("shout", "hi", id="one")
    async with house(broken, data=str(tmp_path / "d")) as home:
        again = await home.start("shout", "hi", id="one")
        assert (again.status_code, again.json()["retried"], again.json()["output"]) == (200, True, "HI")
        assert (await home.start("shout", "hi", id="two")).status_code == 404


CHANGES = {
    "input": {"input": "ho"},
    "input type": {"input": ["hi"]},
    "agent": {"agent": "forever"},
    "an agent that is not there": {"agent": "nobody"},
    "tags": {"tags": "x"},
    "team": {"team": "blue"},
    "budget": {"budget": "b1"},
    "timeout": {"timeout": "900s"},
    "data subjects": {"data_subjects": "p1"},
    "conversation": {"conversation": "c1"},
    "caller": {"who": "omar"},
}


@pytest.mark.req("RT-7", "RT-4")
@pytest.mark.parametrize("by", ["id", "key"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_another_start_under_a_taken_id_is_refused_and_leaves_nothing(house, change, by) -> None:
    async with house(shout, forever) as home:
        name = {"id": "one"} if by == "id" else {"key": "k1"}
        job = (await home.ran("shout", "hi", **name))["id"]
        change = {"agent": "shout", "input": "hi", **change}
        if by == "key" and "who" in change:
            return  # a key is its caller's own: see below
        body = conflict(await home.start(**change, **name), job)
        assert body["started_at"] == (await home.job(job))["startedAt"]
        assert await home.jobs() == [job]
        assert (await home.job(job))["status"] == "completed"


@pytest.mark.req("RT-7")
async def test_the_start_time_of_anothers_job_is_told_only_to_one_who_may_read_it(house) -> None:
    async with house(shout) as home:
        await home.ran("shout", "hi", id="one")
        body = conflict(await home.start("echo", "hi", "echo_key", id="one"), "one")
        assert "started_at" not in body
        assert "started_at" not in body["details"]


@pytest.mark.req("RT-7", "REST-9")
async def test_an_id_is_taken_in_its_own_tenant_only(house) -> None:
    async with house(shout) as home:
        await home.ran("shout", "hi", id="one")
        theirs = await home.start("shout", "other", "acme_key", id="one", tenant="acme")
        assert theirs.status_code == 201, theirs.text
        assert (await home.until("one", who="acme_key", tenant="acme"))["output"] == "OTHER"
        assert (await home.job("one"))["output"] == "HI"


@pytest.mark.req("RT-9")
async def test_a_key_makes_the_id_from_caller_and_key(house) -> None:
    async with house(shout) as home:
        first = await home.start("shout", "hi", key="k1")
        again = await home.start("shout", "hi", key="k1")
        assert (first.status_code, again.status_code, again.json()["retried"]) == (201, 200, True)
        assert first.json()["id"] == again.json()["id"]
        others = await home.start("shout", "hi", "omar", key="k1")
        assert others.status_code == 201
        assert others.json()["id"] != first.json()["id"]
        assert (await home.start("shout", "hi", key="k2")).json()["id"] != first.json()["id"]


@pytest.mark.req("RT-9", "RT-2")
async def test_where_an_id_is_given_the_key_does_not_count(house) -> None:
    async with house(shout) as home:
        assert (await home.start("shout", "hi", key="k1", id="one")).json()["id"] == "one"
        assert (await home.start("shout", "hi", key="k2", id="one")).json()["retried"] is True
        assert (await home.start("shout", "other", key="k1")).status_code == 201


@pytest.mark.req("RT-10")
async def test_an_id_that_the_edge_made_is_nobodys_retry(house) -> None:
    async with house(shout) as home:
        job = (await home.ran("shout", "hi"))["id"]
        conflict(await home.start("shout", "hi", id=job), job)
        other = await home.started("shout", "hi")
        assert other != job


@pytest.mark.req("RT-11", "RT-8", "RT-6")
async def test_an_id_stays_taken_over_a_restart(house, tmp_path) -> None:
    async with house(shout, data=str(tmp_path / "d")) as home:
        await home.ran("shout", "hi", id="one")
        keyed = (await home.ran("shout", "hi", key="k1"))["id"]
    async with house(shout, data=str(tmp_path / "d")) as home:
        assert (await home.start("shout", "hi", id="one")).json()["retried"] is True
        assert (await home.start("shout", "hi", key="k1")).json()["id"] == keyed
        conflict(await home.start("shout", "ho", id="one"), "one")


@pytest.mark.req("RT-12")
@pytest.mark.parametrize("by", ["id", "key"])
async def test_two_hundred_equal_starts_at_once_make_one_job(house, by) -> None:
    ran = []

    async def once(ctx: Context, input):
        ran.append(ctx.job.id)
        return "done"

    async with house(once) as home:
        answers = []

        async def one() -> None:
            answers.append(await home.start("once", "hi", **({"id": "one"} if by == "id" else {"key": "k"})))

        async with anyio.create_task_group() as tasks:
            for _ in range(200):
                tasks.start_soon(one)
        assert sorted(a.status_code for a in answers) == [200] * 199 + [201]
        assert {a.json()["retried"] for a in answers if a.status_code == 200} == {True}
        (job,) = {a.json()["id"] for a in answers}
        await home.until(job)
        assert ran == [job]
        assert await home.jobs() == [job]
        assert await home.audited("run.start") == 1


@pytest.mark.req("RT-12", "RT-7")
async def test_different_starts_racing_for_one_id_make_one_job(house) -> None:
    async with house(shout) as home:
        answers = []

        async def one(n: int) -> None:
            answers.append((n, await home.start("shout", f"hi {n}", id="one")))

        async with anyio.create_task_group() as tasks:
            for n in range(50):
                tasks.start_soon(one, n)
        assert sorted(a.status_code for _, a in answers) == [201] + [409] * 49
        (won,) = [n for n, a in answers if a.status_code == 201]
        assert (await home.until("one"))["output"] == f"HI {won}"
