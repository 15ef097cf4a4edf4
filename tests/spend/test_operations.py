"""Setting prices, quotas and budgets: what is refused, what is listed, who may, and what is audited."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_kit import hooks_plugin
from kernel_kit import OPERATOR

from transom.config import load
from transom.plugins import load as load_plugins
from transom_hookspecs import TokenCount, TransomError, Verdict
from transom_spend import SpendPlugin
from transom_spend.money import Meter, amount, price_of, spelled
from transom_spend.requests import (
    BudgetView,
    DeleteBudget,
    DeleteQuota,
    ListBudgets,
    ListPrices,
    ListQuotas,
    PriceView,
    SetBudget,
    SetPrice,
    SetQuota,
)

from .conftest import ADA, ANNA

pytestmark = [pytest.mark.anyio, pytest.mark.req("IDN-4")]


def price(input=1.0, output=1.0, cached=None, model="m"):
    return SetPrice(model=model, input_usd_per_million=input, output_usd_per_million=output, cached_usd_per_million=cached)


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (price(input=-1.0), "input_usd_per_million"),
        (price(output=math.nan), "output_usd_per_million"),
        (price(cached=math.inf), "cached_usd_per_million"),
        (price(input=10_000.5), "10,000 USD for a million"),
        (price(output=None), "give both"),
        (price(model=""), "model"),
        (price(model="a\nb"), "model"),
        (SetQuota(kind="caller", name="anna", what="usd", window="day", limit=1), "person:anna"),
        (SetQuota(kind="caller", name="martian:x", what="usd", window="day", limit=1), "martian:x"),
        (SetQuota(kind="agent", name="nobody", what="usd", window="day", limit=1), "nobody"),
        (SetQuota(kind="team", name="no team", what="usd", window="day", limit=1), "no team"),
        (SetQuota(kind="tenant", name="acme", what="usd", window="day", limit=1), "'default' itself"),
        (SetQuota(kind="tenant", name="*", what="usd", window="day", limit=-0.01), "limit"),
        (SetQuota(kind="tenant", name="*", what="usd", window="day", limit=math.nan), "limit"),
        (SetQuota(kind="tenant", name="*", what="tokens", window="day", limit=1e300), "limit"),
        (SetQuota(kind="tenant", name="*", what="jobs", window="day", limit=1.5), "whole"),
        (SetQuota(kind="tenant", name="*", what="jobs", window="day", limit=1, policy="wait"), "a start cannot wait"),
        (SetBudget(name="b"), "give one of them"),
        (SetBudget(name="b b", usd=1), "no name"),
        (SetBudget(name="b", usd=math.inf), "usd"),
        (SetBudget(name="b", tokens=-1), "tokens"),
        (SetBudget(name="b", usd=1, agent="asker"), "set default too"),
        (SetBudget(name="b", usd=1, agent="nobody", default=True), "nobody"),
        (DeleteBudget(name="b"), "budget list"),
        (DeleteQuota(kind="tenant", name="*", what="usd", window="day"), "quota list"),
        (ListQuotas(limit=0), "limit"),
    ],
    ids=str,
)
async def test_a_slip_is_refused_when_it_is_set_and_harms_nobody(house, request_, named):
    async with house() as h:
        with pytest.raises(TransomError) as refused:
            await h.call(request_)
        assert refused.value.code in ("invalid_argument", "not_found")
        assert named in refused.value.message
        assert (await h.ran()).status == "completed"


async def test_prices_are_listed_and_one_that_is_set_stands_in_for_that_of_the_settings(house):
    config = {"spend": {"prices": {"a": {"input": 1.25, "output": 10.0, "cached": 0.125}, "b": {"input": 1, "output": 2}}}}
    async with house(config=config) as h:
        await h.call(price(0.15, 0.6, model="b"))
        listed = (await h.call(ListPrices())).prices
    assert listed == (
        PriceView(
            model="a",
            input_usd_per_million=1.25,
            output_usd_per_million=10.0,
            cached_usd_per_million=0.125,
            source="settings",
        ),
        PriceView(model="b", input_usd_per_million=0.15, output_usd_per_million=0.6, cached_usd_per_million=0.15, source="set"),
    )


@pytest.mark.parametrize("wrong", ["-1", "nan", "inf", "10_001.0", '"dear"'])
def test_a_mistyped_price_of_the_settings_stops_the_start_and_names_itself(tmp_path, wrong):
    file = tmp_path / "transom.toml"
    file.write_text(f'[spend.prices."gpt"]\ninput = {wrong}\noutput = 1.0\n')
    with pytest.raises(TransomError, match="input"):
        load_plugins(load(str(file)), [SpendPlugin])


async def test_quotas_are_listed_with_what_is_used_those_for_each_by_who_uses_most(house, clock):
    async with house(clock=clock) as h:
        await h.quota("caller", "*", "tokens", "day", 1000)
        await h.quota("caller", "person:bob", "tokens", "day", 10)
        await h.quota("tenant", "default", "usd", "total", 2.5, policy="wait")
        (empty, *_) = await h.quotas()
        await h.price()
        await h.ran(job="a")
        await h.ran(job="b", who=ADA, input=2)
        listed = [(q.kind, q.rule, q.name, q.limit, q.used, q.policy, q.resets_at > clock.now()) for q in await h.quotas()]
        assert (empty.name, empty.used) == ("*", 0)
        assert len(await _limited(h, 1)) == 3
    assert listed == [
        ("caller", "*", "person:ada", 1000, 30, "refuse", True),
        ("caller", "*", "person:anna", 1000, 15, "refuse", True),
        ("caller", "person:bob", "person:bob", 10, 0, "refuse", True),
        ("tenant", "default", "default", 2.5, 0.45, "wait", False),
    ]


async def _limited(h, limit):
    return (await h.call(ListQuotas(limit=limit))).quotas


async def test_a_quota_that_is_set_again_has_its_new_limit_and_what_was_counted(house):
    async with house() as h:
        await h.quota("caller", "*", "jobs", "day", 5)
        await h.ran("idler")
        again = await h.quota("caller", "*", "jobs", "day", 3)
        assert (again.limit, again.used, len(await h.quotas())) == (3, 1, 1)
        gone = await h.call(DeleteQuota(kind="caller", name="*", what="jobs", window="day"))
        assert (gone.used, await h.quotas()) == (1, [])


async def test_budgets_are_listed_without_those_that_were_deleted(house):
    async with house() as h:
        await h.budget("b", usd=0.5, tokens=9, policy="wait", default=True, agent="asker")
        await h.budget("gone", tokens=1)
        await h.call(DeleteBudget(name="gone"))
        listed = (await h.call(ListBudgets())).budgets
    assert listed == (BudgetView(name="b", usd=0.5, tokens=9, policy="wait", agent="asker", default=True),)


CHANGES = [
    (price(), "price.set", "m"),
    (SetQuota(kind="tenant", name="*", what="usd", window="day", limit=1), "quota.set", "tenant default usd day"),
    (DeleteQuota(kind="tenant", name="*", what="usd", window="day"), "quota.delete", "tenant default usd day"),
    (SetBudget(name="b", usd=1), "budget.set", "b"),
    (DeleteBudget(name="b"), "budget.delete", "b"),
]
READS = [ListPrices(), ListQuotas(), ListBudgets()]


async def test_every_change_is_audited(house):
    async with house() as h:
        for request, action, object in CHANGES:
            await h.call(request, ADA)
            (entry,) = await h.audited(action)
            assert (entry.caller, entry.object, entry.outcome) == ("person:ada", object, "ok")


async def test_changes_need_one_permission_and_lists_another(house):
    asked = []

    def watch(access):
        asked.append(access.permission)
        return Verdict(ruling="allow")

    plugin = type("WatchPlugin", (hooks_plugin(authorize=watch),), {"name": "watch"})
    async with house(plugins=(plugin,)) as h:
        for request in [request for request, *_ in CHANGES] + READS:
            asked.clear()
            await h.call(request)
            assert asked == ["spend.read" if request in READS else "spend.manage"]


async def test_tenants_have_their_own(house):
    async with house(config={"tenants": ["default", "acme"]}) as h:
        await h.quota("tenant", "*", "jobs", "total", 0)
        await h.budget("b", tokens=1)
        there = msgspec.structs.replace(OPERATOR, tenant="acme")
        assert (await h.kernel.call("ListQuotas", ListQuotas(), there)).quotas == ()
        assert (await h.kernel.call("ListBudgets", ListBudgets(), there)).budgets == ()
        await h.start("idler", who=there)
        await h.refused("idler", who=ANNA)


async def test_what_another_process_set_holds_here_after_a_moment(kernel, tmp_path):
    from job_kit import eventually, on_disk, start
    from kernel_kit import agents_plugin

    from .conftest import House, Meant, idler, judge

    model = Meant()
    plugins = (agents_plugin(idler), hooks_plugin(register_models=lambda: [model], authorize=judge), SpendPlugin)
    async with (
        kernel(**on_disk(*plugins, data=str(tmp_path))) as one,
        kernel(**on_disk(*plugins, data=str(tmp_path))) as two,
    ):
        await start(one, "idler", "before")
        await House(two, model).quota("tenant", "*", "jobs", "total", 0)

        async def refused():
            try:
                await start(one, "idler", f"job{len(tried)}")
            except TransomError as error:
                return error.details["type"]
            tried.append(1)
            return None

        tried = []
        assert await eventually(refused) == "oz0_quota_exceeded"


# -- money --------------------------------------------------------------------------------------------------

usd = st.floats(0, 10_000, allow_nan=False)


@given(usd, usd, st.one_of(st.none(), usd), st.integers(0, 10**7), st.integers(0, 10**7), st.integers(0, 10**7))
def test_the_bound_is_never_below_the_cost(input, output, cached, read, said, of_cache):
    meter = Meter(None, price_of("m", input, output, cached))
    count = TokenCount(input_tokens=read, output_tokens=said, cached_tokens=of_cache)
    assert 0 <= meter.cost(count) <= meter.most(read, said)


@pytest.mark.parametrize(("usd", "micro"), [(0.07, 70_000), (1e-9, 1), (0.15, 150_000), (10_000, 10_000_000_000), (0, 0)])
def test_a_price_is_kept_exactly_and_one_that_is_almost_nothing_is_not_free(usd, micro):
    assert price_of("m", usd, usd, None).input == micro


@pytest.mark.parametrize(
    ("given", "what", "words"),
    [(0.3, "usd", "0.30 USD"), (0.000_012, "usd", "0.000012 USD"), (1234.5, "usd", "1,234.50 USD"), (1, "jobs", "1 job")],
)
def test_amounts_are_spelled(given, what, words):
    assert spelled(amount(given, what, "limit"), what) == words
