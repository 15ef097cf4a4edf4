"""Rules of decision: who counts, how many, what is checked anew after a long wait; the rule is the one that was shown."""

import pytest
from policy_kit import House, origin

from transom_hookspecs import (
    DecideApproval,
    Decided,
    EditWait,
    Rule,
    TenantSettings,
    ToolCall,
    ToolUse,
    Verdict,
    Wait,
    function,
    hookimpl,
    tool,
)
from transom_policy.requests import DisableAgent, SetToolPolicy

pytestmark = pytest.mark.anyio


class Acts:
    """A function with a rule, and how often it ran with what."""

    def __init__(self, **rule):
        self.ran = []
        self.tools = (tool("t", function(self.act, open_world=False, approval=Rule(**rule))),)

    async def act(self, text: str = "") -> str:
        self.ran.append(text)
        return "acted"


async def actor(ctx, input):
    try:
        return await ctx.call("t.act", {"text": "first"})
    except Exception as error:
        return f"no: {error}"


async def asked(home: House, who="anna", **more):
    await home.start("actor", who, **more)
    return await home.wait()


async def reason(home: House, who, wait, approved=True, **more) -> str:
    error = await home.refused(
        who if not isinstance(who, str) else origin(who), DecideApproval(wait=wait.id, approved=approved, **more)
    )
    return error.details["reason"]


@pytest.mark.req("IDN-10")
async def test_several_people_must_agree_and_one_person_counts_once(house) -> None:
    acts = Acts(count=2)
    async with house(actor, tools=acts.tools) as home:
        wait = await asked(home)
        assert (await home.decide("omar", wait)).result == "acknowledged"
        again = await home.decide(origin("omar", via="app:desk"), wait)
        assert (again.result, acts.ran) == ("acknowledged", [])
        assert (await home.decide("olga", wait)).outcome == "approved"
        await home.until()
    assert acts.ran == ["first"]


@pytest.mark.req("IDN-10")
@pytest.mark.parametrize("rule", [{"count": 2}, {"four_eyes": True}], ids=["two people", "four eyes"])
async def test_only_people_count_where_people_are_asked_for(house, rule) -> None:
    async with house(actor, tools=Acts(**rule).tools) as home:
        wait = await asked(home)
        assert await reason(home, "key:ci", wait) == "not_a_decider"
        assert await reason(home, "operator", wait) == "not_a_decider"
        assert (
            await home.decide("key:ci", wait, approved=False)
        ).outcome == "denied"  # a no of anybody's who may decide ends it


@pytest.mark.req("RT-31")
async def test_a_key_with_the_role_may_approve_where_nothing_else_is_asked(house) -> None:
    acts = Acts()
    async with house(actor, tools=acts.tools) as home:
        assert (await home.decide("key:ci", await asked(home))).outcome == "approved"
        await home.until()
    assert acts.ran == ["first"]


@pytest.mark.req("IDN-1", "IDN-10")
async def test_under_four_eyes_nobody_approves_in_a_job_of_their_own_but_may_say_no(house) -> None:
    async with house(actor, tools=Acts(four_eyes=True).tools) as home:
        wait = await asked(home, who="omar")
        assert await reason(home, origin("omar", via="app:desk"), wait) == "not_a_decider"
        assert (await home.decide("omar", wait, approved=False)).outcome == "denied"


async def test_without_veto_it_takes_as_many_noes_as_yeses(house) -> None:
    async with house(actor, tools=Acts(count=2, veto=False).tools) as home:
        wait = await asked(home)
        assert (await home.decide("omar", wait, approved=False)).result == "acknowledged"
        assert await reason(home, "key:ci", wait, approved=False) == "not_a_decider"
        assert (await home.decide("ada", wait, approved=False)).outcome == "denied"


@pytest.mark.req("IDN-10")
async def test_who_started_the_job_confirms_and_nobody_else(house) -> None:
    acts = Acts(confirm=True)
    async with house(actor, tools=acts.tools) as home:
        wait = await asked(home)
        assert await reason(home, "ada", wait) == "not_a_decider"
        assert (await home.decide(origin("anna", via="app:desk"), wait)).outcome == "approved"
        await home.until()
    assert acts.ran == ["first"]


@pytest.mark.req("IDN-10", "RT-31")
async def test_where_deciders_are_named_only_they_decide_and_their_rights_are_those_of_today(house) -> None:
    acts = Acts(deciders=("team:desk", "person:ben"))
    async with house(actor, tools=acts.tools) as home:
        wait = await asked(home)
        assert await reason(home, "ada", wait) == "not_a_decider"
        home.people.change("person:ben", role="reader")
        assert await reason(home, "ben", wait) == "not_a_decider"
        home.people.change("person:olga", teams=("desk",))
        assert (await home.decide("olga", wait)).outcome == "approved"


@pytest.mark.req("IDN-10")
async def test_a_vote_of_someone_who_may_no_longer_decide_does_not_count(house) -> None:
    acts = Acts(count=2)
    async with house(actor, tools=acts.tools) as home:
        wait = await asked(home)
        await home.decide("omar", wait)
        home.people.change("person:omar", role="member")
        assert (await home.decide("olga", wait)).result == "acknowledged"
        assert (await home.decide("ada", wait)).outcome == "approved"
        await home.until()
    assert acts.ran == ["first"]


@pytest.mark.req("IDN-10")
async def test_an_edit_clears_votes_and_only_deciders_make_one(house) -> None:
    acts = Acts(count=2, edit=True, deciders=("role:operator",))
    async with house(actor, tools=acts.tools) as home:
        wait = await asked(home)
        await home.decide("omar", wait)
        assert (await home.refused("anna", EditWait(wait=wait.id, arguments={"text": "mine"}))).code == "permission_denied"
        await home.do("olga", EditWait(wait=wait.id, arguments={"text": "second"}))
        assert await reason(home, "omar", wait, token=wait.token) == "interrupt_changed"
        assert (await home.decide("olga", wait)).result == "acknowledged"
        assert (await home.decide("omar", wait)).outcome == "approved"
        await home.until()
    assert acts.ran == ["second"]


async def test_a_named_member_may_edit_what_she_decides_and_content_is_needed_for_it(house) -> None:
    acts = Acts(edit=True, deciders=("person:ben",))
    async with house(actor, tools=acts.tools) as home:
        wait = await asked(home)
        assert (await home.refused("omar", EditWait(wait=wait.id, arguments={"text": "x"}))).code == "permission_denied"
        home.people.change("person:ben", content=False)
        assert (await home.refused("ben", EditWait(wait=wait.id, arguments={"text": "x"}))).code == "permission_denied"
        home.people.change("person:ben", content=None)
        await home.do("ben", EditWait(wait=wait.id, arguments={"text": "bens"}))
        await home.decide("ben", wait)
        await home.until()
    assert acts.ran == ["bens"]


@pytest.mark.req("IDN-10")
async def test_a_rule_that_changes_later_does_not_change_what_waits(house) -> None:
    acts = Acts()
    async with house(actor, tools=acts.tools) as home:
        wait = await asked(home)
        await home.do("ada", SetToolPolicy(function="t.act", ruling="ask", count=3))
        assert (await home.decide("omar", wait)).outcome == "approved"
        await home.until()
        await home.start("actor", job="next")
        assert (await home.wait("next")).rule.count == 3


@pytest.mark.req("IDN-10")
async def test_outputs_are_approved_only_by_who_is_shown_what_waits(house) -> None:
    async def outputter(ctx, input):
        return await ctx.ask("Send these?", kind="outputs", details=input)

    async with house(outputter) as home:
        await home.start("outputter", input={"comment": "hi"})
        wait = await home.wait()
        home.people.change("person:omar", content=False)
        assert await reason(home, "omar", wait) == "not_a_decider"
        assert (await home.decide("olga", wait)).outcome == "approved"
        await home.start("outputter", input=None, job="hidden")
        assert await reason(home, "olga", await home.wait("hidden")) == "not_a_decider"


# -- after a long wait


RECHECK = {"recheck_seconds": 900}


async def late(home: House, clock, **more):
    home.people.settled = TenantSettings(**RECHECK)
    wait = await asked(home, **more)
    clock.forward(901)
    return wait


@pytest.mark.req("IDN-10", "AGUI-36")
@pytest.mark.parametrize("why", ["kill switch", "tool policy", "the starter is gone", "the starter's role"])
async def test_a_late_yes_that_is_no_longer_permitted_is_a_no_of_the_platforms(house, clock, why) -> None:
    acts = Acts()
    async with house(actor, tools=acts.tools, clock=clock) as home:
        wait = await late(home, clock)
        if why == "kill switch":
            await home.do("ada", DisableAgent(agent="actor", reason="leaks"))
        elif why == "tool policy":
            await home.do("ada", SetToolPolicy(function="t.*", ruling="refuse", reason="leaks"))
        elif why == "the starter is gone":
            del home.people.members["person:anna"]
        else:
            home.people.change("person:anna", role="reader")
        said = await home.decide("omar", wait)
        assert said == Decided(
            wait=wait.id, job="job", result="decided", outcome="denied", by="system:recheck", reason=said.reason
        )
        assert said.reason
        await home.until()
        (entry,) = await home.audited("approval.decide")
        assert (entry.caller, entry.details["asked_by"], entry.details["reason"]) == (
            "system:recheck",
            "person:omar",
            said.reason,
        )
    assert acts.ran == []


@pytest.mark.req("IDN-10")
async def test_a_late_yes_that_is_still_permitted_counts(house, clock) -> None:
    acts = Acts()
    async with house(actor, tools=acts.tools, clock=clock) as home:
        assert (await home.decide("omar", await late(home, clock))).outcome == "approved"
        await home.until()
    assert acts.ran == ["first"]


@pytest.mark.req("IDN-10")
async def test_the_recheck_denies_that_wait_and_no_other(house, clock) -> None:
    async def other(text: str = "") -> str:
        return "other"

    async def twice(ctx, input):
        calls = [ToolCall(id=name, function=f"t.{name}", arguments={}) for name in ("act", "other")]
        return [str(result.error or result.content) for result in await ctx.tools(calls)]

    (acts,) = Acts().tools
    tools = (tool("t", *acts.functions, function(other, open_world=False, approval=Rule())),)
    async with house(twice, tools=tools, clock=clock) as home:
        home.people.settled = TenantSettings(**RECHECK)
        await home.start("twice")
        await home.until("job", "waiting")
        waits = {
            wait.function: wait for wait in await home.kernel.store.select("default", Wait, "job", {"job": "job", "open": True})
        }
        clock.forward(901)
        await home.do("ada", SetToolPolicy(function="t.act", ruling="refuse"))
        assert (await home.decide("omar", waits["t.act"])).by == "system:recheck"
        assert (await home.wait()).id == waits["t.other"].id
        assert (await home.decide("omar", waits["t.other"])).outcome == "approved"
        await home.until()


async def test_a_no_is_never_checked_anew(house, clock) -> None:
    async with house(actor, tools=Acts().tools, clock=clock) as home:
        wait = await late(home, clock)
        del home.people.members["person:anna"]
        assert (await home.decide("omar", wait, approved=False, comment="no")).by == "person:omar"


@pytest.mark.req("IDN-10")
async def test_a_wait_is_open_as_long_as_the_tenants_admins_say(house, clock) -> None:
    async with house(actor, tools=Acts().tools, clock=clock) as home:
        home.people.settled = TenantSettings(wait_seconds=60)
        wait = await asked(home)
        assert wait.expires_at - wait.opened_at == 60_000
        clock.forward(60)
        error = await home.refused("omar", DecideApproval(wait=wait.id, approved=True))
        assert error.details["outcome"] == "expired"


async def test_the_rights_of_who_started_a_job_are_asked_before_each_of_its_effects(house, clock) -> None:
    """Within the time of the recheck too: what was approved is not made any more when who started it may not start it."""
    acts = Acts()
    async with house(actor, tools=acts.tools) as home:
        wait = await asked(home)
        del home.people.members["person:anna"]
        assert (await home.decide("omar", wait)).outcome == "approved"
        ended = await home.until()
        assert ended.status == "completed"
    assert acts.ran == []


@pytest.mark.req("IDN-10")
async def test_an_edit_cannot_lead_to_arguments_for_which_others_would_be_asked(house) -> None:
    class Careful:
        """Asks admins where the text is large."""

        spec = "1.0"

        def __init__(self, config: object = None) -> None: ...

        @hookimpl
        def before_tool(self, use: ToolUse) -> Verdict | None:
            large = use.arguments.get("text") == "large"
            return Verdict(ruling="ask", rule=Rule(deciders=("role:admin",))) if large else None

    acts = Acts(edit=True)
    async with house(actor, tools=acts.tools, plugins=(Careful,)) as home:
        wait = await asked(home)
        error = await home.refused(origin("omar"), EditWait(wait=wait.id, arguments={"text": "large"}))
        assert (error.code, error.details["reason"]) == ("permission_denied", "edit")
        await home.do(origin("omar"), EditWait(wait=wait.id, arguments={"text": "small"}))
        assert (await home.decide("omar", await home.wait())).outcome == "approved"
        await home.until()
    assert acts.ran == ["small"]
