"""The door's own tests: `pip install -e '.[test]' && pytest`."""

import pytest
from transom_plain import PlainPlugin

from transom_hookspecs import Agent, hookimpl
from transom_testing.contracts import DoorContract


class AgentsPlugin:
    """An agent that answers in capitals, and one that fails."""

    name = "agents_of_the_test"
    spec = "1.0"

    def __init__(self, config):
        pass

    @hookimpl
    def register_agents(self):
        async def shout(ctx, input):
            return await ctx.say(input.upper())

        async def broken(ctx, input):
            raise ValueError("no luck")

        return [Agent(name="shout", run=shout), Agent(name="broken", run=broken)]


@pytest.fixture
def client(kernel, door_client):
    """A client of a kernel with the door, the agents and the built-in identities."""
    callers = {"me": {"kind": "operator", "token_env": "TOKEN_OF_THE_TEST"}}
    return kernel(plugins=[PlainPlugin, AgentsPlugin, "identity"], config={"identity": {"callers": callers}}), door_client


@pytest.fixture(autouse=True)
def token(monkeypatch):
    monkeypatch.setenv("TOKEN_OF_THE_TEST", "0123456789abcdef")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("agent", "text", "status", "answer"),
    [
        ("shout", "hello", 200, "HELLO\n"),
        ("broken", "hello", 200, "\n[agent 'broken' raised ValueError: no luck]\n"),
        ("nobody", "hello", 404, "agent: there is no agent or flow 'nobody' in tenant 'default'\n"),
        ("shout", b"\xff", 400, "the body is no UTF-8 text\n"),
        ("shout", "x" * 65_537, 400, "the body is larger than 65536 bytes\n"),
    ],
    ids=["an answer", "an agent that fails", "an agent that is not there", "no text", "too much"],
)
async def test_it_answers(client, agent, text, status, answer):
    opened, door_client = client
    async with opened as k, door_client(k, token="0123456789abcdef") as http:
        response = await http.post(f"/plain/{agent}", content=text)
    assert (response.status_code, response.text) == (status, answer)


class TestPlainDoor(DoorContract):
    """What every door must do."""

    routes = (("POST", "/plain/shout"),)

    @pytest.fixture
    def plugin(self):
        return PlainPlugin
