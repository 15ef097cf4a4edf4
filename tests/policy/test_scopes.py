"""A key that is limited to agents is told the same of what other agents do, and of what is not there."""

import pytest
from policy_kit import House

from transom_hookspecs import (
    CancelJob,
    DecideApproval,
    EditWait,
    GetJob,
    GetJobBoard,
    GetJobTrace,
    GetJobWait,
    ListApprovals,
    ListJobs,
    Rule,
    SetJobTags,
    StartJob,
    WatchJob,
    function,
    tool,
)

pytestmark = [pytest.mark.anyio, pytest.mark.req("IDN-2")]


async def act() -> str:
    return "acted"


TOOLS = (tool("t", function(act, open_world=False, approval=Rule(edit=True))),)


async def other(ctx, input):
    return await ctx.call("t.act")


async def echo(ctx, input):
    return input


def requests(job: str, wait: str, agent: str) -> list:
    named = [GetJob, GetJobTrace, GetJobWait, GetJobBoard, CancelJob, WatchJob, SetJobTags]
    return [
        *(request(id=job) for request in named),
        DecideApproval(wait=wait, approved=True),
        EditWait(wait=wait, arguments={}),
        ListApprovals(job=job),
        StartJob(agent=agent),
        StartJob(agent="echo", continue_from=job),
    ]


async def told(home: House, job: str, wait: str, agent: str) -> list[tuple]:
    said = []
    for request in requests(job, wait, agent):
        error = await home.refused("key:echo_key", request)
        words = error.message.replace(job, "JOB").replace(wait, "WAIT").replace(agent, "AGENT")
        said.append((type(request).__name__, error.code, words, error.details))
    return said


async def test_of_another_agents_job_and_of_none_the_same_is_told(house) -> None:
    async with house(echo, other, tools=TOOLS) as home:
        await home.start("other", job="x-17", conversation="talk")
        wait = await home.wait("x-17")
        there = await told(home, "x-17", wait.id, "other")
        nothing = await told(home, "x-99", "wait-none", "ether")
        assert there == nothing
        assert {code for _, code, _, _ in there} == {"permission_denied"}
        assert (await home.do("key:echo_key", ListJobs())).jobs == ()
        assert (await home.do("key:echo_key", ListApprovals())).waits == ()
        assert (await home.wait("x-17")).open
