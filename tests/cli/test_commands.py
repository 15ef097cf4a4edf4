"""Everything but `run`: what is printed, and with which exit code."""

import json

import pytest
from cli_fakes import Run

from transom_hookspecs import TransomError


@pytest.fixture
def waiting(transom):
    """A job of `helper` that waits."""
    assert transom("run", "helper", "--id", "mine", "--tag", "first").exit_code == 4
    return "mine"


def test_jobs_are_listed(transom, waiting):
    result = transom("job", "list")
    assert result.stdout.splitlines()[0].split() == ["job", "agent", "status", "started", "tags"]
    assert result.stdout.splitlines()[1].split()[:3] == ["mine", "helper", "running"]
    assert json.loads(transom("job", "list", "--json").stdout)["jobs"][0]["id"] == "mine"


def test_a_next_page_is_pointed_to(transom, waiting):
    assert "transom job list --cursor next --data d" in transom("job", "list", "--limit", "1", "--data", "d").stderr
    assert json.loads(transom("job", "list", "--limit", "1", "--json").stdout)["cursor"] == "next"


def test_an_empty_list_says_so(transom):
    result = transom("job", "list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no job" in result.stderr
    assert json.loads(transom("job", "list", "--json").stdout) == {"jobs": [], "cursor": ""}


def test_a_job_is_shown_with_what_it_waits_for(transom, waiting):
    result = transom("job", "get", waiting)
    assert "status       running" in result.stdout
    assert "transom approval approve wait-1" in result.stdout
    assert json.loads(transom("job", "get", waiting, "--json").stdout)["approvals"][0]["id"] == "wait-1"


@pytest.mark.req("SDK-4")
def test_a_job_is_shown_with_its_answer(transom):
    transom("run", "echo", "the answer")
    assert transom("job", "get", "job-1").stdout.endswith("\nthe answer\n")


def test_a_job_that_is_not_there_is_2(transom):
    result = transom("job", "get", "nothing")
    assert (result.exit_code, result.stderr) == (2, "Error: there is no job 'nothing' here\n")


def test_watching_shows_all_and_exits_as_the_job_came_out(transom):
    transom("run", "crasher")
    result = transom("job", "watch", "job-1")
    assert result.exit_code == 1
    assert "Some text." in result.stdout
    assert json.loads(transom("job", "watch", "job-1", "--json").stdout.splitlines()[-1])["outcome"] == "failed"


def test_watching_what_nobody_goes_on_with_is_6_and_says_what_would(transom, launcher):
    launcher.runs["mine"] = run = Run("sleeper", "mine")
    run.start()
    for word in range(12):
        run.say(f"word{word}", step=word)
    result = transom("job", "watch", "mine", "--data", "d d")
    assert result.exit_code == 6
    assert "word0" in result.stdout
    assert "word11" in result.stdout
    assert "Nobody goes on with job mine" in result.stderr
    assert "`transom serve --data 'd d'`" in result.stderr


def test_a_job_is_cancelled(transom, waiting):
    assert transom("job", "cancel", waiting, "--reason", "enough").stdout == "Job mine is cancelled.\n"
    assert transom("job", "watch", waiting).exit_code == 3


def test_a_trace_lists_steps(transom, waiting):
    assert "team.greet  done (attempt 2)  0.25 s" in transom("job", "trace", waiting).stdout
    assert json.loads(transom("job", "trace", waiting, "--json").stdout)["steps"][0]["begunAt"].endswith("Z")


def test_why_a_job_waits_is_told(transom, waiting):
    result = transom("job", "wait", waiting)
    assert result.stdout.startswith("It waits for a person.\n  Step 1 waits for a person.\n    since 2026-02-25 ")
    assert json.loads(transom("job", "wait", waiting, "--json").stdout)["why"] == "It waits for a person."


def test_tags_are_shown_and_changed(transom, waiting):
    assert transom("job", "tags", waiting).stdout == "first\n"
    assert transom("job", "tags", waiting, "--add", "second", "--remove", "first").stdout == "second\n"
    assert json.loads(transom("job", "tags", waiting, "--json").stdout) == {"id": "mine", "tags": ["second"]}


@pytest.mark.req("SDK-4")
def test_what_waits_is_listed(transom, waiting):
    result = transom("approval", "list")
    assert "wait-1  approval  helper  team.greet" in result.stdout
    (wait,) = json.loads(transom("approval", "list", "--json").stdout)["approvals"]
    assert (wait["id"], wait["openedAt"]) == ("wait-1", "2026-02-25T06:13:20.000Z")
    assert transom("approval", "list", "--tree").exit_code == 2


def decision(launcher):
    return launcher.calls[-1][0]


def test_it_is_approved_with_a_comment_and_a_typed_value(transom, launcher, waiting):
    result = transom("approval", "approve", "wait-1", "--comment", "fine", "--confirm", "bob", "--data", "d")
    assert result.stdout == "wait-1 was approved by operator:me.\n"
    assert "transom job watch mine --data d" in result.stderr
    assert (decision(launcher).approved, decision(launcher).comment, decision(launcher).confirm) == (True, "fine", "bob")


def test_it_is_denied(transom, launcher, waiting):
    assert json.loads(transom("approval", "deny", "wait-1", "--json").stdout)["outcome"] == "denied"
    assert decision(launcher).approved is False


@pytest.mark.parametrize(
    ("args", "answer"),
    [
        (("blue",), "blue"),
        (("42",), "42"),
        (('{"a": 1}',), {"a": 1}),
        (("--answer", "42"), 42),
        (("--answer", "blue"), "blue"),
        (("--answer", '{"answer": "done", "result": 3}'), {"answer": "done", "result": 3}),
    ],
)
def test_a_question_is_answered_with_text_or_json(transom, launcher, args, answer):
    transom("run", "asker")
    assert transom("approval", "answer", "wait-1", *args).exit_code == 0
    assert (decision(launcher).approved, decision(launcher).answer) == (None, answer)


@pytest.mark.parametrize("args", [(), ("a", "--answer", "b")])
def test_an_answer_is_given_once(transom, args):
    assert transom("approval", "answer", "wait-1", *args).exit_code == 2


def test_a_vote_says_that_others_are_needed(transom):
    transom("run", "voted")
    assert "others are needed" in transom("approval", "approve", "wait-1").stdout


def test_arguments_are_edited(transom, launcher, waiting):
    assert "asked" not in transom("approval", "edit", "wait-1", '{"channel": "#ops"}').stderr
    assert decision(launcher).arguments == {"channel": "#ops"}
    for wrong in ("[]", "text", "@/no/file"):
        assert transom("approval", "edit", "wait-1", wrong).exit_code == 2


def test_the_catalog_tells_what_each_takes(transom):
    result = transom("catalog")
    (row,) = [line.split() for line in result.stdout.splitlines() if line.startswith("acme-reviewer")]
    assert row == ["acme-reviewer", "flow", "repo,", "pr?"]
    assert json.loads(transom("catalog", "--json").stdout)["agents"][-1]["inputSchema"]["required"] == ["repo"]


def test_dev_serves_the_demo_and_prints_one_line_of_json(transom, launcher):
    result = transom("dev", "--port", "0", "--data", "d", "--json")
    assert launcher.served == [{"host": "", "port": 0, "data": "d", "dev": True, "with_parent": False}]
    assert result.stdout == '{"url":"http://127.0.0.1:7443","tokens":{"anna":"tr_anna","key":"tr_key"}}\n'


def test_dev_tells_a_person_how_to_try_it(transom, launcher):
    result = transom("dev")
    assert launcher.served[0]["port"] is None
    assert "Bearer tr_key" in result.stdout
    assert "/fake/data" in result.stdout
    assert "anna" in result.stdout


def test_serve_serves_what_is_set(transom, launcher):
    assert transom("serve", "--host", "0.0.0.0", "--port", "8443", "--json").stdout == '{"url":"http://127.0.0.1:7443"}\n'
    assert launcher.served == [{"host": "0.0.0.0", "port": 8443, "data": "", "dev": False, "with_parent": False}]
    assert "/fake/data" in transom("serve").stdout


@pytest.mark.parametrize("command", ["dev", "serve"])
def test_a_server_may_end_with_its_parent(transom, launcher, command):
    assert transom(command, "--with-parent").exit_code == 0
    assert launcher.served[0]["with_parent"] is True


def test_plugins_are_listed_and_a_broken_one_is_told_and_1(transom):
    result = transom("plugins", "list")
    assert result.exit_code == 1
    assert "github  transom-github 2  failed  no module named x" in result.stdout
    assert json.loads(transom("plugins", "list", "--json").stdout)["plugins"][0]["hooks"] == ["register_doors"]


def test_plugins_are_blocked_and_unblocked(transom, launcher):
    assert "/etc/transom.toml" in transom("plugins", "block", "github").stdout
    assert transom("plugins", "unblock", "gone").exit_code == 0
    assert launcher.blocked == [("github", True), ("gone", False)]


def test_a_plugin_that_is_not_there_is_not_blocked_by_a_slip(transom, launcher):
    result = transom("plugins", "block", "githup")
    assert (result.exit_code, launcher.blocked) == (2, [])
    assert "Did you mean github?" in result.stderr


def test_hooks_are_listed_by_family(transom):
    rows = [line.split() for line in transom("hooks").stdout.splitlines()]
    assert [row[0] for row in rows] == ["family", "doors", "tools"]
    assert rows[1] == ["doors", "register_doors", "register", "rest,", "agui"]
    assert json.loads(transom("hooks", "--json").stdout)["hooks"][0]["family"] == "doors"


def test_operations_are_listed(transom):
    assert "StartJob   jobs.start  run.start  Idempotency-Key  Start a job." in transom("operations").stdout
    (row,) = json.loads(transom("operations", "--json").stdout)["operations"]
    assert (row["request"], row["idempotent"]) == ("StartJob", True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(transom, shell):
    result = transom("completion", shell)
    assert result.exit_code == 0
    assert "_TRANSOM_COMPLETE" in result.stdout


def leaves(command, *path):
    for name, child in getattr(command, "commands", {}).items():
        yield (*path, name), child
        yield from leaves(child, *path, name)


def test_every_command_has_help_and_examples_under_both_options(transom):
    import click

    from transom_cli.commands import COMMANDS

    group = click.Group("transom", commands={command.name: command for command in COMMANDS})
    for path, command in leaves(group):
        result = transom(*path, "-h")
        assert result.exit_code == 0
        assert result.stdout == transom(*path, "--help").stdout
        assert command.get_short_help_str(200)[-1:] == ".", path
        assert "..." not in command.get_short_help_str(63), (path, "cut short in lists")
        assert isinstance(command, click.Group) or f"transom {' '.join(path)}" in result.stdout.partition("Examples:")[2], path


def test_a_token_to_another_machine_in_the_clear_is_warned_of(transom, monkeypatch, tmp_path):
    file = tmp_path / "token"
    file.write_text("secret")
    monkeypatch.setattr("transom_cli.commands.agents.with_client", lambda *args, **kwargs: 0)
    for at_home in ("http://127.0.0.1:1", "http://[::1]:1", "http://localhost", "https://edge.example"):
        assert "Warning" not in transom("catalog", "--url", at_home, "--token-file", str(file)).stderr
    result = transom("catalog", "--url", "http://edge.example", "--token-file", str(file))
    assert "unencrypted" in result.stderr
    assert "secret" not in result.output


def test_an_unreachable_server_is_6_with_a_word_of_what_to_do(transom, monkeypatch):
    monkeypatch.setattr("transom_cli.remote.TRIES", 1)
    result = transom("job", "list", "--url", "http://127.0.0.1:1")
    assert result.exit_code == 6
    assert "transom serve" in result.stderr.splitlines()[-1]


def test_help_and_completion_import_nothing_heavy():
    import subprocess
    import sys

    code = (
        "import sys\n"
        "from transom_cli.commands import COMMANDS\n"
        "heavy = {'httpx', 'rich', 'litestar', 'uvicorn', 'jsonschema', 'yaml'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_error_of_the_launcher_is_told(transom, launcher):
    launcher.broken = TransomError("failed_precondition", "the data folder is of a newer version")
    assert transom("job", "list").exit_code == 1
