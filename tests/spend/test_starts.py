"""Starts: quotas of jobs, budgets by name and by default, and what is refused before a job is there."""

import anyio
import pytest
from job_kit import ended, hooks_plugin
from kernel_kit import OPERATOR

from transom_hookspecs import Directory, Job, Member, Service, StartJob, TokenCount, TransomError
from transom_spend.requests import DeleteBudget, DeleteQuota
from transom_testing.doubles import ManualClock

from .conftest import ADA, ANNA

pytestmark = [pytest.mark.anyio, pytest.mark.req("IDN-4")]


async def test_each_caller_starts_so_many_jobs_a_window_and_the_next_window_begins_anew(house):
    clock = ManualClock(1_800_000_000_000)
    async with house(clock=clock) as h:
        await h.quota("caller", "*", "jobs", "hour", 2)
        for job in "ab":
            await h.ran("idler", job)
        refused = await h.refused("idler")
        await h.ran("idler", "c", ADA)  # her own two
        clock.forward(3600)
        await h.ran("idler", "d")
    assert refused.code == "resource_exhausted"
    assert refused.details == {
        "type": "oz0_quota_exceeded",
        "scope": {"kind": "caller", "name": "person:anna"},
        "what": "jobs",
        "window": "hour",
        "limit": 2,
        "used": 2,
        "reserved": 0,
        "requested": 1,
        "resets_at": "2027-01-15T09:00:00.000Z",
        "resets_at_ms": 1_800_003_600_000,
        "could_wait": False,
        "raised_by": "an admin of the tenant",
    }
    for part in ("person:anna", "2 jobs an hour", "2027-01-15T09:00:00.000Z", "an admin of the tenant"):
        assert part in refused.message


async def test_a_refused_start_leaves_an_audit_entry_and_nothing_else(house):
    async with house() as h:
        await h.quota("agent", "idler", "jobs", "total", 0)
        await h.refused("idler")
        assert await h.kernel.store.get("default", Job, "refused") is None
        assert await h.counters("agent") == []
        (entry,) = await h.audited("run.refused")
    assert (entry.caller, entry.door, entry.object, entry.outcome) == ("person:anna", "test", "refused", "refused")
    assert entry.details["type"] == "oz0_quota_exceeded"
    assert entry.details["scope"] == {"kind": "agent", "name": "idler"}


@pytest.mark.parametrize("who", [OPERATOR, ADA], ids=["the operator", "an admin"])
async def test_nobody_is_exempt(house, who):
    async with house() as h:
        await h.quota("tenant", "*", "jobs", "total", 1)
        await h.ran("idler", who=who)
        assert (await h.refused("idler", who=who)).details["scope"] == {"kind": "tenant", "name": "default"}


async def test_a_retry_of_a_start_takes_nothing_again(house):
    async with house() as h:
        await h.quota("caller", "person:anna", "jobs", "total", 1)
        await h.ran("idler")
        again = await h.kernel.call("StartJob", StartJob(agent="idler", id="job"), ANNA)
        assert again.retried
        assert await h.used() == 1


async def test_a_delegated_job_counts_like_any_other(house):
    async with house() as h:
        await h.quota("caller", "person:anna", "jobs", "total", 2)
        await h.quota("agent", "idler", "jobs", "total", 1)
        first = await h.ran("boss", "first", input={"agent": "idler", "input": 7})
        assert first.output == 7
        assert (await h.refused("idler")).details["scope"]["kind"] == "caller"
        second = await h.ran("boss", "second", ADA, input={"agent": "idler"})
        assert second.error.details["scope"] == {"kind": "agent", "name": "idler"}


async def test_a_quota_of_ones_own_stands_in_for_that_of_each(house):
    async with house() as h:
        await h.quota("caller", "*", "jobs", "total", 1)
        await h.quota("caller", "person:anna", "jobs", "total", 3)
        for job in "abc":
            await h.ran("idler", job)
        assert (await h.refused("idler")).details["limit"] == 3
        await h.ran("idler", "d", ADA)
        assert (await h.refused("idler", ADA)).details["limit"] == 1


async def test_a_quota_that_is_gone_caps_nothing_and_one_that_is_set_holds_from_the_next_request(house):
    async with house() as h:
        await h.quota("tenant", "default", "jobs", "total", 0)
        await h.refused("idler")
        await h.call(DeleteQuota(kind="tenant", name="*", what="jobs", window="total"))
        await h.ran("idler")
        await h.quota("tenant", "default", "jobs", "total", 0)
        await h.refused("idler")


@pytest.mark.parametrize("what", ["tokens", "usd"])
async def test_a_start_is_refused_when_all_is_used_that_its_calls_would_need(house, what):
    async with house() as h:
        await h.price()
        await h.quota("caller", "*", what, "day", 100 if what == "tokens" else 1)
        h.model.answers = [TokenCount(input_tokens=10, output_tokens=90)]
        await h.ran(job="first")
        refused = await h.refused("idler")
        assert (refused.details["what"], refused.details["used"]) == (what, refused.details["limit"])
        assert refused.details["requested"] == 0
        await h.quota("caller", "*", what, "day", 100 if what == "tokens" else 1, policy="wait")
        await h.ran("idler", "second")


async def test_a_hundred_starts_at_once_never_pass_a_quota(house):
    async with house() as h:
        await h.quota("tenant", "*", "jobs", "total", 37)
        outcomes, refused = [], set()

        async def one(i):
            try:
                await h.start("idler", f"job{i}")
                outcomes.append(True)
            except TransomError as error:
                refused.add(error.details["type"])
                outcomes.append(False)

        async with anyio.create_task_group() as group:
            for i in range(100):
                group.start_soon(one, i)
        assert (outcomes.count(True), refused) == (37, {"oz0_quota_exceeded"})
        assert await h.used() == 37


# -- whose figures ------------------------------------------------------------------------------------------


def directory(*teams: str) -> type:
    """A directory whose members are all in these teams."""

    class Home:
        async def member(self, caller, tenant):
            return Member(role="member", teams=teams)

        async def has_team(self, tenant, team):
            return team in ("blue", "red")

    plugin = hooks_plugin(register_services=lambda: [Service(protocol=Directory, provider=Home())])
    return type("DirectoryPlugin", (plugin,), {"name": "directory"})


FIGURES = ("limit", "used", "reserved")


@pytest.mark.parametrize(
    ("kind", "name", "teams", "who", "told"),
    [
        ("caller", "*", (), ANNA, True),
        ("team", "blue", ("blue",), ANNA, True),
        ("team", "blue", ("red",), ANNA, False),
        ("team", "*", (), ADA, True),
        ("agent", "idler", (), ANNA, False),
        ("tenant", "*", (), ANNA, False),
        ("tenant", "*", (), ADA, True),
    ],
)
@pytest.mark.req("AGUI-23")
async def test_figures_of_others_are_told_to_those_who_may_read_them(house, kind, name, teams, who, told):
    async with house(plugins=(directory(*teams),)) as h:
        await h.quota(kind, name, "jobs", "day", 0)
        refused = await h.refused("idler", who, team="blue")
    assert [figure in refused.details for figure in FIGURES] == [told] * 3
    assert ("0 jobs a day" in refused.message) is told
    assert refused.details["resets_at"]
    assert refused.details["scope"]["kind"] == kind


# -- budgets ------------------------------------------------------------------------------------------------


async def test_a_start_that_names_no_budget_of_the_tenant_is_refused(house):
    async with house() as h:
        refused = await h.refused("idler", budget="none")
        assert (refused.code, "'none'" in refused.message) == ("not_found", True)
        await h.budget("small", tokens=1)
        await h.ran("idler", budget="small")
        await h.call(DeleteBudget(name="small"))
        assert (await h.refused("idler", budget="small")).code == "not_found"


async def test_a_default_budget_is_what_a_start_gets_that_names_none(house):
    async with house() as h:
        await h.budget("for-all", tokens=1000, default=True)
        await h.budget("for-idlers", tokens=1000, default=True, agent="idler")
        await h.budget("other", tokens=1000)
        for job, agent, budget in (("a", "asker", ""), ("b", "idler", ""), ("c", "idler", "other")):
            await h.ran(agent, job, budget=budget)
        kept = [(await h.kernel.store.get("default", Job, job)).budget for job in "abc"]
    assert kept == ["for-all", "for-idlers", "other"]


async def test_a_newer_default_takes_the_place_of_the_one_before(house):
    async with house() as h:
        await h.budget("one", tokens=1, default=True)
        await h.budget("two", tokens=1, default=True)
        await h.ran("idler")
        assert (await h.kernel.store.get("default", Job, "job")).budget == "two"


async def test_a_delegated_job_has_its_trees_budget_whatever_its_agents_default_is(house):
    async with house() as h:
        await h.budget("big", tokens=1000)
        await h.budget("for-idlers", tokens=1000, default=True, agent="idler")
        await h.start("boss", "root", input={"agent": "idler"}, budget="big")
        view = await ended(h.kernel, "root")
        assert (await h.kernel.store.get("default", Job, view.children[0])).budget == "big"
