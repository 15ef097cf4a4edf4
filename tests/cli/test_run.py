"""`transom run`, with nobody at the terminal."""

import json

import pytest
from cli_fakes import JOB

from transom_hookspecs import AgentView, StartJob, TransomError


def lines(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_text_streams_and_the_command_exits_with_0_when_the_job_completed(transom):
    result = transom("run", "echo", "hello world")
    assert result.exit_code == 0, result.output
    assert "hello world" in result.stdout
    assert result.stdout.count("hello world") == 1, "the output that was streamed is not printed again"


def test_quiet_prints_the_answer_and_nothing_else(transom):
    assert transom("run", "echo", "hi", "--quiet").stdout == "hi\n"


def test_without_a_settings_file_the_runtime_is_a_development_one(transom, launcher):
    transom("run", "echo", "hi", "--data", "/tmp/d")
    assert launcher.opened == [{"data": "/tmp/d", "dev": True, "agents": []}]
    launcher.config_path = "/etc/transom.toml"
    transom("run", "echo", "hi")
    assert launcher.opened[-1]["dev"] is False


@pytest.mark.parametrize(
    ("args", "stdin", "wanted"),
    [
        pytest.param(("hello",), None, "hello", id="text"),
        pytest.param(('{"a": 1}',), None, {"a": 1}, id="an object"),
        pytest.param((" [1, 2]",), None, [1, 2], id="an array"),
        pytest.param(("{not json",), None, "{not json", id="text that looks like an object"),
        pytest.param(("42",), None, "42", id="a number is text"),
        pytest.param(("42", "--json-input"), None, 42, id="but not with --json-input"),
        pytest.param(('"[1]"', "--json-input"), None, "[1]", id="text that would be an array"),
        pytest.param(("-",), "from stdin\n", "from stdin\n", id="stdin"),
        pytest.param(("-",), '{"b": 2}', {"b": 2}, id="JSON on stdin"),
        pytest.param((), "from a pipe\n", "from a pipe\n", id="nothing but a pipe"),
        pytest.param((), '{"b": 2}', {"b": 2}, id="JSON from a pipe"),
        pytest.param((), "@/etc/passwd", "@/etc/passwd", id="what a pipe says names no file"),
        pytest.param(("--json-input",), "42", 42, id="a number from a pipe"),
        pytest.param((), None, "", id="nothing"),
        pytest.param(("[" * 100_000,), None, "[" * 100_000, id="an array too deep for any parser"),
    ],
)
def test_the_input_is_text_or_json(transom, launcher, args, stdin, wanted):
    assert transom("run", "echo", *args, input=stdin).exit_code == 0
    (request,) = [request for request, _ in launcher.calls if isinstance(request, StartJob)]
    assert request.input == wanted


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        pytest.param(None, "", id="anything"),
        pytest.param({"type": "string"}, "", id="text"),
        pytest.param({"type": ["object", "null"]}, None, id="null too"),
        pytest.param({}, None, id="anything, by a schema"),
    ],
)
def test_no_input_is_an_empty_text_or_null_where_the_agent_takes_it(transom, launcher, schema, wanted):
    launcher.schemas["echo"] = schema
    assert transom("run", "echo").exit_code == 0
    (request,) = [request for request, _ in launcher.calls if isinstance(request, StartJob)]
    assert request.input == wanted


def test_an_input_that_is_missing_is_named_with_how_to_give_it(transom, launcher):
    launcher.schemas["echo"] = {"type": "object", "properties": {"repo": {}, "pr": {}}, "required": ["repo"]}
    result = transom("run", "echo")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "Error: INPUT is missing: agent 'echo' takes repo, pr?, and none was given",
        """Give it as `transom run echo '{"repo":"…"}'`; `-` reads it from standard input, `@file` from a file.""",
    ]
    assert not [request for request, _ in launcher.calls if isinstance(request, StartJob)]


def test_the_input_may_stand_in_a_file(transom, launcher, tmp_path):
    file = tmp_path / "input.json"
    file.write_text('{"repo": "acme/api"}')
    transom("run", "echo", f"@{file}")
    assert launcher.calls[0][0].input == {"repo": "acme/api"}


@pytest.mark.parametrize(
    ("args", "says"),
    [
        pytest.param(("echo", "@/no/such/file"), "cannot be read", id="no file"),
        pytest.param(("echo", "{", "--json-input"), "not JSON", id="no JSON"),
        pytest.param(("echo", "--timeout", "soon"), "15m", id="no time"),
        pytest.param(("echo", "--timeout", "0"), "15m", id="no time at all"),
        pytest.param(("echo", "--detach"), "--url", id="detached with nobody to go on"),
        pytest.param(("echo", "--quiet", "--json"), "exclude", id="two outputs"),
        pytest.param(("echo", "--tag", "a,b"), "repeat --tag", id="a comma in a tag"),
        pytest.param(("./missing.yaml",), "no file", id="no such YAML"),
        pytest.param(("echo", "--url", "http://x", "--data", "y"), "exclude", id="two runtimes"),
        pytest.param(("echo", "--url", "ftp://x"), "https://", id="no URL"),
    ],
)
def test_what_is_asked_for_wrongly_is_2_with_a_word_of_what_to_do(transom, args, says):
    result = transom("run", *args)
    assert result.exit_code == 2
    assert says in result.stderr
    assert "Traceback" not in result.output


def test_input_that_is_no_text_is_refused(transom, tmp_path):
    file = tmp_path / "x"
    file.write_bytes(b"\xff\xfe")
    result = transom("run", "echo", f"@{file}")
    assert (result.exit_code, "UTF-8" in result.stderr) == (2, True)


def test_options_of_the_start_are_passed_on(transom, launcher):
    transom(
        "run",
        "echo",
        "x",
        "--id",
        "mine",
        "--tag",
        "a",
        "--tag",
        "b",
        "--timeout",
        "1h30m",
        "--conversation",
        "c",
        "--tenant",
        "acme",
    )
    request, origin = launcher.calls[0]
    assert (request.id, request.tags, request.timeout, request.conversation) == ("mine", ("a", "b"), 5400.0, "c")
    assert (origin.tenant, origin.door, origin.caller.kind) == ("acme", "cli", "operator")


def test_an_agent_may_be_a_file(transom, launcher, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("name: from_file\n")
    assert transom("run", str(file), "x").exit_code == 0
    assert launcher.opened[0]["agents"] == [str(file)]
    assert launcher.calls[0][0].agent == "from_file"


def test_an_unknown_agent_is_answered_with_near_names(transom):
    result = transom("run", "helpr")
    assert result.exit_code == 2
    assert "Did you mean helper or sleeper or crasher? `transom catalog` lists what there is." in result.stderr
    assert "`transom catalog --tenant acme`" in transom("run", "nobody", "x", "--tenant", "acme").stderr


def test_an_agent_of_a_plugin_that_is_for_development_is_told_where_it_is(transom, launcher):
    launcher.config_path = "/etc/transom.toml"
    launcher.in_development = [AgentView(name="nobody", plugin="showcase")]
    result = transom("run", "nobody", "x")
    assert result.exit_code == 2
    for words in ("'showcase'", "`transom dev` has it", 'enable = ["showcase"] under [plugins] in /etc/transom.toml'):
        assert words in result.stderr


def test_a_failed_job_is_1_and_says_why(transom):
    result = transom("run", "crasher")
    assert result.exit_code == 1
    assert "it broke (internal)" in result.stdout
    assert "it broke" in transom("run", "crasher", "--quiet").stderr


def test_a_job_that_waits_is_4_and_says_how_to_decide(transom):
    result = transom("run", "helper", "--data", "d d")
    assert result.exit_code == 4
    assert "transom approval approve wait-1 --data 'd d'" in result.stderr
    assert "transom approval deny wait-1" in result.stderr


def test_a_question_that_waits_shows_its_choices(transom):
    result = transom("run", "asker")
    assert result.exit_code == 4
    assert "transom approval answer wait-1 ANSWER" in result.stderr
    assert "red, green, blue" in result.stderr


@pytest.mark.parametrize(("flag", "answer"), [("--yes", "I greeted the team."), ("--no", "I did not greet the team.")])
def test_yes_and_no_answer_approvals(transom, flag, answer):
    result = transom("run", "helper", flag, "--quiet")
    assert (result.exit_code, result.stdout) == (0, f"{answer}\n")


def test_what_is_decided_is_what_was_shown(transom, launcher):
    transom("run", "helper", "--yes")
    (decision,) = [request for request, _ in launcher.calls if type(request).__name__ == "DecideApproval"]
    assert decision.token == "ozi1.wait-1"


@pytest.mark.parametrize("agent", ["typed", "asker", "pair", "voted"])
def test_yes_does_not_type_answer_or_pass_four_eyes(transom, agent):
    assert transom("run", agent, "--yes").exit_code == 4


def test_no_denies_also_what_a_yes_would_have_to_type(transom):
    assert transom("run", "typed", "--no").exit_code == 0


def test_json_prints_each_event_and_a_result(transom):
    result = transom("run", "helper", "--yes", "--json")
    events = lines(result)
    assert [event["type"] for event in events] == [
        "job.started", "call", "wait.opened", "tree.waiting", "wait.decided", "tree.running", "call.ended",
        "text", "text", "text.ended", "job.ended", "result",
    ]  # fmt: skip
    assert [event["seq"] for event in events[:-1]] == list(range(1, 12))
    assert events[0]["at"].endswith("Z")
    assert events[-1] == {
        "type": "result",
        "job": JOB,
        "outcome": "completed",
        "exit": 0,
        "output": "I greeted the team.",
        "error": None,
    }


def test_json_of_a_job_that_waits_tells_what_waits(transom):
    result = transom("run", "typed", "--json")
    assert result.exit_code == 4
    last = lines(result)[-1]
    assert (last["outcome"], last["exit"]) == ("waiting", 4)
    (wait,) = last["approvals"]
    assert (wait["id"], wait["canDecide"], wait["rule"]["typed"], wait["shown"]) == ("wait-1", True, "name", {"name": "bob"})


def test_delegated_jobs_are_an_indented_tree(transom):
    result = transom("run", "planner")
    assert result.stdout.splitlines()[:9] == [
        "▸ planner · job job-1",
        "• note 1 (plan): Two workers.",
        "▸ worker · job child-1",
        "▸ worker#2 · job child-2",
        "▸ worker",
        "  one ",
        "▸ worker#2",
        "  two",
        "▸ worker",
    ]
    assert '{\n  "done": true\n}' in result.stdout


def test_cut_text_is_marked(transom):
    result = transom("run", "cut")
    before, _, after = result.stdout.partition("cut off")
    assert "Half a sen\n✂" in before
    assert "\nA whole sentence.\n" in after


def test_the_same_start_again_is_told_and_shown(transom):
    transom("run", "echo", "x", "--id", "mine")
    result = transom("run", "echo", "x", "--id", "mine")
    assert result.exit_code == 0
    assert "started before" in result.stderr
    assert "server" not in result.stderr, "it has ended: nobody has to go on with it"
    transom("run", "helper", "--id", "other")
    assert "A server on this data folder" in transom("run", "helper", "--id", "other").stderr


def test_an_error_is_two_lines_and_no_traceback(transom, launcher):
    launcher.broken = TransomError("failed_precondition", "plugin 'github' does not load", {"plugin": "github"})
    result = transom("run", "echo")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "Error: plugin 'github' does not load",
        "`transom plugins list` shows what is loaded; `transom plugins block github` leaves it out.",
    ]


def test_with_json_an_error_is_json(transom):
    result = transom("run", "nobody", "--json")
    assert json.loads(result.stderr) == {"code": "not_found", "message": "there is no agent 'nobody'", "details": {}}


@pytest.mark.parametrize(
    ("code", "exit"),
    [
        ("permission_denied", 5),
        ("unauthenticated", 5),
        ("resource_exhausted", 5),
        ("unavailable", 6),
        ("internal", 1),
        ("invalid_argument", 2),
    ],
)
def test_each_error_has_its_exit_code(transom, launcher, code, exit):
    launcher.broken = TransomError(code, "no")
    assert transom("run", "echo").exit_code == exit


def test_a_name_in_an_error_cannot_write_to_the_terminal(transom, launcher):
    launcher.broken = TransomError("internal", "bad \x1b[2Jname")
    result = transom("run", "echo")
    assert "\x1b" not in result.stderr
    assert "bad \\x1b[2Jname" in result.stderr


def test_bytes_that_are_no_text_are_refused_where_they_are_given(transom):
    for args in (
        ("echo", "\udcff"),
        ("echo", "x", "--id", "\udcff"),
        ("echo", "x", "--tag", "a", "--tag", "\udcff"),
        ("\udcff",),
    ):
        result = transom("run", *args)
        assert (result.exit_code, "UTF-8" in result.stderr) == (2, True)


def test_json_is_plain_ascii_whatever_the_agent_says(transom):
    result = transom("run", "echo", "日本語 \x1b[31m", "--json")
    assert result.stdout.isascii()
    assert "\x1b" not in result.stdout
    assert lines(result)[-1]["output"] == "日本語 \x1b[31m"
