"""The pages: links lead somewhere, nothing of a machine or of the making stands there, nothing planned is told as present."""

import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ElementTree

import pytest
from blocks import PAGES, ROOT, anchors_of, links_of, prose_of
from expected import Names
from shell import at_terminal, environment_of

ALL = [*PAGES, ROOT / "CHANGELOG.md"]
FORBIDDEN = re.compile(
    r"/work\b|/root\b|/home/|/Users/|/tmp/(?!try)|DESIGN\.md|STYLE\.md|requirements\.md|shared/spec"
    r"|\b(?:RT|KERN|AGUI|REST|IDN|FEED|RTN|OUT|MCP|RUNS|SDK)-\d+\b|\bTODO\b|\bFIXME\b|[Ii]ssue #?\d+"
)
PLANNED = re.compile(
    r"\bMCP\b|\bA2A\b|Connect(?! protocol)\b|\bTemporal\b|PostgreSQL"
    r"|[Rr]outines?\b|safe outputs?"
)
NOT_YET = re.compile(
    r"[Nn]ext\b|[Nn]ot there|not .*?\byet\b|none .*?\byet\b|nothing .*?\byet\b|no built-in|[Nn]ot used|part of the contract",
    re.DOTALL,
)


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_links_lead_somewhere(path):
    broken = []
    for link in links_of(path):
        if link.startswith("https://"):
            continue
        place, _, anchor = link.partition("#")
        target = (path.parent / place).resolve() if place else path
        inside = target.is_relative_to(ROOT) and target.exists()
        if not inside or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("path", ALL, ids=name_of)
def test_nothing_of_this_machine_or_of_the_making_stands_there(path):
    found = [match[0] for match in FORBIDDEN.finditer(path.read_text(encoding="utf-8"))]
    assert not found


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_what_is_planned_is_told_as_planned(path):
    """Each paragraph, list item or table row that names a planned part says so."""
    text = re.sub(r"<!-- made: .*?<!-- end -->", "", prose_of(path), flags=re.DOTALL)
    text = re.sub(r"^#+ .*$", "", text, flags=re.MULTILINE)
    for part in re.split(r"\n\n|\n(?=[-|] ?\S)|\n(?=\|)", text):
        if named := PLANNED.search(part):
            assert NOT_YET.search(part), f"{named[0]!r} in {part.strip()[:200]!r}"


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_files_of_the_code_that_are_named_exist(path):
    named = re.findall(r"`((?:kernel|hookspecs|plugins|tests|examples|docs|contrib)/[\w./-]*)`", prose_of(path))
    assert not [each for each in named if not (ROOT / each).exists()]


def test_every_page_is_in_the_list():
    listed = {(ROOT / "docs" / link.partition("#")[0]).resolve() for link in links_of(ROOT / "docs" / "README.md")}
    assert {page for page in PAGES if page.name != "README.md"} <= listed


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_the_changelog_has_this_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    text = (ROOT / "CHANGELOG.md").read_text()
    assert "## [Unreleased]" in text
    assert re.search(rf"^## \[?{re.escape(version)}\b", text, re.MULTILINE)


# -- pictures -------------------------------------------------------------------------------------------------------

PICTURES = sorted((ROOT / "docs" / "images").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_a_picture_stands_alone_and_says_what_it_shows(path):
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert {"title", "desc"} <= tags
    assert not tags & {"script", "image", "foreignObject", "a", "use"}
    assert "url(" not in path.read_text()


def test_the_recording_shows_what_the_command_prints_now(tmp_path):
    root = ElementTree.fromstring((ROOT / "docs" / "images" / "helper.svg").read_text(encoding="utf-8"))
    shown = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert shown[0] == '$ transom run helper "Please greet the team"'
    expected = "\n".join(shown[1:])
    page = tmp_path / "page"
    page.mkdir()
    printed, code = at_terminal(shown[0][2:], expected, page, environment_of(page))
    assert code == 0
    Names().check(expected, printed, "docs/images/helper.svg")


def test_install_lines_of_the_readme_are_those_that_work(tmp_path):
    """The first two lines that anybody types, taken literally: the project is there, and has what they name."""
    text = (ROOT / "README.md").read_text()
    assert 'pip install . && transom run helper "Please greet the team"' in text
    assert "pip install -e '.[test]' && pytest" in text
    done = subprocess.run(
        [sys.executable, "-m", "transom", "--version"], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] in done.stdout
