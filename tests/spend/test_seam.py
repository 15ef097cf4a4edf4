"""The kernel's side: what any plugin may do with `before_model`, and how one that fails is contained."""

import sqlite3

import pytest
from job_kit import ended, hooks_plugin, on_disk, start
from kernel_kit import OPERATOR, agents_plugin

from transom_hookspecs import ModelEnd, ModelUse, TextDelta, TokenCount, TransomError
from transom_testing.doubles import FakeModel

from .conftest import boss, idler

pytestmark = pytest.mark.anyio


async def asks(ctx, input):
    return (await ctx.model("fake", [])).text


class Spends:
    """A plugin's answer that caps nothing and keeps what it was asked."""

    capped = True

    def __init__(self, **breaks) -> None:
        self.heard = []
        self.breaks = breaks

    def _said(self, what, *values):
        self.heard.append((what, *values))
        if what in self.breaks:
            raise self.breaks[what]

    def reserve(self, tx, *, granted=""):
        self._said("reserve", granted)

    def settle(self, tx, usage):
        self._said("settle", usage)

    def priced(self, usage):
        self._said("priced", usage)
        return usage


@pytest.fixture
def fake() -> FakeModel:
    return FakeModel().answers("hello")


def world(fake, before_model, *more):
    return {"plugins": [agents_plugin(asks, idler, boss), fake.plugin(), hooks_plugin(before_model=before_model), *more]}


@pytest.mark.req("KERN-3")
async def test_every_plugin_is_asked_before_each_attempt_and_told_what_it_used(kernel, fake):
    uses, one, two = [], Spends(), Spends()

    def first(use: ModelUse):
        uses.append((use.tenant, use.job.id, use.step, use.attempt, use.model, use.count(), use.max_tokens, use.price))
        return one

    second = type("SecondPlugin", (hooks_plugin(before_model=lambda: two),), {"name": "second"})
    async with kernel(**world(fake, first, second)) as k:
        await start(k, "asks")
        assert (await ended(k)).output == "hello"
    assert uses == [("default", "job", "1", 1, "fake", 0, 4096, None)]
    used = TokenCount(input_tokens=1, output_tokens=1)
    assert one.heard == two.heard == [("reserve", ""), ("priced", used), ("settle", used)]


@pytest.mark.req("KERN-4")
@pytest.mark.parametrize("where", ["before_model", "its reservation", "its prices"])
async def test_one_that_raises_fails_the_step_and_names_itself(kernel, fake, where):
    def broken():
        raise RuntimeError("secret")

    spends = Spends(**{"reserve" if where == "its reservation" else "priced": RuntimeError("secret")})
    async with kernel(**world(fake, broken if where == "before_model" else lambda: spends)) as k:
        await start(k, "asks")
        error = (await ended(k)).error
        await start(k, "idler", "other", input="fine")
        assert (await ended(k, "other")).output == "fine"
    assert (error.code, "'test_hooks'" in error.message, where in error.message) == ("internal", True, True)
    assert "secret" not in error.message


@pytest.mark.req("KERN-4")
@pytest.mark.parametrize("raised", [RuntimeError("secret"), TransomError("internal", "cannot")], ids=["any error", "its own"])
async def test_a_settlement_that_raises_fails_its_job_which_ends_all_the_same(kernel, fake, raised):
    async with kernel(**world(fake, lambda: Spends(settle=raised))) as k:
        await start(k, "asks")
        view = await ended(k)
        assert (view.status, view.error.code) == ("failed", "internal")
        await start(k, "idler", "other", input="fine")
        assert (await ended(k, "other")).output == "fine"
        assert k.health().ok


async def test_a_store_that_fails_in_a_plugins_part_of_a_transaction_is_the_stores_trouble(kernel, fake, tmp_path):
    """A full disk shows wherever it shows: the job goes on when there is room again, and no plugin is blamed."""

    class FullOnce(Spends):
        def settle(self, tx, usage):
            if not any(what == "full" for what, *_ in self.heard):
                self._said("full")
                raise sqlite3.OperationalError("database or disk is full")

    spends = FullOnce()
    fake.answers("hello")
    async with kernel(**on_disk(*world(fake, lambda: spends)["plugins"], data=str(tmp_path))) as k:
        await start(k, "asks")
        assert (await ended(k)).output == "hello"
    assert [what for what, *_ in spends.heard].count("reserve") == 2


async def test_a_cut_and_a_refused_attempt_are_told_apart(kernel):
    spends, answers = Spends(), [TransomError("unavailable", "cut"), TransomError("unauthenticated", "no")]

    class Model:
        name = "fake"

        def count(self, request):
            return 1

        async def stream(self, request):
            error = answers.pop(0)
            if answers:
                yield TextDelta("some")
            raise error
            yield ModelEnd()

    async with kernel(
        plugins=[agents_plugin(asks), hooks_plugin(register_models=lambda: [Model()], before_model=lambda: spends)]
    ) as k:
        await start(k, "asks")
        assert (await ended(k)).error.code == "unauthenticated"
    assert [values for what, *values in spends.heard if what == "settle"] == [[None], [TokenCount()]]


@pytest.mark.req("IDN-4", "AGUI-23")
async def test_refusals_by_limits_of_a_tree_are_audited_too(kernel):
    async with kernel(plugins=[agents_plugin(idler, boss)], config={"limits": {"depth": 1}}) as k:
        await start(k, "boss", input={"agent": "boss", "input": {"agent": "idler"}})
        error = (await ended(k)).error
        (entry,) = [row.entry for row in await k.store.audit("default") if row.entry.action == "run.refused"]
    assert error.details["type"] == "oz0_tree_limit"
    assert (entry.details["type"], entry.details["what"], entry.details["agent"]) == ("oz0_tree_limit", "depth", "idler")
    assert entry.caller == f"operator:{OPERATOR.caller.id}"


@pytest.mark.req("IDN-4", "AGUI-23")
async def test_a_job_past_its_steps_is_refused_in_the_same_shape(kernel):
    async def walks(ctx, input):
        for _ in range(10):
            await ctx.now()

    async with kernel(plugins=[agents_plugin(walks)], config={"limits": {"steps": 3}}) as k:
        await start(k, "walks")
        details = (await ended(k)).error.details
    assert details == {
        "type": "oz0_tree_limit",
        "scope": {"kind": "job", "name": "job"},
        "what": "steps",
        "limit": 3,
        "used": 3,
        "reserved": 0,
        "requested": 1,
        "could_wait": False,
        "raised_by": "an operator, with the setting limits.steps",
    }
