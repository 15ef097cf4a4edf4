"""Commands of a plugin's operations with the real script: on a data folder, and against a server that has the plugin."""

import json
import shutil
from pathlib import Path

import depot
import pytest

pexpect = pytest.importorskip("pexpect")


@pytest.fixture
def environment(environment, tmp_path) -> dict[str, str]:
    """With the plugin, as pip installs one."""
    site = tmp_path / "site"
    info = site / "transom_depot-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: transom-depot\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[transom]\ndepot = depot:DepotPlugin\n")
    shutil.copy(Path(depot.__file__), site / "depot.py")
    return {**environment, "PYTHONPATH": str(site)}


@pytest.fixture(params=["here", "server"])
def where(request, serving) -> dict[str, str]:
    """The variables that say where the runtime is."""
    if request.param == "here":
        return {}
    told = serving("dev")
    return {"TRANSOM_URL": told["url"], "TRANSOM_TOKEN": told["tokens"]["ada"]}


def test_commands_do_the_same_here_and_on_a_server(script, where):
    put = script("depot", "put", "lamp", "3", "--tag", "a", "--checked", **where)
    assert put.returncode == 0, put.stderr
    heard, _, by = put.stdout.removeprefix("heard  ").rpartition(" by ")
    assert json.loads(heard)["tag"] == ["a"]
    assert by == ("person\n" if where else "operator\n")
    listed = json.loads(script("depot", "list", "--json", **where).stdout)
    assert [thing["id"] for thing in listed["things"]] == ["lamp", "rope"]
    assert script("depot", "unlock", "door", input="1234\n", **where).stdout == "heard  door 4\n"
    shown = script("depot", "shelf", "show", "lamp", **where)
    assert "metres  2" in shown.stdout
    refused = script("depot", "put", "LAMP", "3", **where)
    assert (refused.returncode, "NAME: " in refused.stderr) == (2, True)


def test_who_may_not_is_5(script, serving):
    told = serving("dev")
    refused = script("depot", "list", TRANSOM_URL=told["url"], TRANSOM_TOKEN=told["tokens"]["rita"])
    assert (refused.returncode, "depot.use" in refused.stderr) == (5, True)


def test_a_secret_is_asked_for_at_the_terminal_and_not_shown(script_at_terminal):
    child = script_at_terminal("depot", "unlock", "door")
    child.expect("Code: ")
    child.sendline("1234")
    child.expect("Spare .empty for none.: ")
    child.sendline("")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert "1234" not in child.before
    assert "heard  door 4" in child.before


def test_the_shell_completes_groups_commands_options_and_choices(script):
    def complete(*words: str) -> list[str]:
        line = {"_TRANSOM_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        return [each.removeprefix("plain,") for each in script(**line).stdout.split()]

    assert complete("transom", "dep") == ["depot"]
    assert complete("transom", "job", "arch") == ["archive"]
    assert complete("transom", "depot", "put", "--ins") == ["--insured"]
    assert complete("transom", "depot", "put", "--colour", "b") == ["blue"]


def test_commands_that_collide_are_left_out_and_told_of(script, tmp_path):
    site = tmp_path / "site"
    source = (site / "depot.py").read_text().replace('"depot shelf show"', '"depot put away"')
    (site / "depot.py").write_text(source)
    shown = script("--help")
    assert (shown.returncode, "run" in shown.stdout, "depot" in shown.stdout) == (0, True, False)
    assert "'depot put away' collides with 'depot put' of 'PutThing'" in shown.stderr
