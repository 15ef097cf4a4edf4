"""`transom plugins new`: what it makes is whole, and its tests pass at once."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

from transom_cli.scaffold import KINDS, Scaffold
from transom_hookspecs import SPEC_VERSION, TransomError

REPOSITORY = Path(__file__).parents[2]


def run(*command: str, cwd: Path, paths: Sequence[Path] = ()) -> subprocess.CompletedProcess[str]:
    here = [REPOSITORY / part for part in ("kernel", "hookspecs", "plugins")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*paths, *here)))}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_the_tests_of_a_new_plugin_pass_at_once(tmp_path):
    made = Scaffold(kind="tool", name="my-new").write(tmp_path)
    done = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", cwd=made)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_those_of_every_kind_do(tmp_path):
    """All in one process, which saves starting one a kind."""
    made = [Scaffold(kind=kind, name=f"my-{kind}").write(tmp_path) for kind in sorted(KINDS)]
    options = ("-q", "-p", "no:cacheprovider", "-c", os.devnull, "--import-mode=importlib", "-W", "error")
    done = run(sys.executable, "-m", "pytest", *options, *(f"{each}/tests" for each in made), cwd=tmp_path, paths=made)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout


def test_the_code_of_every_kind_is_clean_and_formatted(tmp_path):
    made = [Scaffold(kind=kind, name=f"my-{kind}").write(tmp_path).name for kind in KINDS]
    options = ("--no-cache", "--isolated", "--line-length", "128", "--config", f"src={made}")
    for command in (("format", "--check"), ("check", "--select", "F,E,B,UP,I,SIM,RET,ARG005")):
        done = run(sys.executable, "-m", "ruff", *command, *options, ".", cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_it_is_a_distribution_with_an_entry_point_to_the_class(tmp_path, kind):
    made = Scaffold(kind=kind, name="transom-my-new").write(tmp_path)
    project = tomllib.loads((made / "pyproject.toml").read_text())["project"]
    assert project["name"] == made.name == "transom-my-new"
    assert project["entry-points"]["transom"] == {"my_new": "transom_my_new:MyNewPlugin"}
    assert "class MyNewPlugin:" in (made / "transom_my_new" / "__init__.py").read_text()
    assert f'spec = "{SPEC_VERSION[0]}.0"' in (made / "transom_my_new" / "__init__.py").read_text()
    for file in made.rglob("*"):
        assert "$" not in file.name
        assert not file.is_file() or "$" not in file.read_text(), f"{file} has a placeholder left"


@pytest.mark.parametrize("name", ["", "My", "1x", "a b", "../x", "x/y", "x-", "a--b", "ü", "x" * 41, "transom-"])
def test_a_name_that_no_package_may_have_is_refused(tmp_path, name):
    with pytest.raises(TransomError, match="lower-case") as caught:
        Scaffold(kind="tool", name=name).write(tmp_path)
    assert caught.value.code == "invalid_argument"
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over(transom, tmp_path):
    assert transom("plugins", "new", "tool", "weather", "--dir", str(tmp_path)).exit_code == 0
    result = transom("plugins", "new", "tool", "weather", "--dir", str(tmp_path))
    assert result.exit_code == 2
    assert "is there already" in result.stderr


def test_what_to_do_next_is_told(transom, tmp_path):
    result = transom("plugins", "new", "door", "slack", "--dir", str(tmp_path))
    assert "transom_slack/routes.py" in result.stdout
    assert f"cd {tmp_path}/transom-slack" in result.stdout
    assert transom("plugins", "new", "spaceship", "x").exit_code == 2


def test_a_folder_that_cannot_be_written_is_a_plain_error(transom, tmp_path):
    (tmp_path / "file").write_text("")
    result = transom("plugins", "new", "tool", "x", "--dir", str(tmp_path / "file"))
    assert result.exit_code != 0
    assert "Traceback" not in result.output
    assert "Error:" in result.stderr
