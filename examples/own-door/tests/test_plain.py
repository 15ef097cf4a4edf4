"""The door's own tests: `pip install -e '.[test]' && pytest`."""

import pytest
from transom_plain import PlainPlugin

from transom_hookspecs import Agent, hookimpl
from transom_testing.contracts import DoorContract

TOKEN = "a-token-of-the-test"


class AgentsPlugin:
    """Agents that answer a text, answer something else, and fail."""

    name = "agents_of_the_test"
    spec = "1.0"

    def __init__(self, config):
        pass

    @hookimpl
    def register_agents(self):
        async def shout(ctx, input):
            return await ctx.say(input.upper())

        async def count(ctx, input):
            return {"letters": len(input)}

        async def broken(ctx, input):
            raise ValueError("no luck")

        return [Agent(name=run.__name__, run=run) for run in (shout, count, broken)]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("agent", "text", "status", "answer"),
    [
        ("shout", "hello", 200, "HELLO\n"),
        ("count", "hello", 200, '{"letters":5}\n'),
        ("broken", "hello", 200, "\n[agent 'broken' raised ValueError: no luck]\n"),
        ("nobody", "hello", 404, "agent: there is no agent or flow 'nobody' in tenant 'default'\n"),
        ("shout", b"\xff", 400, "the body is not UTF-8 at byte 0\n"),
        ("shout", "x" * 65_537, 413, "the body is longer than 65,536 bytes; send less\n"),
    ],
    ids=["a text", "something else", "an agent that fails", "an agent that is not there", "no text", "too much"],
)
async def test_it_answers(kernel, door_client, monkeypatch, agent, text, status, answer):
    monkeypatch.setenv("TOKEN_OF_THE_TEST", TOKEN)
    callers = {"me": {"kind": "operator", "token_env": "TOKEN_OF_THE_TEST"}}
    opened = kernel(plugins=[PlainPlugin, AgentsPlugin, "identity"], config={"identity": {"callers": callers}})
    async with opened as k, door_client(k, token=TOKEN) as client:
        response = await client.post(f"/plain/{agent}", content=text)
    assert (response.status_code, response.text) == (status, answer)


class TestPlainDoor(DoorContract):
    """What every door must do."""

    routes = (("POST", "/plain/shout"),)

    @pytest.fixture
    def plugin(self):
        return PlainPlugin
