"""`permissions explain`: the answer is the one that an operation would get, with the rule that decided."""

import pytest

from transom_hookspecs import Member, Rule, StartJob, TransomError, function, tool
from transom_policy.requests import DisableAgent, ExplainPermission, GrantAgent, ListPermissions, RestrictAgent, SetWall

pytestmark = pytest.mark.anyio


async def act() -> str:
    return "acted"


TOOLS = (tool("t", function(act, open_world=False, approval=Rule(deciders=("person:olga",)))),)


async def echo(ctx, input):
    return await ctx.call("t.act")


async def other(ctx, input):
    return "other"


QUESTIONS = [
    ("person:anna", "jobs.start", "echo", True, "role:member"),
    ("person:anna", "StartJob", "other", False, "grant"),
    ("person:ben", "jobs.start", "other", True, "grant"),
    ("person:rita", "jobs.start", "echo", False, "role:reader"),
    ("key:echo_key", "jobs.start", "other", False, "scope"),
    ("person:ada@app:desk", "keys.manage", "", False, "app"),
    ("person:ada", "keys.manage", "", True, "role:admin"),
    ("person:ada", "content.read", "job", False, "wall:hr"),
    ("person:anna", "content.read", "job", True, "content"),
    ("person:anna", "jobs.cancel", "job", True, "role:member"),
    ("person:ben", "jobs.cancel", "job", False, "role:member"),
    ("person:anna", "jobs.start", "stopped", False, "kill-switch"),
    ("person:eve", "jobs.read", "job", False, ""),
    ("person:vera", "audit.read", "", True, "right"),
]


@pytest.mark.req("IDN-1")
async def test_each_answer_names_the_rule_that_decided(house) -> None:
    async def stopped(ctx, input): ...

    async with house(echo, other, stopped, tools=TOOLS) as home:
        home.people.members["person:vera"] = Member(role="reader", rights=("audit.read",))
        await home.do("ada", RestrictAgent(agent="other"))
        await home.do("ada", GrantAgent(agent="other", person="ben"))
        await home.do("ada", DisableAgent(agent="stopped", reason="leaks"))
        await home.do("ada", SetWall(name="hr", subject=("emp-7",), person=("ada",)))
        await home.start("echo", data_subjects=("emp-7",))
        wait = await home.wait()
        by_rule = [
            ("person:olga", "DecideApproval", wait.id, True, "rule"),
            ("person:omar", "DecideApproval", wait.id, False, "rule"),
        ]
        for caller, action, name, allowed, rule in QUESTIONS + by_rule:
            said = await home.do("omar", ExplainPermission(caller=caller, action=action, object=name))
            assert (said.allowed, said.rule) == (allowed, rule), (caller, action, name, said)
            assert caller in said.why
            assert ("may not" in said.why) != allowed
            assert allowed or said.reason in said.why
            if action == "StartJob":
                refused = await home.refused(caller.removeprefix("person:"), StartJob(agent=name, id="x"))
                assert refused.details == {"permission": "jobs.start", "reason": said.reason, "rule": said.rule}


@pytest.mark.parametrize(
    "question",
    [
        ExplainPermission(caller="anna", action="jobs.read", object=""),
        ExplainPermission(caller="person:", action="jobs.read", object=""),
        ExplainPermission(caller="operator:root", action="jobs.read", object=""),
        ExplainPermission(caller="person:anna", action="jobs.start", object="nobody"),
        ExplainPermission(caller="person:anna", action="jobs.cancel", object="nothing"),
        ExplainPermission(caller="person:anna", action="content.read", object="nothing"),
    ],
    ids=repr,
)
async def test_a_question_about_what_is_not_there_is_refused(house, question) -> None:
    async with house(echo, tools=TOOLS) as home:
        with pytest.raises(TransomError) as refused:
            await home.do("omar", question)
        assert refused.value.code in ("invalid_argument", "not_found")


async def test_the_table_is_shown_to_operators(house) -> None:
    async with house(echo, tools=TOOLS) as home:
        table = {row.name: row for row in (await home.do("omar", ListPermissions())).permissions}
        assert (table["jobs.cancel"].role, table["jobs.cancel"].own) == ("operator", "member")
        refused = await home.refused("anna", ListPermissions())
        assert refused.details["rule"] == "role:member"
