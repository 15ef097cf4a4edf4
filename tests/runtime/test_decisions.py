"""Decisions: one stands, whoever else decides at the same moment; the waiting job goes on once."""

import anyio
import pytest

from transom_hookspecs import Context, Rule, function, tool

pytestmark = pytest.mark.anyio


class Counted:
    def __init__(self) -> None:
        self.calls = 0

    async def act(self) -> str:
        self.calls += 1
        return "acted"

    def tools(self, **rule):
        return (tool("t", function(self.act, open_world=False, approval=Rule(**rule))),)


async def actor(ctx: Context, input):
    try:
        return await ctx.call("t.act")
    except Exception as error:
        return f"no: {error}"


@pytest.mark.req("RT-12")
@pytest.mark.parametrize("words", [("approve",), ("deny",), ("approve", "deny")], ids=" and ".join)
async def test_two_hundred_decisions_at_once_decide_once(house, words) -> None:
    counted = Counted()
    async with house(actor, tools=counted.tools()) as home:
        job = await home.started("actor")
        (wait,) = await home.waits()
        answers = []

        async def decide(n: int) -> None:
            word, who = words[n % len(words)], ("omar", "ada")[n // 2 % 2]
            answers.append((word, who, await home.post(f"/v1/approvals/{wait['id']}/{word}", who, json={})))

        async with anyio.create_task_group() as tasks:
            for n in range(200):
                tasks.start_soon(decide, n)
        decided = [(word, who, a) for word, who, a in answers if a.json().get("result") == "decided"]
        assert len(decided) == 1
        (word, who, won) = decided[0]
        outcome = {"approve": "approved", "deny": "denied"}[word]
        assert won.json()["outcome"] == outcome
        for same_word, same_who, answer in answers:
            if answer is won:
                continue
            if (same_word, same_who) == (word, who):
                assert (answer.status_code, answer.json()["result"]) == (200, "already_decided")
            else:
                assert (answer.status_code, answer.json()["details"]["reason"]) == (409, "already_decided")
                assert answer.json()["details"]["outcome"] == outcome
        ended = await home.until(job)
        assert counted.calls == (word == "approve")
        assert ended["output"].startswith("acted" if word == "approve" else "no: ")
        assert sum(e["type"] == "wait.decided" for _, e in await home.events(job)) == 1
        # Fails: each decision that came too late is in the audit trail too, as if it had been made.
        assert await home.audited("approval.decide", job) == 1
        # Fails at times: waking a branch that is cancelled raises InvalidStateError.
        assert (await home.get("/healthz")).status_code == 200


async def test_a_decision_right_when_the_wait_opens_is_never_lost(house) -> None:
    counted = Counted()
    async with house(actor, tools=counted.tools()) as home:
        for n in range(1, 31):
            job = await home.started("actor")
            (wait,) = await home.waits(job=job)
            assert (await home.post(f"/v1/approvals/{wait['id']}/approve", "omar", json={})).status_code == 200
            assert (await home.until(job))["output"] == "acted"
            assert counted.calls == n


async def test_a_wait_past_its_deadline_is_declined_whoever_looks_first(house) -> None:
    async with house() as home:
        job = await home.started("brief")
        (wait,) = await home.waits()
        ended = await home.until(job)
        assert ended["output"] == "Nobody answered in time."
        late = await home.post(f"/v1/approvals/{wait['id']}/answer", json={"answer": "yes"})
        assert (late.status_code, late.json()["details"]["outcome"]) == (409, "expired")
        (decided,) = [e for _, e in await home.events(job) if e["type"] == "wait.decided"]
        assert (decided["outcome"], decided["by"]) == ("expired", "system:expiry")


ANSWERS = {
    "none of the choices": ({"answer": "purple"}, 400),
    "another type": ({"answer": 1}, 400),
    "none": ({}, 400),
    "an unknown field": ({"answer": "red", "x": 1}, 400),
    "a changed token": ({"answer": "red", "token": "ozi1.x"}, 400),
    "no JSON": (b"{", 400),
}


@pytest.mark.parametrize(("body", "status"), ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_that_will_not_do_is_refused_and_the_wait_stays(house, body, status) -> None:
    async with house() as home:
        job = await home.started("asker")
        (wait,) = await home.waits()
        options = (
            {"content": body, "headers": {"Content-Type": "application/json"}} if isinstance(body, bytes) else {"json": body}
        )
        answer = await home.post(f"/v1/approvals/{wait['id']}/answer", **options)
        assert answer.status_code == status, answer.text
        assert (await home.job(job))["approvals"][0] == wait | {"canDecide": (await home.job(job))["approvals"][0]["canDecide"]}
        assert (await home.post(f"/v1/approvals/{wait['token']}/answer", json={"answer": "red"})).status_code == 200
        assert (await home.until(job))["output"] == "You chose red."


@pytest.mark.parametrize(
    ("agent", "who", "word", "status"),
    [
        ("helper", "anna", "approve", 403),
        ("helper", "rita", "approve", 403),
        ("helper", "deskapp", "approve", 401),
        ("helper", "omar", "approve", 200),
        ("pair", "anna", "approve", 403),
        ("pair", "omar", "approve", 200),
        ("typed", "omar", "approve", 400),
        ("typed", "omar", "deny", 200),
    ],
)
async def test_who_may_decide_what(house, agent, who, word, status) -> None:
    async with house() as home:
        job = await home.started(agent)
        (wait,) = await home.waits()
        answer = await home.post(f"/v1/approvals/{wait['id']}/{word}", who, json={})
        assert answer.status_code == status, answer.text
        if status == 200:
            await home.until(job)
        else:
            assert len((await home.get("/v1/approvals", "ada")).json()["approvals"]) == 1
            assert (await home.job(job))["status"] in ("running", "waiting")


async def test_two_calls_that_wait_are_decided_apart(house) -> None:
    async with house() as home:
        job = await home.started("two_calls")
        with anyio.fail_after(5):
            while len(waits := await home.waits()) < 2:
                await anyio.sleep(0.01)
        by_channel = {wait["shown"]["channel"]: wait["id"] for wait in waits}
        await home.post(f"/v1/approvals/{by_channel['#support']}/approve", "omar", json={})
        assert len(await home.waits()) == 1
        await home.post(f"/v1/approvals/{by_channel['#design']}/deny", "omar", json={"comment": "not them"})
        ended = await home.until(job)
        assert "I did not greet #design." in ended["output"]
        assert "I greeted #support." in ended["output"]
