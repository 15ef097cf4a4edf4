"""The real script with the real kernel and the demo bundle: embedded, at a terminal, and against a server."""

import json
import subprocess
import sys

import pytest

pexpect = pytest.importorskip("pexpect")


@pytest.fixture
def transom(script):
    """The script, in a folder without a settings file."""
    return script


@pytest.fixture
def terminal(script_at_terminal):
    """The script at a terminal."""
    return script_at_terminal


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


# -- what nobody goes on with ---------------------------------------------------------------------------------------


def killed(environment, tmp_path, *args: str) -> None:
    """Start the script, and kill it while its job runs."""
    command = [sys.executable, "-m", "transom", *args]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        while "demo.nap" not in process.stdout.readline():
            assert process.poll() is None
        process.kill()


NAP = ("run", "sleeper", '{"steps": 1, "seconds": 1}', "--id", "nap")


def test_watching_a_job_that_nobody_goes_on_with_says_so_at_once(transom, environment, tmp_path):
    killed(environment, tmp_path, *NAP)
    watched = transom("job", "watch", "nap", "--data", "transom-data")
    assert watched.returncode == 6
    assert "→ demo.nap" in watched.stdout
    assert "Nobody goes on with job nap" in watched.stderr
    assert "`transom serve --data transom-data`" in watched.stderr
    told = transom("job", "watch", "nap", "--json").stdout.splitlines()[-1]
    assert json.loads(told) == {"type": "result", "job": "nap", "outcome": "abandoned", "exit": 6}


def test_watching_a_job_that_waits_for_a_person_says_for_what(transom):
    transom("run", "helper", "hello", "--id", "mine")
    watched = transom("job", "watch", "mine")
    assert watched.returncode == 4
    assert "transom approval approve wait-" in watched.stderr
    assert "A server on this data folder goes on with it" in watched.stderr


def test_the_same_start_takes_a_job_up_whose_process_died(transom, environment, tmp_path):
    killed(environment, tmp_path, *NAP)
    again = transom(*NAP)
    assert again.returncode == 0
    assert "started before" in again.stderr
    assert "slept 1" in again.stdout


def test_watching_beside_a_server_follows_to_the_end(transom, environment, tmp_path, serving):
    killed(environment, tmp_path, *NAP)
    serving("dev")
    watched = transom("job", "watch", "nap")
    assert (watched.returncode, "slept 1" in watched.stdout) == (0, True)


# -- outputs that break ---------------------------------------------------------------------------------------------


def shell(environment, tmp_path, line: str) -> subprocess.CompletedProcess[str]:
    """Run a shell's line, in which `transom` is the script."""
    text = f'set -o pipefail; transom() {{ "{sys.executable}" -m transom "$@"; }}; {line}'
    return subprocess.run(
        ["bash", "-c", text], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        pytest.param("transom job list <&- >&-", 0, "There is no job yet.\n", id="no input and no output"),
        pytest.param("transom run echo hello >&-", 0, "", id="no output"),
        pytest.param("transom job list <&- >&- 2>&-", 0, "", id="nothing at all"),
        pytest.param("transom run echo hello | true", 1, "", id="a reader that leaves"),
        pytest.param("transom --help | true", 1, "", id="a reader of the help that leaves"),
        pytest.param("transom run echo hello > /dev/full", 1, "No space left on device", id="a full disk"),
        pytest.param("transom --help > /dev/full", 1, "No space left on device", id="a full disk for the help"),
        pytest.param("transom job get none 2> /dev/full", 1, "", id="a full disk for errors"),
    ],
)
def test_an_output_that_breaks_is_an_exit_code_and_no_traceback(environment, tmp_path, line, code, says, unbuffered):
    result = shell({**environment, "PYTHONUNBUFFERED": unbuffered}, tmp_path, line)
    assert "Traceback" not in result.stderr
    assert "Exception ignored" not in result.stderr
    assert says in result.stderr if says else result.stderr == ""
    assert result.returncode == code


# -- what is not there ----------------------------------------------------------------------------------------------


def test_a_demo_agent_that_a_settings_file_leaves_out_is_told_where_it_is(transom, tmp_path):
    (tmp_path / "transom.toml").write_text("")
    result = transom("run", "echo", "hello")
    assert result.returncode == 2
    assert "plugin 'demo', which is for development: `transom dev` has it" in result.stderr
    (tmp_path / "transom.toml").write_text('[plugins]\nenable = ["demo"]\n')
    assert transom("run", "echo", "hello", "--quiet").stdout == "hello\n"
    assert "`transom catalog` lists what there is." in transom("run", "nobody", "hello").stderr


def test_a_model_that_is_not_there_is_told_where_models_come_from(transom, tmp_path):
    (tmp_path / "mine.yaml").write_text("name: mine\nmodel: nosuch\ninstructions: Hi.\n")
    assert "bring models: `transom plugins list`" in transom("run", "mine.yaml", "hello").stdout


def test_a_mistyped_command_is_answered_with_what_is_near(transom):
    result = transom("catalogue")
    assert (result.returncode, "Did you mean catalog?" in result.stderr) == (2, True)
