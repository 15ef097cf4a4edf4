"""Dialogs: lines in, a decision out."""

import pytest
from cli_fakes import make_wait
from hypothesis import given
from hypothesis import strategies as st

from transom_cli.asking import Dialog, choose, standing_answer
from transom_hookspecs import Rule

pytestmark = pytest.mark.anyio
OBJECT = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "title": "Size"},
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "gift": {"type": "boolean", "description": "wrap it"},
        "note": {"type": "string"},
        "weight": {"type": "number"},
    },
    "required": ["size", "colour"],
}


async def ask(wait, *lines):
    """Ask with these lines typed, then the end of input; returns the decision and what was shown."""
    typed, shown = list(lines), []

    async def read():
        return typed.pop(0) if typed else None

    decision = await Dialog(read, lambda spans: shown.extend(span.text for span in spans)).ask(wait)
    assert not typed, "every line was read"
    return decision, "".join(shown)


@pytest.mark.parametrize(
    ("line", "approved", "comment"),
    [
        ("y", True, ""),
        ("YES", True, ""),
        ("yes but hurry", True, "but hurry"),
        ("n", False, ""),
        (" no  not today ", False, "not today"),
        ("deny", False, ""),
    ],
)
async def test_yes_and_no_with_a_comment(line, approved, comment):
    decision, _ = await ask(make_wait(), line)
    assert (decision.approved, decision.comment, decision.token) == (approved, comment, "ozi1.wait-1")


@pytest.mark.parametrize("lines", [("l",), ("later",), (), ("", "what", "l")])
async def test_it_may_be_left(lines):
    assert (await ask(make_wait(), *lines))[0] is None


async def test_everything_that_would_run_is_shown_safely():
    long = "x" * 3000
    _, shown = await ask(
        make_wait(
            function="t.f",
            shown={"a": long, "b": "\x1b[31m"},
            message="why \u202e not",
            rule=Rule(count=3, deciders=("role:admin",)),
        )
    )
    assert long in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "3 people must agree (0 so far)" in shown
    assert "role:admin" in shown


async def test_the_typed_value_is_passed_on_as_typed():
    decision, shown = await ask(make_wait(shown={"name": "bob"}, rule=Rule(typed="name")), "y", " bob ")
    assert decision.confirm == " bob "
    assert "Type the value of 'name'" in shown


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("d", "done"),
        ("again", "again"),
        ("fail", "fail"),
        ('done {"id": 3}', {"answer": "done", "result": {"id": 3}}),
        ("done sent", {"answer": "done", "result": "sent"}),
    ],
)
async def test_a_step_that_may_have_run_is_done_made_again_or_fails(line, answer):
    decision, shown = await ask(make_wait(kind="restart", function="demo.send"), "?", line)
    assert (decision.approved, decision.answer) == (None, answer)
    assert "once more" in shown


async def test_an_open_question_takes_text():
    decision, _ = await ask(make_wait(kind="question", message="Who?"), "anna & co")
    assert (decision.approved, decision.answer) == (None, "anna & co")


async def test_a_question_is_declined():
    for wait in (
        make_wait(kind="question"),
        make_wait(kind="question", choices=("a", "b")),
        make_wait(kind="question", schema=OBJECT),
    ):
        decision, _ = await ask(wait, "/decline")
        assert (decision.approved, decision.answer) == (False, None)


async def test_a_typed_question_is_asked_field_by_field():
    wait = make_wait(kind="question", schema=OBJECT)
    decision, shown = await ask(wait, "many", "3", "green", "2", "perhaps", "yes", "", "1.5")
    assert decision.answer == {"size": 3, "colour": "blue", "gift": True, "weight": 1.5}
    assert "Size: " in shown
    assert "gift, wrap it (optional): " in shown
    assert "whole number" in shown


async def test_the_kernels_own_form_of_a_question_is_one_answer():
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
    assert (await ask(make_wait(kind="question", schema=schema), "text"))[0].answer == "text"


async def test_what_is_not_yours_to_decide_is_not_asked():
    decision, shown = await ask(make_wait(can_decide=False))
    assert decision is None
    assert "You cannot decide" in shown


def test_a_choice_is_its_words_before_its_number():
    assert choose(("2", "1"), "1") == "1"
    assert choose(("red", "blue"), "2") == "blue"
    assert choose(("red", "blue"), "RED") == "red"
    assert choose(("a", "A"), "a") == "a"
    assert choose(("ß", "SS"), "ss") is None
    for line in ("", "0", "3", "-1", "²", "1e0", "9" * 50):
        assert choose(("red", "blue"), line) is None


@given(st.lists(st.text(max_size=5), min_size=1, unique=True), st.text(max_size=5))
def test_a_choice_is_one_of_the_choices_and_each_can_be_chosen(choices, line):
    assert choose(choices, line) in (*choices, None)
    assert all(choose(choices, choice) == choice for choice in choices)


@pytest.mark.parametrize("kind", ["question", "restart", "budget"])
def test_standing_answers_are_for_approvals_alone(kind):
    assert standing_answer(make_wait(kind=kind), yes=True) is None
    assert standing_answer(make_wait(kind=kind), yes=False) is None
    assert standing_answer(make_wait(), yes=None) is None
