"""The whole of it on a kernel: the demo's agents, decided by the demo's people, their notes read from the board."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from transom.app import Transom
from transom_agents import AgentsPlugin
from transom_board import BoardPlugin
from transom_demo import DemoPlugin
from transom_hookspecs import (
    DecideApproval,
    DevTokens,
    GetJob,
    GetJobBoard,
    JobAnswer,
    JobView,
    ListApprovals,
    NotePinned,
    Origin,
    RequestHead,
    StartJob,
    Text,
    TransomError,
    WaitView,
)
from transom_identity import IdentityPlugin
from transom_local_engine import LocalEnginePlugin
from transom_policy import PolicyPlugin
from transom_scripted import ScriptedPlugin
from transom_testing.memory_store import MemoryStorePlugin

pytestmark = pytest.mark.anyio

PLUGINS = [
    AgentsPlugin,
    BoardPlugin,
    DemoPlugin,
    IdentityPlugin,
    LocalEnginePlugin,
    MemoryStorePlugin,
    PolicyPlugin,
    ScriptedPlugin,
]


class House:
    """A kernel in development mode, and the demo's people at its door."""

    def __init__(self, transom: Transom) -> None:
        self.kernel = transom.kernel
        tokens = self.kernel.service(DevTokens)
        assert tokens is not None
        self.tokens = tokens.tokens()

    async def call(self, who: str, request: Any, tenant: str = "default") -> Any:
        head = RequestHead(method="POST", path="/", headers={"authorization": (f"Bearer {self.tokens[who]}",)})
        caller = await self.kernel.authenticate(head)
        return await self.kernel.call(type(request).__name__, request, Origin(tenant=tenant, caller=caller, door="test"))

    async def start(self, who: str, agent: str, input: Any = "hello", tenant: str = "default") -> JobView:
        answer: JobAnswer = await self.call(who, StartJob(agent=agent, input=input), tenant)
        return answer.job

    async def waits(self, who: str, job: JobView) -> tuple[WaitView, ...]:
        with anyio.fail_after(5):
            while not (waits := (await self.call(who, ListApprovals(job=job.id))).waits):
                await anyio.sleep(0.01)
            return waits

    async def end(self, who: str, job: JobView) -> JobView:
        with anyio.fail_after(10):
            while not (view := await self.call(who, GetJob(id=job.id))).closed_at:
                await anyio.sleep(0.01)
            return view

    async def run(self, agent: str, input: Any = "hello") -> JobView:
        return await self.end("anna", await self.start("anna", agent, input))

    async def log(self, job: JobView, kind: type) -> list[Any]:
        entries = await self.kernel.store.read("default", job.tree, limit=1000)
        return [entry.event for entry in entries if isinstance(entry.event, kind)]


@pytest.fixture
def house(tmp_path) -> Callable[[], Any]:
    @asynccontextmanager
    async def opened() -> AsyncIterator[House]:
        settings = {"dev": True, "tenants": ("default", "acme"), "data": str(tmp_path)}
        async with Transom(plugins=PLUGINS, entry_points=False, **settings) as transom:
            yield House(transom)

    return opened


async def refusal(house: House, who: str, request: Any, tenant: str = "default") -> str:
    with pytest.raises(TransomError) as refused:
        await house.call(who, request, tenant)
    return refused.value.code


@pytest.mark.parametrize(
    ("agent", "input", "output"),
    [
        ("echo", "one  two\nthree", "one  two\nthree"),
        ("acme-reviewer", {"repo": "acme/site", "pr": 12}, "Reviewed acme/site#12."),
        ("carder", "hi", {"title": "A card", "body": "You wrote: hi"}),
        ("worker", "the roof", "I looked into the roof."),
        ("sleeper", {"steps": 2, "seconds": 0}, "slept 2"),
        ("sender", {"steps": 2, "seconds": 0}, "slept 2"),
        ("outsider", "hello", "I sent the message."),
    ],
)
async def test_agents_that_need_nobody_answer(house, agent, input, output):
    async with house() as home:
        view = await home.run(agent, input)
        assert (view.status, view.output) == ("completed", output)
        assert view.card == (agent == "carder")


async def test_what_an_agent_answers_is_in_the_log_as_text(house):
    async with house() as home:
        for agent, input in (("echo", "a b c"), ("worker", "x"), ("streamer", {"deltas": 5, "bytes": 10})):
            view = await home.run(agent, input)
            assert "".join(text.delta for text in await home.log(view, Text)) == view.output


async def test_crasher_says_something_then_fails(house):
    async with house() as home:
        view = await home.run("crasher")
        assert view.status == "failed"
        assert "crasher always fails" in view.error.message
        assert "".join(text.delta for text in await home.log(view, Text)) == "This will not end well."


@pytest.mark.parametrize(("approved", "output"), [(True, "I greeted the team."), (False, "I did not greet the team.")])
async def test_helper_greets_when_an_operator_says_so(house, approved, output):
    async with house() as home:
        job = await home.start("anna", "helper")
        (wait,) = await home.waits("omar", job)
        assert (wait.function, wait.shown, wait.can_decide) == ("team.greet", {"channel": "#team"}, True)
        decision = DecideApproval(wait=wait.id, approved=approved)
        assert await refusal(home, "anna", decision) == "permission_denied"
        assert await refusal(home, "rita", decision) == "permission_denied"
        await home.call("omar", decision)
        assert (await home.end("anna", job)).output == output


async def test_two_calls_says_which_ran(house):
    async with house() as home:
        job = await home.start("anna", "two_calls")
        with anyio.fail_after(5):
            while len(waits := await home.waits("omar", job)) < 2:
                await anyio.sleep(0.01)
        for wait in waits:
            approved = wait.shown == {"channel": "#support"}
            await home.call("omar", DecideApproval(wait=wait.id, approved=approved))
        assert (await home.end("anna", job)).output == "I did not greet #design. I greeted #support."


async def test_pair_needs_four_eyes(house):
    async with house() as home:
        job = await home.start("omar", "pair")
        (wait,) = await home.waits("omar", job)
        assert await refusal(home, "omar", DecideApproval(wait=wait.id, approved=True)) == "permission_denied"
        await home.call("ada", DecideApproval(wait=wait.id, approved=True))
        assert (await home.end("omar", job)).output == "I made the announcement."


async def test_typed_needs_the_name(house):
    async with house() as home:
        job = await home.start("anna", "typed")
        (wait,) = await home.waits("omar", job)
        assert await refusal(home, "omar", DecideApproval(wait=wait.id, approved=True)) == "failed_precondition"
        await home.call("omar", DecideApproval(wait=wait.id, approved=True, confirm="sam"))
        assert (await home.end("anna", job)).output == "I removed sam."


@pytest.mark.parametrize("who", ["anna", "omar", "ada"])
async def test_asker_is_answered_by_who_started_it_or_an_operator(house, who):
    async with house() as home:
        job = await home.start("anna", "asker")
        (wait,) = await home.waits(who, job)
        assert (wait.message, wait.choices) == ("Which colour?", ("red", "green", "blue"))
        assert await refusal(home, "rita", DecideApproval(wait=wait.id, answer="red")) == "permission_denied"
        assert await refusal(home, who, DecideApproval(wait=wait.id, answer="pink")) == "invalid_argument"
        await home.call(who, DecideApproval(wait=wait.id, answer="green"))
        assert (await home.end("anna", job)).output == "You chose green."


async def test_brief_goes_on_without_an_answer(house):
    async with house() as home:
        assert (await home.run("brief")).output == "Nobody answered in time."


@pytest.mark.req("RT-23", "RT-38")
async def test_planners_board_has_the_notes_of_the_whole_tree(house):
    async with house() as home:
        view = await home.run("planner")
        assert len(view.children) == 2
        board = await home.call("anna", GetJobBoard(id=view.id))
        assert [note.id for note in board.notes] == [1, 2, 3, 4]
        assert [note.agent for note in board.notes] == ["planner", "worker", "worker", "planner"]
        assert (board.notes[0].superseded_by, board.notes[3].supersedes) == (4, 1)
        assert [note.id for note in await home.log(view, NotePinned)] == [1, 2, 3, 4]
        hidden = await home.call("rita", GetJobBoard(id=view.id))
        assert {(note.text, note.tags) for note in hidden.notes} == {("", ())}
        rows = await home.kernel.store.audit("default")
        reads = [row.entry.caller for row in rows if row.entry.action == "job.board.read"]
        assert reads == ["person:anna"]


@pytest.mark.parametrize(
    ("who", "tenant", "agent", "code"),
    [
        ("rita", "default", "echo", "permission_denied"),
        ("deskapp", "default", "echo", "unauthenticated"),
        ("echo_key", "default", "helper", "permission_denied"),
        ("acme_key", "default", "echo", "permission_denied"),
        ("key", "acme", "echo", "permission_denied"),
    ],
)
async def test_who_may_not_start_is_refused(house, who, tenant, agent, code):
    async with house() as home:
        assert await refusal(home, who, StartJob(agent=agent, input="x"), tenant) == code


@pytest.mark.parametrize(
    ("who", "tenant"),
    [("anna", "default"), ("key", "default"), ("echo_key", "default"), ("acme_key", "acme")],
)
async def test_everybody_else_starts_echo(house, who, tenant):
    async with house() as home:
        answer = await home.call(who, StartJob(agent="echo", input="x"), tenant)
        assert answer.job.agent == "echo"


@pytest.mark.req("IDN-8")
async def test_a_job_of_one_tenant_is_not_to_be_seen_from_another(house):
    async with house() as home:
        job = await home.start("anna", "echo")
        assert await refusal(home, "acme_key", GetJob(id=job.id)) == "permission_denied"
        assert await refusal(home, "acme_key", GetJob(id=job.id), "acme") == "not_found"
        assert await refusal(home, "acme_key", GetJobBoard(id=job.id), "acme") == "not_found"


async def test_a_scoped_key_sees_no_job_of_another_agent(house):
    async with house() as home:
        job = await home.start("anna", "worker")
        assert await refusal(home, "echo_key", GetJob(id=job.id)) == "permission_denied"
        assert await refusal(home, "echo_key", GetJobBoard(id=job.id)) == "permission_denied"
