"""An object that a plugin registered and that raises is contained as its hooks are."""

import pytest
from kernel_kit import OPERATOR, agents_plugin

import transom_testing.streaming  # noqa: F401 - here, as an import blocks the event loop
from transom.web import create_app
from transom_hookspecs import (
    Door,
    GetCatalog,
    GetJob,
    JobEnded,
    Operation,
    TextDelta,
    TextEnded,
    TransomError,
    function,
    tool,
)

pytestmark = [pytest.mark.anyio, pytest.mark.req("KERN-4")]


class BadFilter:
    name = "bad"

    def __init__(self, error, place):
        self._error, self._place = error, place

    def open(self, scope):
        self._at("open")
        return self

    def feed(self, text):
        self._at("feed")
        return text

    def end(self):
        self._at("end")
        return ""

    def _at(self, place):
        if self._place == place:
            raise self._error


@pytest.mark.parametrize("place", ["open", "feed", "end"])
async def test_a_filter_that_raises_masks_and_never_passes_on(world, bad, place):
    broken = BadFilter(RuntimeError(bad.cause), place)
    async with world(bad.plugin(register_filters=lambda self: [broken])) as w:
        log = await w.run("hello")
        said = "".join(event.text for event in log.of(TextEnded))
        job = await w.kernel.call("GetJob", GetJob(id=log.of(JobEnded)[0].job), OPERATOR)
    assert said == {"open": "[withheld]", "feed": "[withheld]", "end": "hello[withheld]"}[place]
    assert (job.status, job.output) == ("completed", said)


async def test_a_route_that_raises_fails_its_request_alone_and_is_named(kernel, bad, door_client):
    from litestar import get

    @get("/bad")
    async def bad_route() -> str:
        raise RuntimeError(bad.cause)

    @get("/good")
    async def good_route() -> str:
        return "fine"

    broken = bad.plugin(register_doors=lambda self: [Door(name="front", handlers=[bad_route])])
    good = bad.plugin("good", register_doors=lambda self: [Door(name="back", handlers=[good_route])])
    async with kernel(plugins=[broken, good]) as k, door_client(k) as client:
        answer = await client.get("/bad")
        assert (answer.status_code, answer.json()["code"]) == (500, "internal")
        assert bad.cause not in answer.text
        assert (await client.get("/good")).text == "fine"
        bad.names(answer.json()["message"], "front")


async def test_an_answer_that_cannot_be_sent_is_named_too_and_other_doors_may_share_its_path(kernel, bad, door_client):
    from litestar import get, post

    @get("/bell")
    async def no_json() -> object:
        return object()

    @post("/bell", status_code=200)
    async def ring() -> str:
        return "ding"

    broken = bad.plugin(register_doors=lambda self: [Door(name="front", handlers=[no_json])])
    good = bad.plugin("good", register_doors=lambda self: [Door(name="back", handlers=[ring])])
    async with kernel(plugins=[broken, good]) as k, door_client(k) as client:
        answer = await client.get("/bell")
        assert answer.status_code == 500
        assert answer.json()["details"]["plugin"] == "bad"
        assert (await client.post("/bell")).text == "ding"
        assert (await client.get("/nothing")).json()["code"] == "not_found"


@pytest.mark.parametrize("handlers", [["no handler"], [print]], ids=["a text", "a function"])
async def test_a_door_whose_handlers_cannot_be_served_stops_the_start(kernel, bad, handlers):
    async with kernel(plugins=[bad.plugin(register_doors=lambda self: [Door(name="front", handlers=handlers)])]) as k:
        with pytest.raises(TransomError, match="plugin 'bad': door 'front'") as refused:
            create_app(k)
        assert refused.value.code == "failed_precondition"


async def test_an_operation_that_raises_is_named(world, bad):
    async def handler(call, request):
        raise RuntimeError(bad.cause)

    operation = Operation(name="Break", request=GetCatalog, response=GetCatalog, permission="x", handler=handler)
    async with world(bad.plugin(register_operations=lambda self: [operation])) as w:
        with bad.blamed("Break"):
            await w.kernel.call("Break", GetCatalog(), OPERATOR)


async def test_a_model_that_raises_fails_its_job_and_is_named(world, bad):
    class Broken:
        name = "broken"

        async def stream(self, request):
            yield TextDelta("said")
            raise RuntimeError(bad.cause)

        def count(self, request):
            return 1

    async with world(bad.plugin(register_models=lambda self: [Broken()])) as w:
        (ended,) = (await w.run("asks_a_model", "broken")).of(JobEnded)
        assert (ended.status, ended.error.code) == ("failed", "internal")
        bad.names(ended.error.message, "broken")
        await w.still_works()


async def test_a_function_that_raises_fails_its_call_and_is_named(world):
    def ring() -> str:
        """Fail."""
        raise RuntimeError("no such bell")

    async def patient(ctx, input):
        try:
            return await ctx.call("broken.ring")
        except TransomError as error:
            return f"{error.code}: {error.message}"

    broken = agents_plugin(patient, tools=(tool("broken", function(ring, open_world=False)),))
    async with world(type("Broken", (broken,), {"name": "broken"})) as w:
        (ended,) = (await w.run("patient")).of(JobEnded)
        assert ended.output == "internal: broken.ring failed: RuntimeError: no such bell"
        await w.still_works()


@pytest.mark.parametrize(
    "register",
    [
        {"register_tools": lambda self: [tool("bell")], "register_agents": lambda self: []},
        {"register_models": lambda self: [type("M", (), {"name": "parrot"})()]},
    ],
    ids=["a tool", "a model"],
)
async def test_two_things_of_one_name_stop_the_start_and_are_named(world, bad, register):
    bell = bad.plugin("bell", register_tools=lambda self: [tool("bell")])
    with pytest.raises(TransomError, match=r"of plugin '(bad|bell|models)'.*rename either"):
        async with world(bell, bad.plugin(**register)):
            pass
