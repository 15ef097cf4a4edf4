"""The demo's agents in Python, on a Context that answers at once and takes down what was asked of it."""

import asyncio
from typing import Any

import jsonschema
import pytest

pytestmark = pytest.mark.anyio


class Notebook:
    """A Context without a journal."""

    def __init__(self, agents: dict[str, Any], answer: Any = None) -> None:
        self.agents = agents
        self.answer = answer
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.notes: list[dict[str, Any]] = []
        self.calls: list[tuple[str, Any]] = []
        self.children: list[tuple[str, Any]] = []
        self.said: list[str] = []

    async def ask(self, message: str, **options: Any) -> Any:
        self.asked.append((message, options))
        return self.answer

    async def note(self, text: str, **options: Any) -> int:
        self.notes.append({"text": text, **options})
        return len(self.notes)

    async def call(self, function: str, arguments: Any) -> Any:
        self.calls.append((function, arguments))

    async def say(self, text: str) -> str:
        self.said.append(text)
        return text

    async def delegate(self, agent: str, input: Any) -> Any:
        self.children.append((agent, input))
        return await self.agents[agent].run(self, input)

    async def together(self, *branches: Any) -> list[Any]:
        return list(await asyncio.gather(*(branch(self) for branch in branches)))


@pytest.fixture
def agents(demo):
    return {agent.name: agent for agent in demo.register_agents()}


@pytest.mark.parametrize("colour", ["red", "green", "blue"])
async def test_asker_asks_for_a_colour_and_says_it(agents, colour):
    ctx = Notebook(agents, colour)
    assert await agents["asker"].run(ctx, "hi") == f"You chose {colour}."
    assert ctx.asked == [("Which colour?", {"choices": ("red", "green", "blue")})]
    assert ctx.said == [f"You chose {colour}."]


async def test_asker_makes_do_without_an_answer(agents):
    assert await agents["asker"].run(Notebook(agents), "hi") == "You chose nothing."


async def test_brief_waits_two_seconds(agents):
    ctx = Notebook(agents)
    assert await agents["brief"].run(ctx, None) == "Nobody answered in time."
    assert ctx.asked == [("Still there?", {"timeout": 2.0})]
    assert await agents["brief"].run(Notebook(agents, "yes"), None) == "You said yes."


async def test_planner_plans_delegates_and_supersedes_its_plan(agents):
    ctx = Notebook(agents)
    answer = await agents["planner"].run(ctx, "go")
    assert [agent for agent, _ in ctx.children] == ["worker", "worker"]
    assert [note.get("supersedes", 0) for note in ctx.notes] == [0, 0, 0, 1]
    assert "I looked into the first half." in answer
    assert "I looked into the second half." in answer


@pytest.mark.parametrize("input", ["the cellar", {"part": 1}, None])
async def test_worker_pins_a_note_and_answers(agents, input):
    ctx = Notebook(agents)
    answer = await agents["worker"].run(ctx, input)
    assert len(ctx.notes) == 1
    assert answer == ctx.said[-1]


@pytest.mark.parametrize(("name", "function"), [("sleeper", "demo.nap"), ("sender", "demo.send")])
@pytest.mark.parametrize("steps", [0, 3])
async def test_sleeper_and_sender_take_their_steps_one_by_one(agents, name, function, steps):
    ctx = Notebook(agents)
    input = {"steps": steps, "seconds": 0.5}
    jsonschema.validate(input, agents[name].input_schema)
    assert await agents[name].run(ctx, input) == f"slept {steps}"
    assert ctx.calls == [(function, {"seconds": 0.5})] * steps


@pytest.mark.parametrize("wrong", [{}, {"steps": 1}, {"steps": 1.5, "seconds": 1}, {"steps": -1, "seconds": 1}, "text"])
def test_sleeper_takes_steps_and_seconds(agents, wrong):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, agents["sleeper"].input_schema)


def test_agents_say_what_they_use(agents):
    assert {name: agent.uses for name, agent in agents.items() if agent.uses} == {
        "planner": ("agent.worker",),
        "sleeper": ("demo.nap",),
        "sender": ("demo.send",),
    }
