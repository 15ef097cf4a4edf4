"""Budget waits: a call that finds no room waits for an admin, whose yes raises the cap by what the call needs."""

import pytest
from job_kit import ended, eventually, hooks_plugin, on_disk, open_waits, resting, start
from kernel_kit import CrashingStore, agents_plugin

from transom_hookspecs import (
    DecideApproval,
    GetJobWait,
    ListApprovals,
    TokenCount,
    TransomError,
    TreeRunning,
    TreeWaiting,
    WaitDecided,
    WaitOpened,
)
from transom_spend import SpendPlugin
from transom_spend.records import Extension
from transom_spend.requests import DeleteQuota

from .conftest import ADA, ANNA, House, Meant, asker, judge

pytestmark = [pytest.mark.anyio, pytest.mark.req("IDN-5", "AGUI-32")]


async def waiting(h, job="job"):
    """The one wait of a job, once it rests on it."""
    (wait,) = await open_waits(h.kernel, job)
    await resting(h.kernel, job)
    return wait


async def decide(h, wait, approved, who=ADA, **more):
    return await h.kernel.call("DecideApproval", DecideApproval(wait=wait.id, approved=approved, **more), who)


async def test_a_call_that_finds_no_room_waits_and_a_yes_raises_the_cap_by_what_it_needs(house, events):
    async with house() as h:
        await h.price()
        await h.budget("b", usd=1.1, policy="wait")
        seen = []

        async def look():
            seen.extend(await h.counters("tree"))
            return TokenCount(input_tokens=10, output_tokens=80)

        h.model.answers = [TokenCount(input_tokens=10, output_tokens=20), look]
        await h.start(input=2, budget="b")
        wait = await waiting(h)
        assert len(h.model.asked) == 1
        for part in ("'b'", "of 1.10 USD", "0.30 used", "no room for 1.00 USD", "A yes raises"):
            assert part in wait.message
        assert (wait.kind, wait.schema, wait.rule.deciders, wait.rule.reason) == ("budget", {}, ("role:admin",), "budget")
        assert wait.expires_at - wait.opened_at == 7 * 86_400_000
        assert wait.shown["requested"] == 1.0
        assert (await decide(h, wait, True)).result == "decided"
        view = await ended(h.kernel)
        log = await events(h.kernel, "job")
        (counter,) = await h.counters("tree")
        (extension,) = await h.kernel.store.transact("default", lambda tx: [tx.get(Extension, "job", "2", 1, *_COUNTER)])
        (granted,) = await h.audited("budget.extend")
    assert view.output == "ok ok"
    assert [(c.extra, c.used, c.reserved) for c in seen] == [(200_000, 300_000, 1_000_000)]  # 0.30 + 1.00 - 1.10
    assert (counter.extra, counter.used, counter.reserved) == (100_000, 1_200_000, 0), "what it did not need is given back"
    assert (extension.amount, extension.by) == (200_000, "person:ada")
    assert (granted.caller, granted.object, granted.details["amount"]) == ("person:ada", "job", 0.2)
    assert [len(log.of(kind)) for kind in (WaitOpened, TreeWaiting, WaitDecided, TreeRunning)] == [1, 1, 1, 1]


_COUNTER = ("tree", "job", "usd", "total")


@pytest.mark.parametrize(("approved", "word"), [(False, "denied: too dear"), (None, "expired")])
async def test_a_no_or_silence_fails_the_step_with_the_refusal(house, clock, approved, word):
    async with house(clock=clock) as h:
        await h.budget("b", tokens=50, policy="wait")
        await h.start(budget="b")
        wait = await waiting(h)
        if approved is None:
            clock.forward(7 * 86_400 + 1)
            await h.kernel.call("ListApprovals", ListApprovals(), ADA)  # whoever looks declines what is overdue
        else:
            await decide(h, wait, False, comment="too dear")
        view = await ended(h.kernel)
        assert await h.holds() == []
        assert h.model.asked == []
    assert view.error.code == "resource_exhausted"
    assert (view.error.details["type"], view.error.details["could_wait"]) == ("oz0_budget_exceeded", True)
    assert word in view.error.message


async def test_nobody_but_an_admin_decides(house):
    async with house() as h:
        await h.budget("b", tokens=50, policy="wait")
        await h.start(budget="b")
        wait = await waiting(h)
        with pytest.raises(TransomError) as refused:
            await decide(h, wait, True, who=ANNA)
        assert refused.value.details["reason"] == "not_a_decider"
        assert (await h.kernel.call("GetJobWait", GetJobWait(id="job"), ANNA)).why.endswith("role:admin.")


async def test_a_cap_that_cannot_wait_refuses_at_once_whatever_other_caps_could(house):
    async with house() as h:
        await h.budget("b", tokens=50, policy="wait")
        await h.quota("caller", "*", "tokens", "day", 60)
        refused = (await h.ran(budget="b")).error
    assert (refused.details["type"], refused.details["could_wait"]) == ("oz0_quota_exceeded", False)


async def test_every_cap_that_has_no_room_is_raised_by_one_yes(house):
    async with house() as h:
        await h.budget("b", tokens=50, policy="wait")
        await h.quota("caller", "*", "tokens", "day", 60, policy="wait")
        await h.start(budget="b")
        await decide(h, await waiting(h), True)
        await ended(h.kernel)
        assert {entry.details["kind"]: entry.details["amount"] for entry in await h.audited("budget.extend")} == {
            "tree": 50,
            "caller": 40,
        }
        assert {c.kind: (c.extra, c.used) for c in await h.counters()} == {"tree": (0, 15), "caller": (0, 15)}


async def test_what_was_granted_is_for_one_call_and_the_next_waits_again(house):
    async with house() as h:
        await h.budget("b", tokens=50, policy="wait")
        h.model.answers = [TokenCount(input_tokens=10, output_tokens=90)] * 2
        await h.start(input=2, budget="b")
        first = await waiting(h)
        await decide(h, first, True)
        await eventually(lambda: _is_another(h, first))
        second = await waiting(h)
        assert (second.step, second.shown["limit"], second.shown["used"]) == ("2", 100, 100)
        await decide(h, second, False)
        assert (await ended(h.kernel)).status == "failed"


async def _is_another(h, first):
    return [wait for wait in await open_waits(h.kernel) if wait.id != first.id]


async def test_a_yes_to_a_cap_that_is_gone_meanwhile_raises_nothing(house):
    async with house() as h:
        await h.quota("caller", "*", "tokens", "day", 50, policy="wait")
        await h.start()
        wait = await waiting(h)
        await h.call(DeleteQuota(kind="caller", name="*", what="tokens", window="day"))
        await decide(h, wait, True)
        assert (await ended(h.kernel)).output == "ok"
        assert await h.audited("budget.extend") == []


async def test_a_yes_does_not_help_against_a_cap_that_became_final_meanwhile(house):
    async with house() as h:
        await h.quota("caller", "*", "tokens", "day", 50, policy="wait")
        await h.start()
        wait = await waiting(h)
        await h.quota("caller", "*", "tokens", "day", 50)
        await decide(h, wait, True)
        assert (await ended(h.kernel)).error.details["could_wait"] is False


async def test_other_branches_go_on_while_one_waits(house):
    async def two(ctx, input):
        async def thinks(b):
            return (await b.model("m", [], max_tokens=90)).text

        async def works(b):
            await b.sleep(0.05)
            return "worked"

        return await ctx.together(thinks, works)

    async with house(two) as h:
        await h.budget("b", tokens=50, policy="wait")
        await h.start("two", budget="b")
        wait = await waiting(h)
        assert wait.step == "1.1.1"
        await decide(h, wait, True)
        assert (await ended(h.kernel)).output == ["ok", "worked"]


async def test_a_yes_while_another_branch_works_is_acted_upon_at_once(house):
    async def two(ctx, input):
        async def thinks(b):
            return (await b.model("m", [], max_tokens=90)).text

        async def works(b):
            return await b.call("t.wait")

        return await ctx.together(thinks, works)

    import anyio

    from transom_hookspecs import tool

    release = anyio.Event()

    async def wait() -> str:
        await release.wait()
        return "worked"

    class Tools:
        name = "tools"
        spec = "1.0"

        def __init__(self, config): ...

    plugin = type("ToolsPlugin", (hooks_plugin(register_tools=lambda: [tool("t", wait)]),), {"name": "tools"})
    async with house(two, plugins=(plugin,)) as h:
        await h.budget("b", tokens=50, policy="wait")
        await h.start("two", budget="b")
        (waits,) = await open_waits(h.kernel)
        await decide(h, waits, True)
        await eventually(lambda: _made(h))
        release.set()
        assert (await ended(h.kernel)).output == ["ok", "worked"]


async def _made(h):
    return len(h.model.asked) == 1


@pytest.mark.parametrize("word", [True, False], ids=["yes", "no"])
async def test_a_wait_survives_a_restart_and_is_decided_after_it(kernel, tmp_path, word):
    model = Meant()
    plugins = (agents_plugin(asker), hooks_plugin(register_models=lambda: [model], authorize=judge), SpendPlugin)
    async with kernel(**on_disk(*plugins, data=str(tmp_path))) as k:
        await House(k, model).budget("b", tokens=50, policy="wait")
        await start(k, "asker", who=ANNA, budget="b")
        await waiting(House(k, model))
    async with kernel(**on_disk(*plugins, data=str(tmp_path))) as k:
        h = House(k, model)
        await decide(h, await waiting(h), word)
        view = await ended(k)
        assert (view.status, len(model.asked)) == (("completed", 1) if word else ("failed", 0))
        assert await h.holds() == []


async def test_a_crash_between_the_yes_and_the_call_neither_loses_nor_doubles_the_grant(kernel, tmp_path):
    model, store = Meant(), CrashingStore()
    plugins = (agents_plugin(asker), hooks_plugin(register_models=lambda: [model], authorize=judge), SpendPlugin)
    async with kernel(**on_disk(*plugins, store=store, data=str(tmp_path))) as k:
        h = House(k, model)
        await h.budget("b", tokens=50, policy="wait")
        await start(k, "asker", who=ANNA, budget="b")
        wait = await waiting(h)
        store.left = 1  # the decision is written, and nothing after it
        await decide(h, wait, True)
    async with kernel(**on_disk(*plugins, data=str(tmp_path))) as k:
        h = House(k, model)
        assert (await ended(k)).output == "ok"
        (counter,) = await h.counters("tree")
        assert (counter.extra, counter.used, counter.reserved) == (0, 15, 0)
        assert len(await h.audited("budget.extend")) == 1
