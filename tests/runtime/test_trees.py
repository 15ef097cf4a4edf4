"""Job trees have bounds, and a start past one is refused with the bound's name; what runs goes on."""

import pytest

from transom_hookspecs import Context, TransomError

pytestmark = pytest.mark.anyio


async def dig(ctx: Context, input):
    """Delegate to itself until it is refused; say how deep it came, and why no further."""
    depth = input if isinstance(input, int) else 0
    try:
        return await ctx.delegate("dig", depth + 1)
    except TransomError as error:
        return {"depth": depth, "code": error.code, "details": error.details, "message": error.message}


async def fan(ctx: Context, input):
    made = 0
    try:
        while True:
            await ctx.delegate("leaf", made)
            made += 1
    except TransomError as error:
        return {"made": made, "code": error.code, "details": error.details}


async def wide(ctx: Context, input):
    """Three levels of seven, seven, and as many as there may be."""
    level = input["level"]
    if level == 3:
        return 1
    results = await ctx.together(*[lambda b: count(b, level) for _ in range(7)])
    return sum(results)


async def count(ctx: Context, level: int):
    try:
        return await ctx.delegate("wide", {"level": level + 1})
    except TransomError as error:
        return 0 if error.details["what"] == "tree_jobs" else -1000


async def leaf(ctx: Context, input):
    return input


def limit(what: str, most: int, *, kind: str, name: str) -> dict:
    """The details of the refusal of one more."""
    return {
        "type": "oz0_tree_limit",
        "scope": {"kind": kind, "name": name},
        "what": what,
        "limit": most,
        "used": most,
        "reserved": 0,
        "requested": 1,
        "could_wait": False,
        "raised_by": f"an operator, with the setting limits.{what}",
    }


@pytest.mark.req("IDN-4", "RT-1")
async def test_a_tree_is_five_levels_deep(house) -> None:
    async with house(dig) as home:
        job = await home.ran("dig", 0)
        assert job["output"]["depth"] == 5
        refused = limit("depth", 5, kind="tree", name=job["id"])
        assert (job["output"]["code"], job["output"]["details"]) == ("resource_exhausted", refused)
        assert "limits.depth" in job["output"]["message"]
        depth, below = 0, job
        while below.get("children"):
            (child,) = below["children"]
            depth, below = depth + 1, await home.job(child)
        assert depth == 5
        assert sum(e["type"] == "job.started" for _, e in await home.events(job["id"])) == 6


@pytest.mark.req("IDN-4")
async def test_a_job_has_32_children(house) -> None:
    async with house(fan, leaf) as home:
        job = await home.ran("fan")
        refused = limit("children", 32, kind="job", name=job["id"])
        assert job["output"] == {"made": 32, "code": "resource_exhausted", "details": refused}
        assert len(job["children"]) == 32


@pytest.mark.req("IDN-4")
async def test_32_children_at_once_are_32_too(house) -> None:
    async def rush(ctx: Context, input):
        async def one(b: Context):
            try:
                return await b.delegate("leaf", "x")
            except TransomError as error:
                return error.details

        return await ctx.together(*[one] * 40)

    async with house(rush, leaf) as home:
        job = await home.ran("rush")
        assert job["output"].count("x") == 32
        assert job["output"].count(limit("children", 32, kind="job", name=job["id"])) == 8
        assert len(job["children"]) == 32


@pytest.mark.req("IDN-4")
async def test_a_tree_has_200_jobs(house) -> None:
    async with house(wide) as home:
        job = await home.ran("wide", {"level": 0})
        assert job["status"] == "completed", job
        events = await home.events(job["id"])
        assert sum(e["type"] == "job.started" for _, e in events) == 200
        assert sum(e["type"] == "job.ended" for _, e in events) == 200
        assert await home.jobs() == [job["id"]], "children are no top-level jobs"


@pytest.mark.req("RT-4", "RT-1")
async def test_a_delegation_meets_the_same_checks_as_a_start(house) -> None:
    from transom_hookspecs import Agent

    strict = Agent(name="strict", run=leaf, input_schema={"type": "object", "required": ["a"]})

    async def tries(ctx: Context, input):
        said = []
        for agent, value in (("nobody", 1), ("strict", "x"), ("strict", {"a": 1})):
            try:
                said.append(await ctx.delegate(agent, value))
            except TransomError as error:
                said.append(error.code)
        return said

    async with house(tries, strict) as home:
        job = await home.ran("tries")
        assert job["output"] == ["not_found", "invalid_argument", {"a": 1}]
        assert len(job["children"]) == 1


@pytest.mark.req("RT-1", "IDN-3")
async def test_a_child_has_its_parents_caller_team_budget_and_subjects(house) -> None:
    from transom_hookspecs import Job

    async def boss(ctx: Context, input):
        return await ctx.delegate("leaf", "x")

    async with house(boss, leaf) as home:
        job = await home.ran("boss", team="blue", budget="b", data_subjects="p1", timeout="60s")
        (child,) = [await home.kernel.store.get("default", Job, name) for name in job["children"]]
        own = await home.kernel.store.get("default", Job, job["id"])
        assert (child.caller, child.team, child.budget, child.data_subjects) == (own.caller, "blue", "b", ("p1",))
        assert child.deadline <= own.deadline
