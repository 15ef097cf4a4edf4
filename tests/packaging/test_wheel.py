"""The wheel holds the packages of three folders and nothing else, and its entry points are those of pyproject.toml."""

import tomllib
from configparser import ConfigParser
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

import pytest

REPOSITORY = Path(__file__).parents[2]
PARTS = ("kernel", "hookspecs", "plugins")
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def packages() -> list[Path]:
    """The packages that stand directly in the three folders."""
    return [path.parent for part in PARTS for path in (REPOSITORY / part).glob("*/__init__.py")]


@pytest.fixture(scope="module")
def names(wheel) -> set[str]:
    with ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def test_it_holds_every_file_of_the_packages_and_no_other(names):
    expected = {
        str(file.relative_to(package.parent))
        for package in packages()
        for file in package.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {name for name in names if ".dist-info/" not in name} == expected


def test_what_is_read_at_run_time_is_in_it(names):
    assert "transom_demo/bundle/agents/echo.yaml" in names
    assert "transom_cli/templates/pyproject.toml.txt" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_every_package_says_that_it_is_typed(names):
    untyped = sorted(package.name for package in packages() if f"{package.name}/py.typed" not in names)
    assert untyped == [], f"touch py.typed in {', '.join(untyped)}"


def test_the_three_folders_hold_packages_of_ours_only():
    strangers = [
        path
        for part in PARTS
        for path in (REPOSITORY / part).iterdir()
        if path.name != "__pycache__" and not ((path / "__init__.py").is_file() and path.name.startswith("transom"))
    ]
    assert strangers == []


@pytest.mark.req("KERN-2")
def test_its_entry_points_are_those_of_the_project(wheel):
    with ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/entry_points.txt")]
        found = ConfigParser(delimiters=("=",))
        found.optionxform = str
        found.read_string(archive.read(name).decode())
    expected = {**PROJECT["entry-points"], "console_scripts": PROJECT["scripts"]}
    assert {section: dict(found[section]) for section in found.sections()} == expected


@pytest.mark.req("KERN-2")
def test_what_is_installed_here_has_the_projects_entry_points():
    for group, entries in PROJECT["entry-points"].items():
        found = {entry.name: entry.value for entry in distribution("transom").entry_points if entry.group == group}
        assert found == entries, "pyproject.toml has changed since: pip install -e . again"


@pytest.mark.req("KERN-2")
def test_every_plugin_of_the_repository_is_registered_by_an_entry_point():
    registered = {value.partition(":")[0] for value in PROJECT["entry-points"]["transom"].values()}
    assert registered == {path.parent.name for path in (REPOSITORY / "plugins").glob("*/__init__.py")}
