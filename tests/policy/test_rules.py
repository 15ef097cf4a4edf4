"""Kill switches, grants and the tool policy: set by operations, audited, and in force from then on."""

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_kit import model_plugin
from policy_kit import job_of, origin

from transom_hookspecs import (
    Caller,
    GetJobTrace,
    Member,
    ModelEnd,
    Rule,
    StartJob,
    StoreUnavailable,
    TextDelta,
    ToolCall,
    ToolUse,
    function,
    tool,
)
from transom_policy.book import Book, ToolRule
from transom_policy.calls import join, judge_call
from transom_policy.requests import (
    DisableAgent,
    EnableAgent,
    GrantAgent,
    ListAgentRules,
    ListGrants,
    ListToolPolicy,
    RemoveGrant,
    RemoveToolPolicy,
    RestrictAgent,
    RetireAgent,
    SetToolPolicy,
)
from transom_sqlite import SqliteStore

pytestmark = pytest.mark.anyio


async def echo(ctx, input):
    return await ctx.say(str(input))


async def other(ctx, input):
    return "other"


async def refused_start(home, who="anna", agent="echo", job="refused") -> str:
    error = await home.refused(who, StartJob(agent=agent, id=job, input="hi"))
    assert error.code == "permission_denied"
    assert error.details["permission"] == "jobs.start"
    assert error.details["reason"] in error.message
    assert await home.job(job) is None
    return error.details["rule"]


# -- kill switches


@pytest.mark.req("RT-4")
@pytest.mark.parametrize(("request_", "rule"), [(DisableAgent, "kill-switch"), (RetireAgent, "retired")])
async def test_an_agent_that_is_disabled_or_retired_is_not_started_by_anyone(house, request_, rule) -> None:
    async with house(echo, other) as home:
        await home.start("echo", job="before")
        await home.do("omar", request_(agent="echo", reason="it leaks"))
        for who in ("anna", "ada", "key:ci", "operator"):
            assert await refused_start(home, who) == rule
        assert (await home.do("anna", StartJob(agent="echo", id="before"))).retried, "a retry is answered all the same"
        await home.start("other", job="other")
        await home.do("omar", EnableAgent(agent="echo"))
        await home.start("echo", job="after")
        actions = [e.action for a in ("agent.disable", "agent.retire", "agent.enable") for e in await home.audited(a)]
        assert sorted(actions) == sorted([f"agent.{'disable' if rule == 'kill-switch' else 'retire'}", "agent.enable"])


async def test_the_tenants_kill_switch_stops_every_agent(house) -> None:
    async with house(echo, other) as home:
        await home.do("omar", DisableAgent(agent="*", reason="an incident"))
        assert [await refused_start(home, agent=agent) for agent in ("echo", "other")] == ["kill-switch"] * 2
        await home.do("omar", EnableAgent(agent="*"))
        await home.start("echo")


class Steps:
    """An agent that takes a step of each kind between two looks at `go`."""

    def __init__(self):
        self.ran, self.inside, self.go = [], anyio.Event(), anyio.Event()

    async def act(self) -> str:
        self.ran.append("act")
        return "acted"

    def agent(self, kind):
        async def stepper(ctx, input):
            self.inside.set()
            await self.go.wait()
            if kind == "model":
                return (await ctx.model("m", [])).text
            if kind == "delegate":
                return await ctx.delegate("other")
            if kind == "own":
                (result,) = await ctx.tools([ToolCall(id="c", function="oz.board_write", arguments={"text": "x"})])
                raise result.error.error()
            return await ctx.call("t.act")

        return stepper

    def tools(self):
        return (tool("t", function(self.act, open_world=False)),)


async def model(request):
    yield TextDelta(text="said")
    yield ModelEnd()


@pytest.mark.parametrize("why", ["kill switch", "her rights are gone"])
@pytest.mark.parametrize("kind", ["model", "call", "delegate", "own"])
async def test_a_running_job_takes_no_further_step_once_it_may_not(house, kind, why) -> None:
    steps = Steps()
    async with house(steps.agent(kind), other, tools=steps.tools(), plugins=(model_plugin(model),)) as home:
        await home.start("stepper")
        await steps.inside.wait()
        if why == "kill switch":
            await home.do("omar", DisableAgent(agent="stepper"))
        else:
            home.people.change("person:anna", role="reader")
        steps.go.set()
        ended = await home.until()
        assert (ended.status, ended.error.code) == ("failed", "permission_denied")
    assert steps.ran == []


async def test_jobs_of_a_retired_agent_go_on(house) -> None:
    steps = Steps()
    async with house(steps.agent("call"), tools=steps.tools()) as home:
        await home.start("stepper")
        await steps.inside.wait()
        await home.do("omar", RetireAgent(agent="stepper"))
        steps.go.set()
        assert (await home.until()).status == "completed"


async def test_a_retired_agent_is_not_delegated_to(house) -> None:
    async def parent(ctx, input):
        return await ctx.delegate("other")

    async with house(parent, other) as home:
        await home.do("omar", RetireAgent(agent="other"))
        await home.start("parent")
        assert "retired" in (await home.until()).error.message


# -- grants


@pytest.mark.req("IDN-1", "AGUI-3")
async def test_an_agent_kept_for_those_it_was_granted_to(house) -> None:
    async with house(echo) as home:
        await home.do("ada", RestrictAgent(agent="echo"))
        for who in ("anna", "omar", "ada", "key:ci"):
            assert await refused_start(home, who) == "grant"
        await home.do("ada", GrantAgent(agent="echo", person="anna"))
        await home.do("ada", GrantAgent(agent="echo", team="desk"))
        await home.do("ada", GrantAgent(agent="echo", key="ci"))
        home.people.change("person:rita", teams=("desk",))
        for who in ("anna", "rita", "key:ci"):
            await home.start("echo", who, job=f"by-{who.replace(':', '-')}")
        granted = (await home.do("omar", ListGrants(agent="echo"))).grants
        assert [(g.to, g.by) for g in granted] == [(to, "person:ada") for to in ("key:ci", "person:anna", "team:desk")]
        await home.do("ada", RemoveGrant(agent="echo", person="anna"))
        assert await refused_start(home, "anna") == "grant"
        await home.do("ada", RestrictAgent(agent="echo", off=True))
        await home.start("echo", "anna", job="open")
        assert (await home.do("omar", ListAgentRules())).agents == ()


async def test_taking_the_last_grant_back_opens_nothing(house) -> None:
    async with house(echo) as home:
        await home.do("ada", RestrictAgent(agent="echo"))
        await home.do("ada", GrantAgent(agent="echo", person="anna"))
        await home.do("ada", RemoveGrant(agent="echo", person="anna"))
        assert await refused_start(home, "ben") == "grant"


# -- the tool policy


async def caller(ctx, input):
    (result,) = await ctx.tools([ToolCall(id="c", function="t.act", arguments={})])
    return result.error.message if result.error else result.content


@pytest.mark.req("IDN-12")
async def test_a_refused_call_is_not_made_and_the_trace_says_why(house) -> None:
    steps = Steps()
    async with house(caller, tools=steps.tools()) as home:
        await home.do("ada", SetToolPolicy(function="t.*", ruling="refuse", who="team:desk", reason="not for the desk"))
        home.people.change("person:anna", teams=("desk",))
        await home.start("caller")
        await home.until()
        (step,) = (await home.do("omar", GetJobTrace(id="job"))).steps
        assert step.verdict.startswith("deny: ")
        assert "not for the desk" in step.verdict
        assert "not for the desk" in step.error.message
        assert steps.ran == []
        await home.start("caller", "ben", job="bens")
        await home.until("bens")
        assert steps.ran == ["act"]
        await home.do("ada", RemoveToolPolicy(function="t.*", who="team:desk"))
        assert (await home.do("omar", ListToolPolicy())).rows == ()


@pytest.mark.req("IDN-12")
async def test_a_call_that_the_policy_asks_about_waits_under_both_rules(house) -> None:
    steps = Steps()
    tools = (tool("t", function(steps.act, open_world=False, approval=Rule(four_eyes=True, confirm=True, reason="mine"))),)
    async with house(caller, tools=tools) as home:
        await home.do("ada", SetToolPolicy(function="t.act", ruling="ask", agent="caller", decider=("role:operator",), count=2))
        await home.start("caller")
        rule = (await home.wait()).rule
    assert rule == Rule(deciders=("role:operator",), count=2, four_eyes=True, reason="policy")


@pytest.mark.req("IDN-12")
async def test_the_policy_refuses_delegating_and_writing_notes_by_a_model(house) -> None:
    async def writer(ctx, input):
        calls = [
            ToolCall(id="n", function="oz.board_write", arguments={"text": "x"}),
            ToolCall(id="d", function="agent.other", arguments={"input": "x"}),
        ]
        return [result.error.message if result.error else "done" for result in await ctx.tools(calls)]

    async with house(writer, other) as home:
        await home.do("ada", SetToolPolicy(function="*", ruling="ask"))
        await home.start("writer", job="asks")
        assert (await home.until("asks")).status == "completed"
        for name in ("oz.*", "agent.other"):
            await home.do("ada", SetToolPolicy(function=name, ruling="refuse", reason="never"))
        await home.start("writer")
        await home.until()
        steps = (await home.do("omar", GetJobTrace(id="job"))).steps
        assert ["never" in step.verdict for step in steps] == [True, True]


WHO = ("person:anna", "team:desk", "team:ops", "key:ci", "*")
rows = st.builds(
    ToolRule,
    agent=st.sampled_from(["*", "echo", "other"]),
    function=st.sampled_from(["*", "t.*", "t.act", "t.other", "u.*"]),
    who=st.sampled_from(WHO),
    ruling=st.sampled_from(["allow", "ask", "refuse"]),
    rule=st.none() | st.builds(Rule, count=st.integers(1, 3), four_eyes=st.booleans()),
)


@pytest.mark.req("IDN-12")
@given(policy=st.lists(rows, unique_by=lambda r: (r.agent, r.function, r.who)), own=st.none() | st.just(Rule()))
def test_the_strictest_of_the_rows_a_call_falls_under_holds(policy, own):
    use = ToolUse(
        tenant="default",
        job=job_of(Caller(kind="person", id="anna", tenant="default"), taint=("agui",)),
        function="t.act",
        arguments={},
        sends_out=True,
        rule=own,
    )
    verdict = judge_call(use, Member(role="member", teams=("desk",)), Book(tools=policy))
    falls = [
        row
        for row in policy
        if row.agent in ("*", "echo") and row.function in ("*", "t.*", "t.act") and row.who in ("person:anna", "team:desk", "*")
    ]
    rulings = {row.ruling for row in falls}
    if "refuse" in rulings:
        assert verdict.ruling == "deny"
    elif "ask" in rulings:
        asking = [row.rule or Rule() for row in falls if row.ruling == "ask"]
        assert verdict.ruling == "ask"
        assert verdict.rule.count == max(rule.count for rule in asking)
        assert verdict.rule.four_eyes == any(rule.four_eyes for rule in asking)
    elif own is None:
        assert (verdict.ruling, verdict.rule.reason) == ("ask", "taint")
    else:
        assert verdict is None or verdict.ruling == "allow"


def test_rows_that_no_one_could_satisfy_together_refuse():
    assert join(Rule(deciders=("person:a",)), Rule(deciders=("person:b",))) is None
    assert join(Rule(deciders=("person:a", "person:b")), Rule(deciders=("person:b",), confirm=True)) == Rule(
        deciders=("person:b",)
    )


# -- bad input, other processes, a store that is away


BAD = {
    "an agent that is not there": DisableAgent(agent="ech"),
    "a grant to nobody": GrantAgent(agent="echo"),
    "a grant to two": GrantAgent(agent="echo", person="anna", team="desk"),
    "a grant to a team that is not there": GrantAgent(agent="echo", team="dsk"),
    "a grant of every agent": GrantAgent(agent="*", person="anna"),
    "a grant that is not there": RemoveGrant(agent="echo", person="anna"),
    "retiring every agent": RetireAgent(agent="*"),
    "keeping every agent": RestrictAgent(agent="*"),
    "no function": SetToolPolicy(function="act", ruling="refuse"),
    "a pattern in the tool": SetToolPolicy(function="t*.act", ruling="refuse"),
    "who is nobody": SetToolPolicy(function="t.act", ruling="refuse", who="anna"),
    "a role as who": SetToolPolicy(function="t.act", ruling="refuse", who="role:member"),
    "a team that is not there": SetToolPolicy(function="t.act", ruling="refuse", who="team:dsk"),
    "everybody as decider": SetToolPolicy(function="t.act", ruling="ask", decider=("*",)),
    "a rule for refusing": SetToolPolicy(function="t.act", ruling="refuse", count=2),
    "nobody who decides": SetToolPolicy(function="t.act", ruling="ask", count=0),
    "a confirmation by others": SetToolPolicy(function="t.act", ruling="ask", confirm=True, four_eyes=True),
    "asking before a delegation": SetToolPolicy(function="agent.echo", ruling="ask"),
    "a row that is not there": RemoveToolPolicy(function="t.act"),
}


@pytest.mark.parametrize("request_", BAD.values(), ids=BAD)
async def test_a_rule_that_will_not_do_is_refused_and_nothing_changes(house, request_) -> None:
    async with house(echo) as home:
        assert (await home.refused("ada", request_)).code in ("invalid_argument", "not_found")
        assert (await home.do("ada", ListAgentRules())).agents == ()
        assert (await home.do("ada", ListGrants())).grants == ()
        assert (await home.do("ada", ListToolPolicy())).rows == ()


async def test_a_rule_set_in_one_process_holds_in_others(house) -> None:
    async with house(echo) as one, house(echo, config={"local_engine": {"sweep": 60}}) as two:
        await two.start("echo", job="before")
        await one.do("omar", DisableAgent(agent="echo"))
        with anyio.fail_after(5):
            while not await is_refused(two):
                await anyio.sleep(0.005)
        await two.do("omar", EnableAgent(agent="echo"))
        with anyio.fail_after(5):
            while await is_refused(one):
                await anyio.sleep(0.005)


async def is_refused(home) -> bool:
    verdict = await home.kernel.may(origin("anna").caller, "default", "jobs.start", "echo")
    return verdict.ruling == "deny"


class Away(SqliteStore):
    """A store that cannot be read for a while."""

    away = False

    async def select(self, *args, **options):
        if self.away:
            raise StoreUnavailable("locked")
        return await super().select(*args, **options)


async def test_rules_that_cannot_be_read_refuse_everything_until_they_can(house) -> None:
    store = Away()
    async with house(echo, store=store) as home:
        await home.start("echo")
        store.away = True
        error = await home.refused("omar", DisableAgent(agent="echo"))
        assert error.code == "unavailable"
        assert await is_refused(home)
        store.away = False
        assert await is_refused(home), "the switch was written"
        await home.do("omar", EnableAgent(agent="echo"))
        assert not await is_refused(home)


FLOW = """
name: flowing
steps:
  - id: act
    function: t.act
    arguments: {}
"""


@pytest.mark.req("IDN-12")
async def test_the_policy_binds_the_calls_of_flows(house, tmp_path) -> None:
    (tmp_path / "flowing.yaml").write_text(FLOW)
    steps = Steps()
    async with house(tools=steps.tools(), plugins=("flows", "agents"), agents=[str(tmp_path / "flowing.yaml")]) as home:
        await home.do("ada", SetToolPolicy(function="t.act", ruling="refuse", agent="flowing", reason="never"))
        await home.start("flowing")
        assert "never" in (await home.until()).error.message
    assert steps.ran == []
