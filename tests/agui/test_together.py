"""What only some functions ask for: edited arguments, a late yes that is checked again, questions with fields of their own."""

import json

import pytest

from transom_hookspecs import (
    Access,
    Agent,
    Caller,
    Job,
    Origin,
    Rule,
    Step,
    Tool,
    Verdict,
    Wait,
    function,
    hookimpl,
    tool,
)
from transom_secrets.requests import SetSecret

pytestmark = pytest.mark.anyio

VALUE = "correct-horse-battery-staple"


def deploy(where: str) -> str:
    """Deploy somewhere."""
    return f"Deployed to {where}."


async def shipper(ctx, input):
    """Deploys to two places at once."""
    places = await ctx.together(
        lambda c: c.call("ship.deploy", {"where": "staging"}), lambda c: c.call("ship.deploy", {"where": "production"})
    )
    return " ".join(places)


def fetch(auth: str, text: str) -> str:
    """Fetch something."""
    return f"fetched with {auth} and {text}"


async def fetcher(ctx, input):
    """Calls a function with a credential, and with one that slipped into a text."""
    return await ctx.call("ship.fetch", {"auth": "Bearer {{secret:hub}}", "text": f"it is {VALUE}!"})


async def form(ctx, input):
    """Asks for a name and an age."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name"]}
    answer = await ctx.ask("Who are you?", schema=schema)
    changed = await ctx.ask("Apply the change?", kind="changeset", details={"files": 3})
    return f"{answer} {changed}"


def remove(name: str = "nothing") -> str:
    """Remove something."""
    return f"Removed {name}."


async def remover(ctx, input):
    """Removes what must be typed."""
    return await ctx.call("ship.remove", {"name": "a"})


class Ship:
    """Agents and a function for these tests."""

    spec = "1.0"
    name = "ship"
    stopped: set[str] = set()

    def __init__(self, config: object = None) -> None:
        Ship.stopped = set()

    @hookimpl
    def register_tools(self) -> list[Tool]:
        functions = [function(each, open_world=False, approval=Rule(edit=True)) for each in (deploy, fetch)]
        named = function(remove, open_world=False, approval=Rule(edit=True, typed="name"))
        return [tool("ship", *functions, named, description="Ships.")]

    @hookimpl
    def register_agents(self) -> list[Agent]:
        return [Agent(name=each.__name__, run=each, uses=("ship.*",)) for each in (shipper, form, fetcher, remover)]

    @hookimpl
    def authorize(self, access: Access) -> Verdict | None:
        stopped = access.permission == "jobs.continue" and access.object in self.stopped
        return Verdict(ruling="deny", reason="it is switched off") if stopped else None


def answer(wait, **payload) -> dict:
    return {"interruptId": wait["id"], "status": "resolved", "payload": payload}


@pytest.mark.req("AGUI-30", "AGUI-36")
async def test_an_edit_replaces_the_whole_arguments_and_only_where_it_is_asked_for(server):
    async with server(plugins=[Ship]) as s:
        page = s.page("omar", agent="shipper")
        first, second = (await page.say("ship")).interrupts
        assert first["responseSchema"]["properties"]["editedArgs"] == {"type": "object"}
        wrong = {"where": 7}
        refused = await page.run(resume=[answer(first, approved=True), answer(second, approved=True, editedArgs=wrong)])
        assert refused.events[-1]["code"] == "invalid_resume"
        assert refused.events[-1]["rawEvent"]["oz0"]["interruptId"] == second["id"]
        assert len(await s.core.store.select("default", Wait, "open", {"open": True})) == 2
        client = await page.run(
            resume=[answer(first, approved=True), answer(second, approved=True, editedArgs={"where": "nowhere"})]
        )
        assert client.text() == "[AI] Deployed to staging. Deployed to nowhere."


@pytest.mark.req("AGUI-30", "AGUI-36")
async def test_what_is_typed_must_be_what_runs_also_when_it_was_edited(server):
    async with server(plugins=[Ship]) as s:
        page = s.page("omar", agent="remover")
        (wait,) = (await page.say("remove it")).interrupts
        refused = await page.run(resume=[answer(wait, approved=True, confirm="a", editedArgs={"name": "b"})])
        assert refused.events[-1]["type"] == "RUN_ERROR"
        client = await page.run(resume=[answer(wait, approved=True, confirm="b", editedArgs={"name": "b"})])
        assert client.text() == "[AI] Removed b."


@pytest.mark.req("AGUI-30")
async def test_no_arguments_are_an_edit_too(server):
    async with server(plugins=[Ship]) as s:
        page = s.page("omar", agent="shipper")
        first, second = (await page.say("ship")).interrupts
        refused = await page.run(resume=[answer(first, approved=True), answer(second, approved=True, editedArgs={})])
        assert refused.events[-1]["code"] == "invalid_resume"  # where: is missing, and nothing ran with what was shown
        assert len(await s.core.store.select("default", Wait, "open", {"open": True})) == 2


@pytest.mark.req("AGUI-36")
async def test_what_was_edited_by_another_meanwhile_is_refused_as_changed(server):
    async with server(plugins=[Ship]) as s:
        page = s.page("omar", agent="shipper")
        first, second = (await page.say("ship")).interrupts
        edited = await s.rest("ada", "POST", f"/v1/approvals/{second['id']}/edit", json={"arguments": {"where": "the moon"}})
        assert edited.status_code == 200, edited.text
        refused = await page.run(resume=[answer(first, approved=True), answer(second, approved=True)])
        assert refused.events[-1]["code"] == "interrupt_changed"
        assert len(await s.core.store.select("default", Wait, "open", {"open": True})) == 2


@pytest.mark.req("AGUI-36")
async def test_a_late_yes_that_is_no_longer_permitted_is_denied_and_decides_nothing_else(server, clock):
    async with server(plugins=[Ship], clock=clock) as s:
        page = s.page("omar", agent="shipper")
        first, second = (await page.say("ship")).interrupts
        clock.forward(1_000)
        Ship.stopped.add("shipper")
        client = await page.run(resume=[answer(first, approved=True), answer(second, approved=True)])
        assert client.events[-1]["code"] == "permission_denied"
        assert "switched off" in client.events[-1]["message"]
        waits = await s.core.store.select("default", Wait, "open", {"open": True})
        assert [w.token for w in waits] in ([second["id"]], [])
        over = await s.core.store.select("default", Wait, "open", {"open": False})
        assert "denied" in {w.outcome for w in over}
        assert "approved" not in {w.outcome for w in over}


@pytest.mark.req("AGUI-31", "AGUI-32", "AGUI-36")
async def test_a_typed_question_takes_its_fields_and_a_changeset_a_yes(server):
    async with server(plugins=[Ship]) as s:
        page = s.page("omar", agent="form")
        (wait,) = (await page.say("hello")).interrupts
        assert wait["metadata"]["oz0/typed"] is True
        assert set(wait["responseSchema"]["properties"]) == {"name", "age"}
        refused = await page.run(resume=[answer(wait, name="kim", age="old")])
        assert refused.events[-1]["code"] == "invalid_resume"
        (wait,) = (await page.run(resume=[answer(wait, name="kim", age=7)])).interrupts
        assert (wait["reason"], wait["metadata"]["oz0/kind"]) == ("confirmation", "changeset")
        assert wait["metadata"]["oz0/details"] == {"files": 3}
        client = await page.run(resume=[answer(wait, approved=True)])
        assert "kim" in client.text()
        assert client.text().endswith("True")


@pytest.mark.req("AGUI-14")
async def test_a_credential_is_a_placeholder_in_stream_log_trace_and_approval(server):
    async with server(plugins=[Ship, "secrets"]) as s:
        operator = Origin(tenant="default", caller=Caller(kind="operator", id="op"), door="test")
        await s.core.call("SetSecret", SetSecret(name="hub", value=VALUE, host=("hub.example",)), operator)
        page = s.page("omar", agent="fetcher")
        body = page.body(messages=[{"id": "m1", "role": "user", "content": "go"}])
        stream = (await page.post(body)).text
        client = page.client.take(stream.encode())
        (wait,) = client.interrupts
        assert wait["metadata"]["oz0/details"]["auth"] == "Bearer {{secret:hub}}"
        assert json.loads(client.of("TOOL_CALL_ARGS")[0]["delta"]) == wait["metadata"]["oz0/details"]
        done = (await page.post(page.body(resume=[answer(wait, approved=True)]))).text
        (job,) = await s.core.store.select("default", Job, "recent", {"top": True})
        steps = await s.core.store.select("default", Step, "job", {"job": job.id})
        log = await s.core.store.read("default", job.id)
        waits = await s.core.store.select("default", Wait, "tree", {"tree": job.id})
        assert VALUE not in f"{stream}{done}{log}{steps}{waits}"
        assert "RUN_FINISHED" in done
