"""Conversations: turns follow one another, one at a time, and belong to who began them."""

import anyio
import pytest

from transom_hookspecs import Context

pytestmark = pytest.mark.anyio


async def recall(ctx: Context, input):
    """Answer what was said before."""
    return " | ".join(f"{item.role}: {item.content}" for item in await ctx.history()) + f" > {input}"


async def asks(ctx: Context, input):
    return await ctx.ask("Well?")


async def slow(ctx: Context, input):
    await anyio.sleep(20)


async def breaks(ctx: Context, input):
    await ctx.say("Half of it.")
    raise ValueError("broken")


@pytest.mark.req("RT-2", "RT-33")
async def test_each_turn_sees_what_was_said_before(house) -> None:
    async with house(recall) as home:
        first = await home.ran("recall", "one", conversation="c1")
        assert (first["conversation"], first["turn"], first["output"]) == ("c1", 1, " > one")
        second = await home.ran("recall", "two", conversation="c1")
        assert (second["turn"], second["output"]) == (2, "user: one | assistant:  > one > two")
        third = await home.ran("recall", "three", continue_from=second["id"])
        assert (third["conversation"], third["turn"]) == ("c1", 3)
        assert third["output"].startswith("user: one | assistant:  > one | user: two | assistant: ")
        other = await home.ran("recall", "four", conversation="c2")
        assert other["output"] == " > four"


@pytest.mark.req("RT-2")
@pytest.mark.parametrize(("agent", "reason"), [("slow", "turn_running"), ("asks", "turn_waiting")])
async def test_a_turn_while_one_is_not_over_is_refused(house, agent, reason) -> None:
    async with house(recall, slow, asks) as home:
        job = await home.started(agent, conversation="c1", id="one")
        await home.events(job, until="tree.waiting" if agent == "asks" else "job.started")
        for how in ({"conversation": "c1"}, {"continue_from": "one"}):
            answer = await home.start("recall", "two", id="two", **how)
            assert (answer.status_code, answer.json()["code"]) == (409, "aborted")
            assert answer.json()["details"] == {"reason": reason, "job": "one"}
        assert await home.jobs() == ["one"]
        assert (await home.start(agent, conversation="c1", id="one")).json()["retried"] is True, "a retry is no second turn"
        await home.post("/v1/jobs/one/cancel", json={})
        assert (await home.ran("recall", "two", conversation="c1", id="two"))["turn"] == 2


@pytest.mark.req("RT-2")
async def test_of_turns_that_race_one_is_made(house) -> None:
    async with house(slow) as home:
        answers = []

        async def one() -> None:
            answers.append(await home.start("slow", "x", conversation="c1"))

        async with anyio.create_task_group() as tasks:
            for _ in range(30):
                tasks.start_soon(one)
        assert sorted(a.status_code for a in answers) == [201] + [409] * 29
        assert {a.json()["details"]["reason"] for a in answers if a.status_code == 409} == {"turn_running"}
        assert len(await home.jobs()) == 1


@pytest.mark.req("RT-33", "IDN-8")
@pytest.mark.parametrize("who", ["omar", "rita", "key"])
async def test_a_persons_conversation_is_not_for_others(house, who) -> None:
    async with house(recall) as home:
        first = await home.ran("recall", "secret", conversation="c1")
        for how in ({"conversation": "c1"}, {"continue_from": first["id"]}):
            answer = await home.start("recall", "what was said?", who, **how)
            assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied"), answer.text
        assert await home.jobs() == [first["id"]]
        assert (await home.ran("recall", "and on", conversation="c1"))["turn"] == 2


@pytest.mark.req("RT-33", "IDN-8")
async def test_a_conversations_name_is_the_tenants_own(house) -> None:
    async with house(recall) as home:
        await home.ran("recall", "secret", conversation="c1")
        theirs = await home.started("recall", "hello", "acme_key", conversation="c1", tenant="acme")
        assert (await home.until(theirs, who="acme_key", tenant="acme"))["output"] == " > hello"


@pytest.mark.req("RT-33")
async def test_one_that_a_key_began_belongs_to_the_tenant(house) -> None:
    async with house(recall) as home:
        await home.ran("recall", "one", "key", conversation="c1")
        assert (await home.ran("recall", "two", "anna", conversation="c1"))["turn"] == 2


@pytest.mark.req("RT-2")
async def test_to_go_on_from_what_is_no_turn_is_refused(house) -> None:
    async with house(recall) as home:
        alone = await home.ran("recall", "one")
        for job in (alone["id"], "nowhere"):
            answer = await home.start("recall", "two", continue_from=job)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        both = await home.start("recall", "two", conversation="c1", continue_from=alone["id"])
        assert both.status_code in (400, 404)
        assert await home.jobs() == [alone["id"]]


@pytest.mark.req("RT-33")
async def test_after_a_turn_that_failed_the_conversation_goes_on(house) -> None:
    async with house(recall, breaks) as home:
        assert (await home.ran("breaks", "one", conversation="c1"))["status"] == "failed"
        second = await home.ran("recall", "two", conversation="c1")
        assert second["output"] == "user: one | assistant: Half of it. > two"


async def test_a_refused_turn_leaves_no_message_behind(house) -> None:
    from transom_hookspecs import Agent

    strict = Agent(name="strict", run=recall, input_schema={"type": "string"})
    async with house(recall, strict) as home:
        assert (await home.start("strict", {"a": 1}, conversation="c1")).status_code == 400
        assert (await home.start("nobody", "x", conversation="c1")).status_code == 404
        first = await home.ran("recall", "one", conversation="c1")
        assert (first["turn"], first["output"]) == (1, " > one")
