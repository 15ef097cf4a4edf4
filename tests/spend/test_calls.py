"""Model calls: held before, charged after, whatever becomes of them."""

import anyio
import msgspec
import pytest
from job_kit import ended, eventually, hooks_plugin, start
from kernel_kit import CrashingStore, agents_plugin

from transom_hookspecs import (
    CancelJob,
    Cost,
    ModelPrice,
    Priced,
    Step,
    TextCut,
    TokenCount,
    TransomError,
    Usage,
)
from transom_openai import ModelSettings, OpenaiModel
from transom_scripted.model import ScriptedModel
from transom_spend import SpendPlugin
from transom_spend.requests import DeleteBudget
from transom_spend.sweep import sweep

from .conftest import ADA, ANNA, House, Meant, asker, judge

pytestmark = [pytest.mark.anyio, pytest.mark.req("IDN-4")]


def _openai(prices):
    return msgspec.convert({"url": "http://127.0.0.1/v1", "model": "m", "prices": prices}, ModelSettings)


def _no_client():
    raise AssertionError("nothing is asked")


BOUND = 100
"""Tokens that a call may use: 10 of its prompt and 90 of its answer. At the tests' price that is 1 USD."""


async def test_a_call_is_held_at_its_upper_bound_and_charged_what_it_used(house):
    seen = []

    async def look():
        seen.append((await h.counters("tree"), await h.holds()))
        return TokenCount(input_tokens=10, output_tokens=5)

    async with house() as h:
        await h.price()
        await h.budget("b", usd=1.5, tokens=1000)
        h.model.answers = [look, look]
        view = await h.ran(input=2, budget="b")
        assert view.output == "ok ok"
        (first, holds), (second, _) = seen
        assert [(c.what, c.used, c.reserved) for c in first] == [("tokens", 0, 100), ("usd", 0, 1_000_000)]
        assert [(c.what, c.used, c.reserved) for c in second] == [("tokens", 15, 100), ("usd", 150_000, 1_000_000)]
        assert [(held.step, held.attempt, held.tokens) for held in holds] == [("1", 1, 100)]
        assert [(c.used, c.reserved) for c in await h.counters("tree")] == [(30, 0), (300_000, 0)]
        assert await h.holds() == []


async def test_a_call_that_finds_no_room_fails_its_step_with_the_numbers_and_is_never_made(house):
    async with house() as h:
        await h.price()
        await h.budget("b", usd=1.2)
        h.model.answers = [TokenCount(input_tokens=10, output_tokens=15)] * 2
        view = await h.ran(input=2, budget="b")
        assert len(h.model.asked) == 1
        (entry,) = await h.audited("run.refused")
    assert (view.status, view.error.code) == ("failed", "resource_exhausted")
    assert view.error.details == {
        "type": "oz0_budget_exceeded",
        "scope": {"kind": "tree", "name": "job"},
        "what": "usd",
        "window": "total",
        "limit": 1.2,
        "used": 0.25,
        "reserved": 0.0,
        "requested": 1.0,
        "could_wait": False,
        "raised_by": "an admin of the tenant",
    }
    assert "no room for 1.00 USD (0.25 used and 0.00 reserved of 1.20 USD in all)" in view.error.message
    assert (entry.object, entry.caller, entry.details["step"], entry.details["model"]) == ("job", "person:anna", "2", "m")


async def test_an_agent_may_go_on_after_a_refusal(house):
    async def careful(ctx, input):
        try:
            await ctx.model("m", [])
        except TransomError as error:
            await ctx.sleep(0.01)  # another life replays the refusal
            return error.details["type"]

    async with house(careful) as h:
        await h.budget("b", tokens=50)
        assert (await h.ran("careful", budget="b")).output == "oz0_budget_exceeded"
        assert len(await h.audited("run.refused")) == 1


@pytest.mark.parametrize(("kind", "name"), [("caller", "person:anna"), ("team", "*"), ("agent", "asker"), ("tenant", "*")])
async def test_quotas_cap_calls_of_all_jobs_of_their_scope(house, kind, name):
    async with house() as h:
        await h.quota(kind, name, "tokens", "total", 120)
        await h.ran(job="a", team="blue")
        view = await h.ran(job="b", input=3, team="blue")
        assert view.error.details["scope"]["kind"] == kind
        assert await h.used() == 30  # 15 each; the third finds 120 - 30 < 100


async def test_the_whole_tree_shares_a_budget(house):
    async with house() as h:
        await h.budget("b", tokens=130)
        view = await h.ran("boss", input={"agent": "asker", "input": 4}, budget="b")
        assert view.error.details["scope"] == {"kind": "tree", "name": "job"}
        assert [(c.name, c.used, c.reserved) for c in await h.counters("tree")] == [("job", 45, 0)]


async def test_more_than_the_bound_is_charged_in_full_and_the_excess_shown(house):
    async with house() as h:
        await h.quota("tenant", "*", "tokens", "total", 400)
        h.model.answers = [TokenCount(input_tokens=200, output_tokens=150)]
        view = await h.ran(input=2, who=ADA)
        (quota,) = await h.quotas()
    assert (quota.used, quota.reserved, quota.excess) == (350, 0, 250)
    assert view.error.details["used"] == 350


async def test_a_provider_that_reports_nothing_is_charged_the_bound(house, events):
    async with house() as h:
        await h.price()
        await h.budget("b", usd=5)
        h.model.answers = [TokenCount()]
        view = await h.ran(budget="b")
        log = await events(h.kernel, "job")
        assert [c.used for c in await h.counters("tree")] == [1_000_000]
    (usage,) = log.of(Usage)
    assert (usage.input_tokens, usage.output_tokens, usage.usd, usage.estimated) == (10, 90, 1.0, True)
    assert view.cost.usd == 1.0


@pytest.mark.parametrize("usd", [float("nan"), float("inf"), -3.0])
async def test_a_cost_that_is_no_amount_counts_as_none_reported(house, usd):
    async with house() as h:
        await h.price()
        await h.budget("b", usd=5)
        h.model.answers = [TokenCount(input_tokens=-4, output_tokens=5, usd=usd)]
        assert (await h.ran(budget="b")).cost.usd == 0.05


# -- prices -------------------------------------------------------------------------------------------------


async def test_a_price_gives_a_call_its_cost_without_any_cap(house):
    async with house() as h:
        await h.price(input=2, output=8)
        h.model.answers = [TokenCount(input_tokens=1_000_000, output_tokens=250_000)]
        view = await h.ran()
        (cost,) = await h.kernel.store.select("default", Cost, "tree", {"tree": "job"})
        assert await h.holds() == await h.counters() == []
    assert (view.cost.usd, cost.micro_usd) == (4.0, 4_000_000)


async def test_cached_tokens_have_their_own_price(house):
    config = {"spend": {"prices": {"m": {"input": 2.0, "output": 8.0, "cached": 0.5}}}}
    async with house(config=config) as h:
        h.model.answers = [TokenCount(input_tokens=1_000_000, cached_tokens=400_000)]
        assert (await h.ran()).cost.usd == pytest.approx(1.4)


async def test_what_the_provider_says_a_call_cost_stands(house):
    async with house() as h:
        await h.price()
        await h.budget("b", usd=5)
        h.model.answers = [TokenCount(input_tokens=10, output_tokens=5, usd=0.4)]
        assert (await h.ran(budget="b")).cost.usd == 0.4
        assert [c.used for c in await h.counters("tree")] == [400_000]


@pytest.mark.parametrize("cap", ["budget", "quota"])
async def test_money_is_never_spent_in_silence_on_a_model_without_a_price(house, cap):
    async with house() as h:
        await h.budget("b", usd=1)
        if cap == "quota":
            await h.quota("tenant", "*", "usd", "day", 1)
        view = await h.ran(budget="b" if cap == "budget" else "")
        assert (view.error.code, view.error.details["reason"]) == ("failed_precondition", "no_price")
        assert h.model.asked == []
        await h.price(0, 0)
        assert (await h.ran(job="free", budget="b" if cap == "budget" else "")).status == "completed"


async def test_a_model_that_knows_its_price_needs_none_to_be_set(house):
    async with house() as h:
        h.model.price = ModelPrice(input=10_000_000_000, output=10_000_000_000, cached=0)
        await h.budget("b", usd=0.9)
        assert (await h.ran(budget="b")).error.details["requested"] == 1.0


@pytest.mark.parametrize(
    ("model", "price"),
    [
        (ScriptedModel(usd_per_input_token=2e-6, usd_per_output_token=8e-6), (2_000_000, 8_000_000, 2_000_000)),
        (OpenaiModel("m", _openai({"input": 2.5, "output": 10, "cached": 0.25}), _no_client), (2_500_000, 10_000_000, 250_000)),
        (OpenaiModel("m", _openai({"input": 2.5, "output": 10}), _no_client), (2_500_000, 10_000_000, 2_500_000)),
        (OpenaiModel("m", _openai(None), _no_client), None),
    ],
    ids=["scripted", "openai", "openai, nothing cached", "openai without prices"],
)
def test_built_in_models_tell_their_price(model, price):
    assert isinstance(model, Priced)
    told = model.price
    assert (told and (told.input, told.output, told.cached)) == price


async def test_a_free_model_is_called_after_all_was_used(house):
    async with house() as h:
        await h.price()
        await h.budget("b", usd=1)
        h.model.answers = [TokenCount(input_tokens=10, output_tokens=200)]
        await h.start(input=2, budget="b")
        await eventually(lambda: _asked(h, 1))
        await h.price(0, 0)
        assert (await ended(h.kernel)).status in ("completed", "failed")
        await h.ran(job="two", budget="b", input=1)
        assert (await h.kernel.store.get("default", Step, "two", "1")).error is None


async def _asked(h: House, times: int) -> bool:
    return len(h.model.asked) >= times


# -- calls that end badly -----------------------------------------------------------------------------------


async def test_a_cut_attempt_is_charged_as_it_was_held_and_the_next_is_held_anew(house, events):
    async with house() as h:
        await h.budget("b", tokens=250)
        h.model.answers = [("half", TransomError("unavailable", "the line broke"))]
        view = await h.ran(budget="b")
        log = await events(h.kernel, "job")
        assert view.output == "ok"
        assert [(c.used, c.reserved) for c in await h.counters("tree")] == [(BOUND + 15, 0)]
        assert len(log.of(TextCut)) == 1
        assert await h.holds() == []


@pytest.mark.parametrize(
    ("code", "charged"),
    [("unavailable", 0), ("resource_exhausted", 0), ("invalid_argument", 0), ("deadline_exceeded", BOUND), ("internal", BOUND)],
)
async def test_an_attempt_that_was_never_answered_is_charged_when_it_may_have_cost_something(house, code, charged):
    async with house() as h:
        await h.budget("b", tokens=250)
        h.model.answers = [TransomError(code, "no")]
        await h.ran(budget="b")
        assert [(c.used, c.reserved) for c in await h.counters("tree")] == [(charged, 0)]


async def test_a_call_that_loses_a_race_is_charged_as_it_was_held(house):
    async def racer(ctx, input):
        return (await ctx.first(lambda b: b.model("m", [], max_tokens=90), lambda b: b.sleep(0.05)))[0]

    async with house(racer) as h:
        await h.budget("b", tokens=250)
        h.model.answers = [lambda: anyio.sleep(30)]
        assert (await h.ran("racer", budget="b")).output == 1
        assert [(c.used, c.reserved) for c in await h.counters("tree")] == [(BOUND, 0)]


async def test_what_a_cancelled_job_held_counts_until_it_is_settled_as_it_was_held(house):
    async with house() as h:
        await h.quota("tenant", "*", "tokens", "total", 150)
        h.model.answers = [lambda: anyio.sleep(30)]
        await h.start()
        await eventually(lambda: _asked(h, 1))
        await h.call(CancelJob(id="job"))
        (counter,) = await h.counters()
        assert (counter.used, counter.reserved) == (0, BOUND)
        view = await h.ran(job="next", who=ADA)
        assert view.error.details["reserved"] == BOUND
        (quota,) = await h.quotas()
        assert (quota.used, quota.reserved) == (BOUND, 0)
        await sweep(h.kernel, "default")
        assert await h.used() == BOUND


async def test_a_settlement_after_the_window_charges_the_window_that_held_it(house, clock):
    async def later():
        clock.forward(3600)
        return TokenCount(input_tokens=10, output_tokens=20)

    async with house(clock=clock) as h:
        await h.quota("tenant", "*", "tokens", "hour", 150)
        h.model.answers = [later]
        assert (await h.ran(input=2)).status == "completed"
        before, after = sorted(await h.counters(), key=lambda c: c.start)
        assert (before.used, before.reserved, after.used, after.reserved) == (30, 0, 15, 0)


async def test_a_budget_that_is_deleted_or_lowered_holds_for_jobs_that_have_it(house):
    async with house() as h:
        await h.budget("b", tokens=1000)

        async def delete():
            await h.call(DeleteBudget(name="b"))
            return TokenCount(input_tokens=10, output_tokens=895)

        h.model.answers = [delete]
        assert (await h.ran(input=2, budget="b")).error.details["limit"] == 1000
        await h.budget("b", tokens=1000)

        async def lower():
            await h.budget("b", tokens=50)
            return TokenCount(input_tokens=10, output_tokens=5)

        h.model.answers = [lower]
        assert (await h.ran(job="two", input=2, budget="b")).error.details["limit"] == 50


async def test_a_count_that_raises_names_the_model_and_fails_the_step_alone(house):
    async with house() as h:
        await h.budget("b", tokens=1000)

        def count(request):
            raise ZeroDivisionError

        h.model.count = count
        assert "model m" in (await h.ran(budget="b")).error.message
        assert (await h.ran(job="uncapped")).status == "completed"


# -- crashes ------------------------------------------------------------------------------------------------


async def test_a_second_worker_charges_the_attempt_of_the_first_and_holds_its_own(kernel, tmp_path, events):
    model, store = Meant(), CrashingStore()
    plugins = (agents_plugin(asker), hooks_plugin(register_models=lambda: [model], authorize=judge), SpendPlugin)
    from job_kit import on_disk

    model.answers = [lambda: anyio.sleep(30)]
    async with kernel(**on_disk(*plugins, store=store, data=str(tmp_path))) as k:
        h = House(k, model)
        await h.budget("b", tokens=250)
        await start(k, "asker", who=ANNA, budget="b")
        await eventually(lambda: _asked(h, 1))
        (held,) = await h.holds()
        assert held.attempt == 1
        store.left = 0
    async with kernel(**on_disk(*plugins, data=str(tmp_path))) as k:
        h = House(k, model)
        assert (await ended(k)).output == "ok"
        assert [(c.used, c.reserved) for c in await h.counters("tree")] == [(BOUND + 15, 0)]
        assert await h.holds() == []
        assert (await k.store.get("default", Step, "job", "1")).attempt == 2


async def test_an_attempt_whose_end_was_lost_in_a_crash_is_made_and_charged_again(kernel, tmp_path):
    """It ended, and the process died before that was written: what it really used is not known any more."""
    from job_kit import on_disk

    model, store = Meant(), CrashingStore()
    plugins = (agents_plugin(asker), hooks_plugin(register_models=lambda: [model], authorize=judge), SpendPlugin)

    async def crash():
        store.left = 0
        return TokenCount(input_tokens=10, output_tokens=5)

    model.answers = [crash]
    async with kernel(**on_disk(*plugins, store=store, data=str(tmp_path))) as k:
        await House(k, model).budget("b", tokens=150)
        await start(k, "asker", who=ANNA, budget="b")
        await eventually(lambda: _asked(House(k, model), 1))
        await anyio.sleep(0.1)
    async with kernel(**on_disk(*plugins, data=str(tmp_path))) as k:
        view = await ended(k)
        assert view.error.details["type"] == "oz0_budget_exceeded"
        assert view.error.details["used"] == BOUND


async def test_a_job_that_nothing_caps_costs_no_commit_more(house, monkeypatch):
    """The start, the text as it comes, the end: three, with the plugin as without."""
    commits = {}
    for name in ("without", "with a cap elsewhere"):
        async with house() as h:
            if name != "without":
                await h.quota("caller", "person:bob", "usd", "day", 0)
            transact, counted = h.kernel.store.transact, []

            async def counting(tenant, fn, *, relaxed=False, transact=transact, counted=counted):
                counted.append(fn)
                return await transact(tenant, fn, relaxed=relaxed)

            monkeypatch.setattr(h.kernel.store, "transact", counting)
            await h.ran()
            commits[name] = sum(tenant_fn is not None for tenant_fn in counted)
    assert len(set(commits.values())) == 1
    assert commits["without"] <= 4  # and the worker's enrolment
