"""The demo bundle: its names and texts are what checks from outside rely on."""

import jsonschema
import msgspec
import pytest

from transom_agents import AgentKind
from transom_hookspecs import NAME, TransomError

pytestmark = pytest.mark.anyio

DECLARED = {
    "echo",
    "helper",
    "two_calls",
    "pair",
    "typed",
    "outsider",
    "crasher",
    "carder",
    "acme-reviewer",
    "streamer",
}
PYTHON = {"asker", "brief", "planner", "worker", "sleeper", "sender"}


def test_the_bundle_is_for_development_only(demo):
    assert demo.dev_only


def test_the_agents_are_exactly_those(demo, documents):
    assert set(documents) == DECLARED
    assert {agent.name for agent in demo.register_agents()} == PYTHON


def test_the_bundle_is_in_every_tenant(demo):
    (bundle,) = demo.register_bundles()
    assert (bundle.name, bundle.tenants) == ("demo", ())


@pytest.mark.parametrize("name", sorted(DECLARED))
def test_each_document_is_well_formed(documents, functions, name):
    document = documents[name]
    assert document["name"] == name
    assert NAME.match(name)
    assert document["model"] == "scripted"
    assert document["title"]
    assert document["description"].endswith(".")
    assert set(document.get("tools", ())) <= set(functions)
    for schema in ("input", "output", "card"):
        jsonschema.Draft202012Validator.check_schema(document.get(schema, {}))
    agent = AgentKind().load(name, document)
    assert (agent.name, agent.conversations, agent.flow) == (name, True, False)


def test_each_agent_may_use_what_it_calls(documents):
    for name, document in documents.items():
        turns = document["options"]["script"].get("turns", [])
        called = {call["function"] for turn in turns for call in turn.get("calls", ())}
        assert called == set(document.get("tools", ())), name


async def test_echo_streams_the_text_it_got_word_by_word(converse):
    answer = await converse("echo", "the quick  brown\nfox")
    assert answer.deltas == ["the ", "quick  ", "brown\n", "fox"]


async def test_helper_greets_the_team_once_it_may(converse):
    answer = await converse("helper")
    assert answer.calls == [("team.greet", {"channel": "#team"})]
    assert answer.text == "I greeted the team."
    assert (await converse("helper", approve=lambda call: False)).text == "I did not greet the team."


async def test_two_calls_makes_both_at_once_and_says_which_ran(converse):
    first, second = "#design", "#support"
    answer = await converse("two_calls", approve=lambda call: call.arguments["channel"] == second)
    assert answer.calls == [("team.greet", {"channel": first}), ("team.greet", {"channel": second})]
    assert answer.text == f"I did not greet {first}. I greeted {second}."


@pytest.mark.parametrize(
    ("name", "function", "yes", "no"),
    [
        ("pair", "team.announce", "I made the announcement.", "I did not make the announcement."),
        ("typed", "team.remove", "I removed sam.", "I did not remove sam."),
        ("outsider", "post.send", "I sent the message.", "I did not send the message."),
    ],
)
async def test_the_others_call_their_function_and_say_what_came_of_it(converse, name, function, yes, no):
    answer = await converse(name)
    assert [called for called, _ in answer.calls] == [function]
    assert answer.text == yes
    assert (await converse(name, approve=lambda call: False)).text == no


async def test_crasher_says_something_then_fails(model, documents):
    with pytest.raises(TransomError, match="crasher always fails"):
        await model.ask(documents["crasher"]["options"]["script"])


@pytest.mark.parametrize("input", ["hello", 'a "quoted" {word}\n', "{}"])
async def test_carder_answers_a_card(converse, documents, input):
    answer = msgspec.json.decode((await converse("carder", input)).text)
    assert set(answer) == {"title", "body"}
    jsonschema.validate(answer, documents["carder"]["card"])
    jsonschema.validate(answer, documents["carder"]["output"])


async def test_acme_reviewer_says_what_it_reviewed(converse, documents):
    input = {"repo": "acme/site", "pr": 12}
    jsonschema.validate(input, documents["acme-reviewer"]["input"])
    assert (await converse("acme-reviewer", input)).text == "Reviewed acme/site#12."


@pytest.mark.parametrize("wrong", [{}, {"repo": "a"}, {"repo": "a", "pr": "12"}, {"repo": "a", "pr": 1, "x": 1}, "text"])
def test_acme_reviewer_takes_a_repository_and_a_number(documents, wrong):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, documents["acme-reviewer"]["input"])


async def test_streamer_streams_that_many_pieces(converse, documents):
    input = {"deltas": 7, "bytes": 20, "delay_ms": 1}
    jsonschema.validate(input, documents["streamer"]["input"])
    assert [len(delta) for delta in (await converse("streamer", input)).deltas] == [20] * 7


# -- tools


def test_the_functions_are_exactly_those(functions):
    assert set(functions) == {"team.greet", "team.announce", "team.remove", "demo.nap", "demo.send", "post.send"}


def test_only_post_can_send_data_out(functions):
    assert [name for name, function in functions.items() if function.annotations.open_world_hint] == ["post.send"]


def test_only_a_nap_may_be_taken_again(functions):
    assert [name for name, function in functions.items() if function.repeatable] == ["demo.nap"]


def test_the_rules_of_approval_are_those_of_the_agents_names(functions):
    rules = {name: function.approval for name, function in functions.items()}
    assert rules["team.greet"] is not None
    assert not rules["team.greet"].four_eyes
    assert rules["team.announce"].four_eyes
    assert rules["team.remove"].typed == "name"
    assert rules["demo.nap"] is rules["demo.send"] is rules["post.send"] is None


@pytest.mark.parametrize("name", ["demo.nap", "demo.send"])
async def test_a_step_enters_itself_in_the_ledger_when_it_is_over(functions, call_context, monkeypatch, tmp_path, name):
    ledger = tmp_path / "ledger"
    monkeypatch.setenv("TRANSOM_DEMO_LEDGER", str(ledger))
    ledger.write_text("j0 1\n")
    await functions[name].call(call_context, {"seconds": 0})
    await functions[name].call(call_context, {"seconds": 0.001})
    assert ledger.read_text() == "j0 1\nj1 2.1\nj1 2.1\n"


async def test_without_a_ledger_nothing_is_written(functions, call_context, monkeypatch):
    monkeypatch.delenv("TRANSOM_DEMO_LEDGER", raising=False)
    assert await functions["demo.nap"].call(call_context, {"seconds": 0}) == "Slept 0 s."


@pytest.mark.parametrize("arguments", [{}, {"seconds": -1}, {"seconds": "1"}, {"seconds": 3601}, {"seconds": 1, "x": 1}])
async def test_wrong_arguments_are_refused(functions, call_context, arguments):
    with pytest.raises(TransomError) as refused:
        await functions["demo.nap"].call(call_context, arguments)
    assert refused.value.code == "invalid_argument"
