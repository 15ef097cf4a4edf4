"""`transom run` with a person at a real terminal, before a kernel made for the tests."""

import os
import sys
from pathlib import Path

import pytest

pexpect = pytest.importorskip("pexpect")

FAKES = str(Path(__file__).with_name("cli_fakes.py"))
UP_TO_HERE = 10


@pytest.fixture
def terminal():
    """Start the commands at a terminal; what runs still is ended."""
    children = []

    def start(*args: str, **environment: str):
        env = {name: value for name, value in os.environ.items() if name not in ("TRANSOM_URL", "OZ0_URL", "NO_COLOR")}
        child = pexpect.spawn(
            sys.executable,
            [FAKES, *args],
            env={**env, "TERM": "xterm", **environment},
            encoding="utf-8",
            timeout=UP_TO_HERE,
            dimensions=(40, 120),
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.close(force=True)


def end(child) -> tuple[str, int]:
    """What it still printed, and its exit code."""
    child.expect(pexpect.EOF)
    child.close()
    return child.before.replace("\r\n", "\n"), child.exitstatus


def test_an_approval_is_asked_with_what_would_run_and_a_yes_goes_on(terminal):
    child = terminal("run", "helper")
    child.expect("team.greet")
    child.expect('"channel": "#team"')
    child.expect("a greeting needs a yes")
    child.expect("Approve?")
    child.sendline("y")
    rest, code = end(child)
    assert "approved" in rest
    assert "I greeted the team." in rest
    assert code == 0


def test_what_is_asked_for_is_shown_once_where_it_is_asked(terminal):
    child = terminal("run", "helper", "hello", NO_COLOR="1")
    child.expect("Approve?")
    before = child.before.replace("\r\n", "\n")
    child.sendline("y")
    end(child)
    asked = before.partition('→ team.greet {"channel":"#team"}\n')[2]
    assert asked.startswith("\n? helper waits: approval team.greet\n")
    assert asked.count("#team") == 1


def test_who_answers_beforehand_sees_what_is_answered(terminal):
    rest, code = end(terminal("run", "helper", "hello", "--yes", NO_COLOR="1"))
    assert '? approval wait-1: team.greet {"channel":"#team"}' in rest
    assert code == 0


def test_an_input_that_is_not_given_is_told_of(terminal):
    rest, code = end(terminal("run", "echo"))
    assert 'No INPUT: echo gets an empty text. Give it as `transom run echo "some text"`' in rest
    assert code == 0


def test_a_no_may_have_a_comment(terminal):
    child = terminal("run", "helper")
    child.expect("Approve?")
    child.sendline("no not on a Friday")
    rest, code = end(child)
    assert "I did not greet the team." in rest
    assert code == 0


def test_an_answer_that_is_none_is_asked_for_again(terminal):
    child = terminal("run", "helper")
    child.expect("Approve?")
    child.sendline("maybe")
    child.expect("y, n or l")
    child.expect("Approve?")
    child.sendline("y")
    assert end(child)[1] == 0


def test_later_leaves_it_waiting(terminal):
    child = terminal("run", "helper")
    child.expect("Approve?")
    child.sendline("l")
    rest, code = end(child)
    assert "transom approval approve wait-1" in rest
    assert code == 4


def test_so_does_the_end_of_input(terminal):
    child = terminal("run", "helper")
    child.expect("Approve?")
    child.sendeof()
    assert end(child)[1] == 4


def test_a_value_is_typed_and_a_slip_is_asked_for_again(terminal):
    child = terminal("run", "typed")
    child.expect("Approve?")
    child.sendline("y")
    child.expect("Type the value of 'name'")
    child.sendline("bbo")
    child.expect("type the value of 'name'")
    child.expect("Approve?")
    child.sendline("y")
    child.expect("Type the value")
    child.sendline("bob")
    assert end(child)[1] == 0


def test_choices_are_numbered(terminal):
    child = terminal("run", "asker")
    child.expect("1. red")
    child.expect("3. blue")
    child.expect("Number or answer")
    child.sendline("4")
    child.expect("from 1 to 3")
    child.sendline("3")
    rest, code = end(child)
    assert "You chose blue." in rest
    assert code == 0


def test_a_question_that_is_decided_elsewhere_is_taken_back(terminal):
    child = terminal("run", "brief")
    child.expect("Still there")
    child.expect("Answer")
    rest, code = end(child)
    assert "Nobody answered in time." in rest
    assert code == 0


def test_what_is_not_this_persons_to_decide_is_shown_and_left(terminal):
    child = terminal("run", "pair")
    child.expect("not by whoever started the job")
    child.expect("You cannot decide this one")
    assert end(child)[1] == 4


def test_ctrl_c_cancels_the_job_and_exits_with_130(terminal):
    child = terminal("run", "sleeper")
    child.expect("Going to sleep")
    child.sendintr()
    rest, code = end(child)
    assert "sleeper cancelled" in rest
    assert code == 130


def test_ctrl_c_at_a_question_too(terminal):
    child = terminal("run", "asker")
    child.expect("Number or answer")
    child.sendintr()
    rest, code = end(child)
    assert "asker cancelled" in rest
    assert "Traceback" not in rest
    assert code == 130


def test_there_is_colour_at_a_terminal_and_none_with_no_color(terminal):
    assert "\x1b[" in end(terminal("run", "echo", "hi"))[0]
    assert "\x1b[" not in end(terminal("run", "echo", "hi", NO_COLOR="1"))[0]
    assert "\x1b[" in end(terminal("catalog"))[0]
    assert "\x1b[" not in end(terminal("catalog", NO_COLOR="1"))[0]


def test_json_asks_nobody(terminal):
    rest, code = end(terminal("run", "helper", "--json"))
    assert '"outcome":"waiting"' in rest
    assert code == 4
