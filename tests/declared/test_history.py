"""What a later turn's model is told of the conversation so far."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transom_agents.history import as_messages
from transom_hookspecs import Item, Message, ToolCall

from .fake_context import FakeContext, text

pytestmark = pytest.mark.anyio


def said(message):
    return (message.role, message.content)


def item(number, role, content, *, turn=1, **fields):
    """An item as the kernel writes it: a result's own ID is that of its step, and `call` says what it answers."""
    job = f"j{turn}"
    id = f"{job}:in" if role == "user" else f"{job}:{number}"
    return Item(conversation="t", number=number, id=id, role=role, job=job, turn=turn, content=content, **fields)


async def test_a_conversation_goes_on_where_it_was(agent):
    asked = (ToolCall(id="c1", function="a.b", arguments={}),)
    ctx = FakeContext(
        answers=[text("again")],
        conversation="t",
        items=[
            item(1, "user", "Hi"),
            item(2, "assistant", "", calls=asked),
            item(3, "tool", {"n": 1}, call="c1"),
            item(4, "assistant", "Hello."),
        ],
    )

    await agent("model: m\ninstructions: Be kind.").run(ctx, "And now?")

    messages = ctx.asked[0]["messages"]
    assert [said(message) for message in messages] == [
        ("system", "Be kind."),
        ("user", "Hi"),
        ("assistant", ""),
        ("tool", '{"n":1}'),
        ("assistant", "Hello."),
        ("user", "And now?"),
    ]
    assert messages[2].calls == asked
    assert (messages[3].call, messages[3].function) == ("c1", "a.b")


async def test_without_a_conversation_no_history_is_read(agent):
    ctx = FakeContext(answers=[text("ok")], items=[item(1, "user", "secret")])

    await agent("model: m").run(ctx, "go")

    assert ctx.seen == [("model", "m")]


def test_a_call_that_a_lost_turn_never_finished_gets_a_result_that_says_so():
    lost = item(2, "assistant", "", calls=(ToolCall(id="c1", function="a.b", arguments={}),))

    *_, result = as_messages([item(1, "user", "Hi"), lost])

    assert result == Message(role="tool", call="c1", function="a.b", content="This call was not finished.", error=True)


def test_a_window_of_history_begins_with_what_a_person_said():
    cut = [item(1, "tool", "x", call="c0"), item(2, "assistant", "old"), item(3, "user", "new"), item(4, "assistant", "answer")]

    assert [said(message) for message in as_messages(cut)] == [("user", "new"), ("assistant", "answer")]


def test_a_result_belongs_to_the_call_of_its_own_turn_though_ids_come_again():
    asked = (ToolCall(id="c1", function="a.b", arguments={}),)

    messages = as_messages(
        [
            item(1, "user", "one"),
            item(2, "assistant", "", calls=asked),
            item(3, "tool", "first", call="c1"),
            item(4, "assistant", "", calls=asked),
            item(5, "tool", "second", call="c1"),
            item(6, "user", "two", turn=2),
            item(7, "assistant", "", calls=asked, turn=2),
            item(8, "user", "three", turn=3),
            item(9, "tool", "of nobody's", call="c1", turn=3),
            item(10, "assistant", "", calls=asked, turn=3),
            item(11, "tool", "third", call="c1", error=True, turn=3),
        ]
    )

    results = [(message.content, message.error) for message in messages if message.role == "tool"]
    assert results == [("first", False), ("second", False), ("This call was not finished.", True), ("third", True)]


CALLS = st.lists(st.sampled_from("abcdefgh"), max_size=3, unique=True).map(
    lambda ids: tuple(ToolCall(id=id, function=f"t.{id}", arguments={}) for id in ids)
)
TURN = st.fixed_dictionaries({"turn": st.integers(1, 2)})
ASKED = st.fixed_dictionaries({"turn": st.integers(1, 2), "calls": CALLS})
ANSWERED = st.fixed_dictionaries({"turn": st.integers(1, 2), "call": st.sampled_from("abcdefgh"), "error": st.booleans()})
ITEMS = st.lists(
    st.one_of(
        st.tuples(st.just("user"), st.text(), TURN),
        st.tuples(st.just("assistant"), st.text(), ASKED),
        st.tuples(st.just("tool"), st.text() | st.integers(), ANSWERED),
    )
).map(lambda rows: [item(number, role, content, **fields) for number, (role, content, fields) in enumerate(rows, 1)])


@given(ITEMS)
def test_in_any_history_each_call_has_exactly_one_result_right_after_it(items):
    messages = as_messages(items)

    owed = []
    for message in messages:
        if message.role == "tool":
            assert owed.pop(0) == message.call
            continue
        assert not owed
        owed = [call.id for call in message.calls]
    assert not owed
    assert [m.content for m in messages if m.role == "user"] == [i.content for i in items if i.role == "user"]
