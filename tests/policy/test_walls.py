"""Data rules: who is behind a wall reads nothing of what is behind it, whatever the role, and is told the label."""

import pytest
from policy_kit import House, origin

from transom_hookspecs import (
    Caller,
    DecideApproval,
    EditWait,
    GetJob,
    GetJobBoard,
    GetJobTrace,
    GetJobWait,
    ListApprovals,
    ListJobs,
    Origin,
    Rule,
    SetJobTags,
    StartJob,
    TenantSettings,
    WatchJob,
    function,
    tool,
)
from transom_policy.requests import ListWalls, RemoveWall, SetWall

pytestmark = pytest.mark.anyio

SECRET = "s3cret"
WALL = SetWall(name="hr", subject=("emp-7",), person=("ada",), team=("desk",))


async def act(text: str) -> str:
    return f"did {text}"


TOOLS = (tool("t", function(act, open_world=False, approval=Rule(edit=True))),)


async def teller(ctx, input):
    await ctx.note(f"about {SECRET}", tags=(SECRET,))
    await ctx.call("t.act", {"text": SECRET})
    raise ValueError(SECRET)


async def asker(ctx, input):
    return await ctx.ask(f"Is it {SECRET}?", choices=(SECRET, "no"))


async def everything(home: House, who: str) -> str:
    """All that reading operations answer about the job, as text."""
    answers = [
        await home.do(who, request)
        for request in (
            GetJob(id="job"),
            ListJobs(),
            GetJobTrace(id="job"),
            GetJobWait(id="job"),
            GetJobBoard(id="job"),
            ListApprovals(),
        )
    ]
    return repr(answers)


async def waiting(home: House, agent: str = "teller") -> None:
    await home.start(agent, "anna", input=SECRET, tags=(SECRET,), data_subjects=("emp-7",))
    await home.wait()


@pytest.mark.req("IDN-11")
@pytest.mark.parametrize("when", ["waiting", "failed"])
async def test_who_is_behind_a_wall_reads_nothing_and_is_told_the_label(house, when) -> None:
    async with house(teller, tools=TOOLS) as home:
        await home.do("ada", WALL)
        home.people.change("person:omar", teams=("desk",))
        await waiting(home)
        if when == "failed":
            await home.decide("olga", await home.wait())
            assert (await home.until()).status == "failed"
        for who in ("ada", "omar"):
            assert SECRET not in await everything(home, who)
            job = await home.do(who, GetJob(id="job"))
            assert (job.redacted, job.content, job.tags) == ("hr", False, ())
            assert (await home.do(who, ListJobs())).jobs[0].redacted == "hr"
            assert (await home.do(who, GetJobTrace(id="job"))).job.redacted == "hr"
            assert (await home.do(who, GetJobWait(id="job"))).redacted == "hr"
            assert (await home.do(who, GetJobBoard(id="job"))).redacted == "hr"
            assert all(wait.redacted == "hr" for wait in job.approvals)
            refused = await home.refused(who, WatchJob(id="job"))
            assert (refused.code, refused.details["label"]) == ("permission_denied", "hr")
        for who in ("anna", "olga"):
            assert SECRET in await everything(home, who)
            assert (await home.do(who, GetJob(id="job"))).redacted == ""


@pytest.mark.req("IDN-11")
async def test_who_is_behind_a_wall_answers_and_edits_nothing_behind_it(house) -> None:
    async with house(teller, asker, tools=TOOLS) as home:
        await home.do("ada", WALL)
        await waiting(home)
        wait = await home.wait()
        assert (await home.refused("ada", EditWait(wait=wait.id, arguments={"text": "x"}))).code == "permission_denied"
        await home.do("olga", EditWait(wait=wait.id, arguments={"text": "x"}))
        await home.start("asker", "anna", job="asks", data_subjects=("emp-7",))
        question = await home.wait("asks")
        refused = await home.refused("ada", DecideApproval(wait=question.id, answer="no"))
        assert refused.details["reason"] == "not_a_decider"


@pytest.mark.req("IDN-11", "IDN-3")
async def test_a_wall_around_a_label_and_one_that_was_taken_down(house) -> None:
    async with house(teller, tools=TOOLS) as home:
        await home.do("ada", SetWall(name="patients", label=("clinic",), person=("omar",)))
        caller = Caller(kind="key", id="ci", tenant="default", label="clinic")
        labelled = Origin(tenant="default", door="test", caller=caller)
        await home.do(labelled, StartJob(agent="teller", id="job", input=SECRET))
        await home.wait()
        assert (await home.do("omar", GetJob(id="job"))).redacted == "clinic"
        assert (await home.do("olga", GetJob(id="job"))).redacted == ""
        assert [wall.name for wall in (await home.do("omar", ListWalls())).walls] == ["patients"]
        await home.do("ada", RemoveWall(name="patients"))
        assert (await home.do("omar", GetJob(id="job"))).redacted == ""


@pytest.mark.req("IDN-11")
async def test_a_turn_is_behind_the_walls_of_the_turns_before_it(house) -> None:
    """Its agent reads what was said in them."""

    async def teller_of_turns(ctx, input):
        return [item.content for item in await ctx.history()]

    async with house(teller_of_turns) as home:
        await home.do("ada", WALL)
        await home.start("teller_of_turns", job="one", conversation="c", input=SECRET, data_subjects=("emp-7",))
        await home.until("one")
        await home.start("teller_of_turns", job="two", conversation="c", input="go on")
        await home.until("two")
        await home.start("teller_of_turns", job="three", conversation="c", input="go on")
        await home.until("three")
        assert SECRET in str((await home.do("anna", GetJob(id="three"))).output)
        assert (await home.do("ada", GetJob(id="three"))).redacted == "hr"


@pytest.mark.req("IDN-11")
async def test_a_childs_words_are_behind_its_parents_wall(house) -> None:
    async def parent(ctx, input):
        return await ctx.delegate("worker", input)

    async def worker(ctx, input):
        return await ctx.say(f"about {input}")

    async with house(parent, worker) as home:
        await home.do("ada", WALL)
        await home.start("parent", input=SECRET, data_subjects=("emp-7",))
        await home.until()
        (child,) = (await home.do("ada", GetJob(id="job"))).children
        seen = await home.do("ada", GetJob(id=child))
        assert (seen.redacted, seen.output) == ("hr", None)


async def test_tags_that_someone_behind_a_wall_sets_are_not_shown_to_her(house) -> None:
    async with house(teller, tools=TOOLS) as home:
        await home.do("ada", WALL)
        await waiting(home)
        assert (await home.do("ada", SetJobTags(id="job", add=("mine",)))).tags == ()
        assert (await home.do("anna", GetJob(id="job"))).tags == (SECRET, "mine")


@pytest.mark.parametrize(
    "wall",
    [
        SetWall(name="a b", label=("x",), person=("ada",)),
        SetWall(name="hr", person=("ada",)),
        SetWall(name="hr", label=("x",)),
        SetWall(name="hr", label=("x",), team=("dsk",)),
        SetWall(name="hr", label=("x",), person=("",)),
        RemoveWall(name="hr"),
    ],
    ids=["a name that is none", "around nothing", "from nobody", "a team that is not there", "no name", "none there"],
)
async def test_a_wall_that_will_not_do_is_refused(house, wall) -> None:
    async with house(teller) as home:
        assert (await home.refused("ada", wall)).code in ("invalid_argument", "not_found")
        assert (await home.do("ada", ListWalls())).walls == ()


# -- works-council mode


@pytest.mark.req("IDN-9")
async def test_in_works_council_mode_lists_name_nobody_but_oneself(house) -> None:
    async def pair(ctx, input):
        return await ctx.ask("Do it?", kind="approval", rule=Rule(count=3))

    async with house(pair) as home:
        await home.start("pair", origin("anna", via="app:desk"))
        await home.decide("omar", await home.wait(), comment="fine")

        async def seen(who):
            job = await home.do(who, GetJob(id="job"))
            (listed,) = (await home.do(who, ListJobs())).jobs
            (wait,) = (await home.do(who, ListApprovals())).waits
            (vote,) = wait.votes
            return [job.caller, listed.caller, wait.starter, vote.by, vote.comment]

        names = ["person:anna@app:desk", "person:anna@app:desk", "person:anna", "person:omar", "fine"]
        assert await seen("ada") == names
        home.people.settled = TenantSettings(works_council=True)
        assert await seen("ada") == ["", "", "", "", ""]
        assert await seen("anna") == [*names[:3], "", ""]
        assert await seen("omar") == ["", "", "", *names[3:]]
        (entry,) = await home.audited("approval.decide")
        assert entry.caller == "person:omar", "the audit trail keeps it"


@pytest.mark.req("IDN-9")
async def test_in_works_council_mode_keys_are_still_named(house) -> None:
    async def echo(ctx, input):
        return "done"

    async with house(echo) as home:
        home.people.settled = TenantSettings(works_council=True)
        await home.start("echo", "key:ci")
        assert (await home.do("anna", GetJob(id="job"))).caller == "key:ci"
