"""Declared agents and flows in a running kernel: from files of a bundle to a job's answer."""

import anyio
import pytest

from transom_hookspecs import ENDED, Caller, GetJob, Origin, StartJob, ToolCall, hookimpl, tool

pytestmark = pytest.mark.anyio

OPERATOR = Origin(tenant="default", caller=Caller(kind="operator", id="op"), door="cli")
FILES = {
    "agents/writer.yaml": """
        model: scripted
        options: {script: {text: "About {input}."}}
    """,
    "agents/typed.yaml": """
        model: scripted
        output: {type: object, properties: {title: {type: string}}, required: [title]}
        options: {script: {text: {title: "{input}"}}}
    """,
    "agents/boss.yaml": """
        model: scripted
        agents: [writer]
        options:
          script:
            turns:
              - calls: [{function: agent.writer, arguments: {input: cats}}]
              - {ok: It is written., failed: It is not.}
    """,
    "flows/book.yaml": """
        input: {type: object, properties: {topic: {type: string}}, required: [topic]}
        steps:
          - {id: text, agent: writer, input: "${{ input.topic }}"}
          - {id: head, agent: typed, input: "On ${{ input.topic }}"}
          - {id: lost, agent: nobody, on_error: continue}
        result: {title: "${{ steps.head.title }}", text: "${{ steps.text }}", lost: "${{ steps.lost.error.code }}"}
    """,
}


@pytest.fixture
def bundle(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / "bundle" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(tmp_path / "bundle")


class CountPlugin:
    """A function that says how often it ran."""

    name = "count"
    spec = "1.0"

    def __init__(self, config):
        self.ran = 0

    @hookimpl
    def register_tools(self):
        async def up() -> dict[str, int]:
            self.ran += 1
            return {"count": self.ran}

        return [tool("count", up)]


async def answer(kernel, agent, input, conversation=""):
    started = await kernel.call("StartJob", StartJob(agent=agent, input=input, conversation=conversation), OPERATOR)
    with anyio.fail_after(10):
        while (job := await kernel.call("GetJob", GetJob(id=started.job.id), OPERATOR)).status not in ENDED:
            await anyio.sleep(0.01)
    assert job.status == "completed", job.error
    return job.output


@pytest.mark.parametrize(
    ("agent", "input", "output"),
    [
        ("writer", "dogs", "About dogs."),
        ("typed", "Dogs", {"title": "Dogs"}),
        ("boss", "go", "It is written."),
        ("book", {"topic": "birds"}, {"title": "On birds", "text": "About birds.", "lost": "not_found"}),
    ],
)
async def test_what_a_bundle_declares_can_be_started(kernel, bundle, agent, input, output):
    async with kernel(plugins=["agents", "flows", "scripted"], config={"bundle": [bundle]}) as running:
        assert await answer(running, agent, input) == output


async def test_a_later_turn_tells_its_model_what_the_earlier_turns_calls_gave(kernel, tmp_path, fake_model):
    """Also when the model's server numbers its calls anew in each turn."""
    (tmp_path / "teller.yaml").write_text("model: fake\ntools: [count.up]\n")
    counted = [ToolCall(id="call_a", function="count.up", arguments={})]
    fake_model.answers(counted, "It is one.", counted, "It is two.", "I counted twice.")
    plugins = ["agents", CountPlugin, fake_model.plugin()]

    async with kernel(plugins=plugins, agents=[str(tmp_path / "teller.yaml")]) as running:
        for said in ("Count.", "And again?", "How often?"):
            await answer(running, "teller", said, conversation="c")

    told = [(message.role, message.content, message.call) for message in fake_model.requests[2].messages]
    assert told == [
        ("user", "Count.", ""),
        ("assistant", "", ""),
        ("tool", '{"count":1}', "call_a"),
        ("assistant", "It is one.", ""),
        ("user", "And again?", ""),
    ]
    results = [message.content for message in fake_model.requests[4].messages if message.role == "tool"]
    assert results == ['{"count":1}', '{"count":2}']
