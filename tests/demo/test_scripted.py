"""The scripted model: what a script says is what comes, word by word, the same each time."""

from time import perf_counter

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_hookspecs import Message, ToolCall, TransomError
from transom_scripted.model import words

pytestmark = pytest.mark.anyio


def user(text: str) -> Message:
    return Message(role="user", content=text)


def called(*calls: tuple[str, str, dict]) -> Message:
    return Message(role="assistant", calls=tuple(ToolCall(id=i, function=f, arguments=a) for i, f, a in calls))


def result(call: str, content: str = "done", *, error: bool = False) -> Message:
    return Message(role="tool", call=call, function="team.greet", content=content, error=error)


async def refusal(model, script, *messages: Message) -> TransomError:
    with pytest.raises(TransomError) as refused:
        await model.ask(script, *messages)
    return refused.value


# -- texts


@pytest.mark.parametrize(
    ("text", "deltas"),
    [
        ("one two", ["one ", "two"]),
        ("  one\n\ntwo  ", ["  one\n\n", "two  "]),
        ("", []),
        (" \n", [" \n"]),
        ("你好 🦀", ["你好 ", "🦀"]),
    ],
)
async def test_a_text_comes_word_by_word_each_with_the_space_after_it(model, text, deltas):
    assert (await model.ask({"text": text}))[0] == deltas


@given(st.text())
def test_the_words_joined_are_the_text(text):
    assert "".join(words(text)) == text
    assert "" not in list(words(text))


async def test_echo_says_the_last_user_message(model):
    texts, end = await model.ask({"echo": True}, user("first"), Message(role="assistant", content="x"), user("a b"))
    assert texts == ["a ", "b"]
    assert end.finish == "stop"


async def test_a_text_that_is_an_object_is_written_as_json(model):
    texts, _ = await model.ask({"text": {"title": "T", "n": [1, True]}})
    assert "".join(texts) == '{"title":"T","n":[1,true]}'


@pytest.mark.parametrize(("deltas", "size"), [(5, 50), (3, 1), (12, 2), (0, 10), (2, 3000)])
async def test_a_stream_has_as_many_pieces_of_as_many_bytes(model, deltas, size):
    texts, _ = await model.ask({"stream": {"deltas": deltas, "bytes": size}})
    assert [len(text.encode()) for text in texts] == [size] * deltas


async def test_a_streams_numbers_may_come_from_the_users_json(model):
    script = {"stream": {"deltas": "{input.deltas}", "bytes": "{input.bytes=4}", "delay_ms": "{input.delay_ms=0}"}}
    assert (await model.ask(script, user('{"deltas": 2}')))[0] == ["..0 ", "..1 "]


async def test_pieces_come_as_far_apart_as_asked(model):
    begun = perf_counter()
    await model.ask({"stream": {"deltas": 4, "delay_ms": 10}})
    await model.ask({"text": "four words are enough", "delay_ms": 10})
    await model.ask({"text": "one", "wait_ms": 30})
    assert perf_counter() - begun >= 0.09


async def test_a_long_stream_without_delay_lets_others_run(model):
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.sleep(0)

    async with anyio.create_task_group() as group:
        group.start_soon(other)
        await model.ask({"stream": {"deltas": 2000}}, max_tokens=5000)
        group.cancel_scope.cancel()
    assert turns >= 10


# -- references


@pytest.mark.parametrize(
    ("template", "input", "text"),
    [
        ("Reviewed {input.repo}#{input.pr}.", '{"repo": "a/b", "pr": 7}', "Reviewed a/b#7."),
        ("{input}", "as it is", "as it is"),
        ("You wrote: {input}", '{"a": 1}', 'You wrote: {"a": 1}'),
        ("{input.a.1.b}", '{"a": [0, {"b": "deep"}]}', "deep"),
        ("{input.a}", '{"a": {"b": null}}', '{"b":null}'),
        ("{input.x=7} {input.y=none}", "{}", "7 none"),
        ("{input.x=7}", "no JSON at all", "7"),
        ("{input.x=}", "{}", ""),
        ("{input}", "{input.x} {result}", "{input.x} {result}"),
        ('{"not": "a reference"} {other.x} {}', "x", '{"not": "a reference"} {other.x} {}'),
    ],
)
async def test_references_stand_for_what_was_said(model, template, input, text):
    assert "".join((await model.ask({"text": template}, user(input)))[0]) == text


async def test_a_result_can_be_said_again(model):
    said = [user("x"), called(("c1", "http.get", {})), result("c1", '{"sum": 42}')]
    script = {"turns": [{"calls": [{"function": "http.get"}]}, {"text": "It is {result.sum}: {result}"}]}
    assert "".join((await model.ask(script, *said))[0]) == 'It is 42: {"sum": 42}'


@pytest.mark.parametrize(
    ("reference", "input"),
    [
        ("{input.repo}", "{}"),
        ("{input.repo}", "no JSON"),
        ("{input.0}", "[]"),
        ("{input.a.b}", '{"a": 1}'),
        ("{input.-1}", "[1]"),
        ("{result}", "x"),
        ("{call.name}", "x"),
    ],
)
async def test_a_reference_that_leads_nowhere_is_named(model, reference, input):
    error = await refusal(model, {"text": f"see {reference}"}, user(input))
    assert error.code == "invalid_argument"
    assert reference in error.message


@given(st.text(), st.text())
def test_whatever_the_user_says_a_template_fills_or_is_refused_plainly(template, said):
    from transom_scripted.template import fill

    try:
        filled = fill(template, {"input": said})
    except TransomError as error:
        assert error.code == "invalid_argument"  # noqa: PT017
    else:
        assert filled is not None


# -- calls and turns

GREET = {"calls": [{"function": "team.greet", "arguments": {"channel": "{input}"}}]}
TALK = {"turns": [GREET, {"ok": "I greeted.", "failed": "I did not greet."}]}


async def test_calls_come_at_the_end_with_their_arguments_filled_in(model):
    texts, end = await model.ask(GREET | {"text": "Let me greet."}, user("#team"))
    assert "".join(texts) == "Let me greet."
    assert [(call.function, call.arguments) for call in end.calls] == [("team.greet", {"channel": "#team"})]
    assert end.finish == "calls"


async def test_an_argument_that_is_only_a_reference_keeps_its_type(model):
    script = {"calls": [{"function": "demo.nap", "arguments": {"seconds": "{input.s}", "list": ["{input.b}"]}}]}
    _, end = await model.ask(script, user('{"s": 1.5, "b": true}'))
    assert end.calls[0].arguments == {"seconds": 1.5, "list": [True]}


async def test_the_turn_goes_by_the_answers_since_the_last_user_message(model):
    before = [user("#a"), called(("old", "team.greet", {})), result("old"), Message(role="assistant", content="I greeted.")]
    _, end = await model.ask(TALK, *before, user("#b"))
    assert end.calls[0].arguments == {"channel": "#b"}
    texts, end = await model.ask(TALK, *before, user("#b"), called(("c1", "team.greet", {})), result("c1"))
    assert ("".join(texts), end.calls) == ("I greeted.", ())


@pytest.mark.parametrize(
    ("errors", "text"),
    [
        ((False,), "I greeted."),
        ((True,), "I did not greet."),
        ((False, True), "I did not greet."),
        ((False, False), "I greeted."),
    ],
)
async def test_the_text_may_go_by_the_outcome_of_the_last_calls(model, errors, text):
    calls = [(f"c{n}", "team.greet", {}) for n in range(len(errors))]
    results = [result(f"c{n}", error=error) for n, error in enumerate(errors)]
    assert "".join((await model.ask(TALK, user("x"), called(*calls), *results))[0]) == text


async def test_only_the_last_calls_count_for_the_outcome(model):
    said = [user("x"), called(("c1", "f.g", {})), result("c1", error=True), called(("c2", "f.g", {})), result("c2")]
    script = {"turns": [GREET, GREET, {"ok": "ran", "failed": "failed"}]}
    assert "".join((await model.ask(script, *said))[0]) == "ran"


async def test_each_says_a_sentence_of_every_call(model):
    said = [user("x"), called(("a", "f.g", {"to": "A"}), ("b", "f.g", {"to": "B"})), result("a"), result("b", "no", error=True)]
    script = {"turns": [GREET, {"each": {"ok": "{call.to} ran: {result}.", "failed": "{call.to} did not: {result}."}}]}
    assert "".join((await model.ask(script, *said))[0]) == "A ran: done. B did not: no."


async def test_what_a_call_returned_is_not_read_as_a_template(model):
    said = [user("secret"), called(("a", "f.g", {"to": "{input}"})), result("a", "{input}")]
    script = {"turns": [GREET, {"each": {"ok": "{call.to} {result}", "failed": ""}}]}
    assert "".join((await model.ask(script, *said))[0]) == "{input} {input}"


async def test_call_ids_are_the_same_for_the_same_key_and_new_for_another(model):
    script = {"calls": [{"function": "f.g"}, {"function": "f.g"}]}

    async def ids(key: str) -> list[str]:
        return [call.id for call in (await model.ask(script, user("x"), idempotency_key=key))[1].calls]

    first, again, other = await ids("j1:1"), await ids("j1:1"), await ids("j1:2")
    assert first == again
    assert len({*first, *other}) == 4
    assert all(1 <= len(i) <= 64 and i.isascii() and i.isprintable() for i in first)


async def test_call_ids_without_a_key_are_new_as_the_conversation_grows(model):
    script = {"turns": [GREET, GREET]}
    _, first = await model.ask(script, user("x"))
    _, second = await model.ask(script, user("x"), called((first.calls[0].id, "team.greet", {})), result(first.calls[0].id))
    assert first.calls[0].id != second.calls[0].id


# -- errors, usage, bounds


async def test_an_error_comes_after_the_text(model):
    from transom_hookspecs import ModelRequest, TextDelta

    script = {"text": "so far", "error": {"code": "unavailable", "message": "gone"}}
    stream = model.model.stream(ModelRequest(messages=(), options={"script": script}))
    assert [await anext(stream), await anext(stream)] == [TextDelta("so "), TextDelta("far")]
    with pytest.raises(TransomError, match="gone") as failed:
        await anext(stream)
    assert failed.value.code == "unavailable"


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (None, "needs one"),
        ("echo", "needs one"),
        ({}, "says nothing"),
        ({"wait_ms": 5}, "says nothing"),
        ({"txt": "x"}, "txt"),
        ({"text": "x", "echo": True}, "only one"),
        ({"ok": "x"}, "go together"),
        ({"ok": "x", "failed": "y"}, "need a turn with calls"),
        ({"each": {"ok": "x", "failed": "y"}}, "need a turn with calls"),
        ({"each": {"ok": "x"}}, "failed"),
        ({"stream": {"deltas": "many"}}, "deltas"),
        ({"stream": {"deltas": 1_000_001}}, "deltas"),
        ({"stream": {"deltas": 1, "bytes": 0}}, "bytes"),
        ({"stream": {"deltas": 1, "delay_ms": -1}}, "delay_ms"),
        ({"calls": [{"arguments": {}}]}, "function"),
        ({"error": {"code": "nonsense"}}, "code"),
        ({"turns": []}, "0 turns"),
        ({"turns": "x"}, "list of answers"),
        ({"turns": ["x"]}, "list of answers"),
        ({"turns": [{"text": "x"}], "text": "y"}, "stands alone"),
    ],
)
async def test_a_wrong_script_is_refused_by_name(model, script, problem):
    error = await refusal(model, script, user("x"))
    assert error.code == "invalid_argument"
    assert problem in error.message
    assert "script" in error.message


async def test_a_script_that_is_over_says_so(model):
    error = await refusal(model, {"turns": [{"text": "x"}]}, user("x"), Message(role="assistant", content="x"))
    assert "1 turns" in error.message
    assert "turn 2" in error.message


async def test_usage_is_one_token_a_word_and_costs_what_the_settings_say(priced):
    model = priced(usd_per_million_input=1000.0, usd_per_million_output=2000.0)
    _, end = await model.ask({"text": "one two three"}, Message(role="system", content="be brief"), user("hello"))
    assert (end.usage.input_tokens, end.usage.output_tokens, end.usage.estimated) == (3, 3, False)
    assert end.usage.usd == pytest.approx(0.009)


async def test_without_prices_it_costs_nothing(model):
    assert (await model.ask({"text": "one two"}, user("x")))[1].usage.usd == 0


async def test_the_answer_keeps_to_max_tokens(model):
    texts, end = await model.ask({"text": "one two three four", "calls": [{"function": "f.g"}]}, max_tokens=2)
    assert texts == ["one ", "two "]
    assert (end.finish, end.calls, end.usage.output_tokens) == ("length", (), 2)
    assert (await model.ask({"text": "one two"}, max_tokens=2))[1].finish == "stop"
