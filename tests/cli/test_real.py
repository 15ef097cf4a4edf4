"""The real script with the real kernel and the demo bundle: embedded, at a terminal, and against a server."""

import json
import os
import signal
import subprocess
import sys

import pytest

pexpect = pytest.importorskip("pexpect")

COMMAND = [sys.executable, "-m", "transom"]
UP_TO_HERE = 20


@pytest.fixture
def environment(tmp_path):
    """Nothing of this shell's settings, and folders of the test's own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRANSOM_", "OZ0_"))}
    return {**kept, "HOME": str(tmp_path), "TERM": "xterm", "NO_COLOR": "1"}


@pytest.fixture
def transom(tmp_path, environment):
    """Run the script to its end, in a folder without a settings file."""

    def run(*args: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *args],
            cwd=tmp_path,
            env={**environment, **more},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


@pytest.fixture
def terminal(tmp_path, environment):
    """Start the script at a terminal."""
    children = []

    def start(*args: str, **more: str):
        child = pexpect.spawn(
            COMMAND[0], [*COMMAND[1:], *args], cwd=str(tmp_path), env={**environment, **more}, encoding="utf-8",
            timeout=UP_TO_HERE, dimensions=(40, 160),
        )  # fmt: skip
        children.append(child)
        return child

    yield start
    for child in children:
        child.close(force=True)


@pytest.fixture
def server(tmp_path, environment):
    """A development server: its URL and tokens, as variables for the client."""
    command = [*COMMAND, "dev", "--port", "0", "--json"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline()
            assert line, "the server says where it listens"
            told = json.loads(line)
            yield {"TRANSOM_URL": told["url"], "TRANSOM_TOKEN": told["tokens"]["omar"]}
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(UP_TO_HERE) in (0, 130)


def end(child) -> tuple[str, int]:
    child.expect(pexpect.EOF)
    child.close()
    return child.before.replace("\r\n", "\n"), child.exitstatus


def test_echo_answers(transom):
    result = transom("run", "echo", "hello there", "--quiet")
    assert (result.returncode, result.stdout, result.stderr) == (0, "hello there\n", "")


def test_a_greeting_is_approved_at_the_terminal(terminal):
    child = terminal("run", "helper")
    child.expect("team.greet")
    child.expect('"channel": "#team"')
    child.expect("Approve?")
    child.sendline("y")
    rest, code = end(child)
    assert "I greeted the team." in rest
    assert code == 0


def test_the_value_is_typed_and_a_wrong_one_is_refused(terminal):
    child = terminal("run", "typed")
    child.expect('"name": "([^"]+)"')
    name = child.match.group(1)
    for typed in (f"{name}x", name):
        child.expect("Approve?")
        child.sendline("y")
        child.expect("Type the value of 'name'")
        child.sendline(typed)
    assert end(child)[1] == 0


def test_a_question_that_expires_is_taken_back(terminal):
    child = terminal("run", "brief")
    child.expect("Still there")
    child.expect("Answer")
    rest, code = end(child)
    assert "Nobody answered in time." in rest
    assert code == 0


def test_two_calls_are_asked_one_after_the_other(terminal):
    child = terminal("run", "two_calls")
    child.expect("Approve?")
    child.sendline("y")
    child.expect("Approve?")
    child.sendline("n")
    assert end(child)[1] == 0


def test_ctrl_c_cancels_and_the_job_stays_cancelled(terminal, transom):
    child = terminal("run", "sleeper", '{"steps": 5, "seconds": 30}', "--id", "nap")
    child.expect("demo.nap")
    child.sendintr()
    rest, code = end(child)
    assert "sleeper cancelled" in rest
    assert "Traceback" not in rest
    assert code == 130
    assert json.loads(transom("job", "get", "nap", "--json").stdout)["status"] == "cancelled"


def test_what_waits_is_4_and_the_command_that_was_told_decides_it(transom):
    waiting = transom("run", "helper")
    assert waiting.returncode == 4
    (command,) = [line.split() for line in waiting.stderr.splitlines() if "approval approve" in line]
    assert command[:3] == ["transom", "approval", "approve"]
    assert [wait["id"] for wait in json.loads(transom("approval", "list", "--json").stdout)["approvals"]] == [command[3]]
    decided = transom(*command[1:])
    assert (decided.returncode, "was approved" in decided.stdout) == (0, True)


def test_nobody_passes_four_eyes_in_her_own_job(transom):
    assert transom("run", "pair", "--yes").returncode == 4


def test_an_agent_in_a_file_is_run(transom, tmp_path):
    (tmp_path / "mine.yaml").write_text("name: my-own\nmodel: scripted\ninstructions: Say hello.\n")
    result = transom("run", "./mine.yaml", "hello", "--json")
    first = json.loads(result.stdout.splitlines()[0])
    assert (first["type"], first["agent"]) == ("job.started", "my-own")


def test_a_server_runs_what_is_asked_for_and_goes_on_without_us(transom, terminal, server):
    assert transom("run", "echo", "over there", "--quiet", **server).stdout == "over there\n"
    child = terminal("run", "helper", **server)
    child.expect("Approve?")
    child.sendline("y")
    assert end(child)[1] == 0
    child = terminal("run", "sleeper", '{"steps": 3, "seconds": 0.5}', "--id", "nap", **server)
    child.expect("demo.nap")
    child.sendintr()
    rest, code = end(child)
    assert "transom job watch nap" in rest
    assert code == 130
    watched = transom("job", "watch", "nap", **server)
    assert "slept 3" in watched.stdout
    assert watched.returncode == 0
    started = transom("run", "helper", "--detach", **server)
    assert transom("job", "cancel", started.stdout.strip(), **server).returncode == 0
    assert transom("job", "watch", started.stdout.strip(), **server).returncode == 3
    assert transom("catalog", **{**server, "TRANSOM_TOKEN": "wrong"}).returncode == 5
