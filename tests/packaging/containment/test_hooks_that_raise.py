"""A plugin whose hook raises is contained: what it served gets a clean error that names it, and all else goes on."""

from contextlib import asynccontextmanager, suppress

import anyio
import pytest
from kernel_kit import OPERATOR

import transom_testing.streaming  # noqa: F401 - here, as an import blocks the event loop
from transom.dispatch import Hooks, new_manager
from transom.web import create_app
from transom_hookspecs import (
    FAMILIES,
    CallEnded,
    Caller,
    CancelJob,
    GetCatalog,
    JobEnded,
    ListJobs,
    Origin,
    PluginError,
    StartJob,
    TransomError,
    Verdict,
)

pytestmark = [pytest.mark.anyio, pytest.mark.req("KERN-4")]

HOOKS = [name for family in FAMILIES for name, method in vars(family).items() if hasattr(method, "transom_spec")]
REGISTER = [name for name in HOOKS if name.startswith("register_") and name != "register_commands"]
"""`register_commands` is called by the script alone: see the tests of its commands."""


# -- at start ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", REGISTER)
async def test_a_register_hook_that_raises_stops_the_start(kernel, bad, hook):
    with bad.blamed(hook):
        async with kernel(plugins=[bad.plugin(**{hook: bad.raising()})]) as k:
            create_app(k)


@pytest.mark.parametrize("hook", REGISTER)
async def test_a_register_hook_that_returns_no_list_stops_the_start(kernel, bad, hook):
    with pytest.raises(PluginError, match=f"plugin 'bad' failed in {hook}"):
        async with kernel(plugins=[bad.plugin(**{hook: lambda self: 3})]) as k:
            create_app(k)


def life(ended, error=None, *, at_once=False):
    """A plugin's life that tells when it ends, and may raise."""

    @asynccontextmanager
    async def run(self, kernel):
        if error and at_once:
            raise error
        try:
            yield
        finally:
            ended.append(self.name)
        if error:
            raise error

    return run


async def test_a_life_that_cannot_begin_stops_the_start_and_ends_those_that_had_begun(kernel, bad):
    ended = []
    first, broken = bad.plugin("a", run=life(ended)), bad.plugin(run=life(ended, RuntimeError(bad.cause), at_once=True))
    with bad.blamed("run"):
        async with kernel(plugins=[first, broken]):
            pass
    assert ended == ["a"]


async def test_a_life_that_ends_badly_is_named_and_the_others_end_all_the_same(kernel, bad):
    ended = []
    first, broken = bad.plugin("a", run=life(ended)), bad.plugin(run=life(ended, RuntimeError(bad.cause)))
    with bad.blamed("run"):
        async with kernel(plugins=[first, broken]):
            pass
    assert ended == ["bad", "a"]


# -- deciding ----------------------------------------------------------------------------------------------


async def test_authenticate_that_raises_fails_the_request_alone(world, bad, door_client):
    async with world("rest", bad.plugin(authenticate=bad.raising())) as w, door_client(w.kernel, token="t") as client:
        answer = await client.get("/v1/agents")
        assert (answer.status_code, answer.json()["code"]) == (500, "internal")
        bad.names(answer.json()["message"], "authenticate")
        assert bad.cause not in answer.text
        assert (await client.get("/healthz")).status_code == 200
        await w.still_works()


@pytest.mark.parametrize(
    "others", [{}, {"authorize": lambda self: Verdict(ruling="allow")}], ids=["alone", "with a milder one"]
)
async def test_authorize_that_raises_denies(world, bad, others):
    async with world(bad.plugin("another", **others), bad.plugin(authorize=bad.raising())) as w:
        with pytest.raises(TransomError) as refused:
            await w.kernel.call("GetCatalog", GetCatalog(), OPERATOR)
        assert refused.value.code == "permission_denied"
        bad.names(refused.value.message, "authorize")


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(CancelJob(id="j"), id="a cancel"),
        pytest.param(StartJob(agent="hello"), id="a start"),
    ],
)
async def test_what_was_denied_because_a_plugin_raised_is_audited(world, bad, request_):
    def authorize(self, access):
        if access.caller.kind == "person":
            raise RuntimeError(bad.cause)

    person = Origin(tenant="default", caller=Caller(kind="person", id="anna", tenant="default"), door="test")
    async with world(bad.plugin(authorize=authorize)) as w:
        await w.kernel.call("StartJob", StartJob(agent="hello", id="j"), OPERATOR)
        with pytest.raises(TransomError) as refused:
            await w.kernel.call(type(request_).__name__, request_, person)
        assert refused.value.code == "permission_denied"
        rows = [row.entry for row in await w.kernel.store.audit("default")]
    (entry,) = [entry for entry in rows if entry.caller == "person:anna"]
    assert entry.outcome == "refused"
    bad.names(entry.details["reason"], "authorize")


async def refused_start(w, bad, where):
    with bad.blamed(where):
        await w.kernel.call("StartJob", StartJob(agent="hello"), OPERATOR)
    assert (await w.kernel.call("ListJobs", ListJobs(), OPERATOR)).jobs == ()


async def test_admit_that_raises_refuses_the_start_and_leaves_nothing(world, bad):
    async with world(bad.plugin(admit=bad.raising())) as w:
        await refused_start(w, bad, "admit")


async def test_a_reservation_that_raises_refuses_the_start_and_leaves_nothing(world, bad):
    class Reservation:
        def reserve(self, tx, job):
            raise RuntimeError(bad.cause)

    async with world(bad.plugin(admit=lambda self: Reservation())) as w:
        await refused_start(w, bad, "admit")


async def test_before_tool_that_raises_denies_the_call_and_its_job_may_go_on(world, bad):
    async with world(bad.plugin(before_tool=bad.raising())) as w:
        log = await w.run("rings")
        (ended,) = log.of(CallEnded)
        assert ended.error.code == "permission_denied"
        bad.names(ended.error.message, "before_tool")
        assert log.of(JobEnded)[0].error.code == "permission_denied"
        await w.still_works()


# -- observing ---------------------------------------------------------------------------------------------


async def test_on_job_ended_that_raises_harms_nobody_and_is_off_after_five_times(world, bad):
    told, asked = [], []

    def tells(self, job):
        told.append(job.id)

    def breaks(self, job):
        asked.append(job.id)
        raise RuntimeError(bad.cause)

    async with world(bad.plugin(on_job_ended=breaks), bad.plugin("good", on_job_ended=tells)) as w:
        for number in range(1, 8):
            await w.still_works()
            with anyio.fail_after(5):
                while len(told) < number:
                    await anyio.sleep(0.001)
        assert len(asked) == 5
        assert w.kernel.health().problems == ("plugin 'bad': on_job_ended is off after 5 failures in a row",)


async def test_on_audit_that_raises_is_told_again_and_holds_up_nobody(world, bad):
    tries, told = [], []

    def breaks(self, rows):
        tries.append(rows)
        if len(tries) < 3:
            raise RuntimeError(bad.cause)

    def tells(self, rows):
        told.extend(rows)

    async with world(bad.plugin(on_audit=breaks), bad.plugin("good", on_audit=tells)) as w:
        await w.still_works()
        with anyio.fail_after(5):
            while len(tries) < 3:
                await anyio.sleep(0.01)
        assert told
        assert [row.number for row in told] == [row.number for row in tries[2]]


def around(error, place):
    """An `around_*` hook that raises at a place."""

    def hook(self):
        if place == "its call":
            raise error
        return inside()

    @asynccontextmanager
    async def inside():
        if place == "its beginning":
            raise error
        yield
        raise error

    return hook


@pytest.mark.parametrize("place", ["its call", "its beginning", "its end"])
@pytest.mark.parametrize(
    ("hook", "agent"), [("around_job", "hello"), ("around_tool", "rings"), ("around_model", "asks_a_model")], ids=lambda x: x
)
async def test_an_around_hook_that_raises_fails_what_it_wraps_and_is_named(world, bad, hook, agent, place):
    async with world(bad.plugin(**{hook: around(RuntimeError(bad.cause), place)})) as w:
        (ended,) = (await w.run(agent)).of(JobEnded)
        assert (ended.status, ended.error.code) == ("failed", "internal")
        bad.names(ended.error.message, hook)
        if hook != "around_job":
            await w.still_works()


def watching(seen, leaves):
    """An `around_job` that sees the error in it, and leaves as told."""

    @asynccontextmanager
    async def hook(self):
        try:
            async with leaves() as inside:
                yield inside
        except BaseException as error:
            seen.append(error)
            raise

    return hook


@asynccontextmanager
async def as_it_came():
    yield


@asynccontextmanager
async def swallowing():
    with suppress(BaseException):
        yield


@pytest.mark.parametrize("leaves", [as_it_came, anyio.create_task_group, swallowing])
@pytest.mark.parametrize(
    "error", [RuntimeError("no bell"), TransomError("not_found", "no bell"), StopAsyncIteration()], ids=repr
)
async def test_an_error_of_what_is_wrapped_passes_unchanged_and_nobody_is_blamed(bad, error, leaves):
    seen = []
    manager = new_manager()
    for name in ("bad", "outer"):
        manager.register(bad.plugin(name, around_job=watching(seen, leaves))(None), name=name)
    with pytest.raises(type(error)) as caught:
        async with Hooks(manager).around("around_job", None):
            raise error
    assert caught.value is error
    assert bool(seen) is (leaves is not swallowing)


async def test_an_end_that_raises_over_the_error_of_what_is_wrapped_is_named(bad):
    @asynccontextmanager
    async def hook(self):
        try:
            yield
        finally:
            raise RuntimeError(bad.cause)

    manager = new_manager()
    manager.register(bad.plugin(around_job=hook)(None), name="bad")
    with bad.blamed("around_job"):
        async with Hooks(manager).around("around_job", None):
            raise ValueError("no bell")


@pytest.mark.parametrize("leaves", [swallowing, "raising"])
async def test_a_cancellation_passes_whatever_the_end_raises(bad, leaves):
    @asynccontextmanager
    async def raising():
        try:
            yield
        finally:
            raise RuntimeError(bad.cause)

    manager = new_manager()
    plugin = bad.plugin(around_job=watching([], raising if leaves == "raising" else leaves))
    manager.register(plugin(None), name="bad")
    with anyio.CancelScope() as scope:
        async with Hooks(manager).around("around_job", None):
            scope.cancel()
            await anyio.sleep(1)
        raise AssertionError("went on")
    assert scope.cancelled_caught
