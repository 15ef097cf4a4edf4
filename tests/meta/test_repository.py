"""The repository stands alone, and stays small enough to read."""

import ast
import re
from pathlib import Path

import pytest

TOP = {
    *(".ci", ".gitignore", "CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml"),
    *("contrib", "docs", "examples", "hookspecs", "kernel", "plugins", "tests"),
}

LINES, STATEMENT_LINES = 400, 60
"""How long a file and a function may be."""

LONG_FILES = {
    "hookspecs/transom_hookspecs/__init__.py": (450, "nothing but names, each once imported and once exported"),
    "docs/reference/make.py": (450, "one command, each part of the reference a short function"),
    "tests/cli/cli_fakes.py": (450, "stand-ins of one small server"),
}
"""Longer files: how long, and why. This list may only get shorter."""

LONG_FUNCTIONS: dict[str, tuple[int, str]] = {}
"""Longer functions: how long, and why. This list may only get shorter."""

FORBIDDEN = re.compile(
    r"/[w]ork/|/[r]oot/|\.\./[s]hared|[D]ESIGN\.md|[S]TYLE\.md|[r]equirements\.md|[f]ield-cases"
    r"|[p]ypi\.org|[p]ythonhosted\.org|[n]pmjs\.(?:com|org)|[p]roxy\.golang\.org|[c]rates\.io"
)
"""Places on one machine, papers that are not here, and hosts of registries; written so that it does not match itself."""

MENTIONED = {"plugins/transom_cli/templates/README.md.txt": "a new plugin's README links to Transom's page"}
"""Files that may mention one. This list may only get shorter."""

REQUIREMENT = re.compile(r"\b(?:A2A|AGUI|FEED|IDN|KERN|MCP|OUT|REST|RT|RTN|RUNS|SDK)-[0-9]+\b")
MARKER = re.compile(r"mark\.req\([^)]*\)|(?://|#) req: .*")

BINARY = {".gguf", ".gif", ".ico", ".jpg", ".pdf", ".png", ".webp", ".woff2"}


def texts(repository) -> dict[str, str]:
    """Every text file."""
    return {
        repository.name(path): path.read_text(encoding="utf-8", errors="replace")
        for path in repository.files()
        if path.suffix not in BINARY
    }


def test_the_top_level_is_what_one_expects(repository):
    assert repository.top() == TOP


def test_nothing_mentions_what_is_not_in_the_repository(repository):
    found = {name for name, text in texts(repository).items() if FORBIDDEN.search(text)}
    assert found == set(MENTIONED)


def test_requirements_are_named_by_markers_of_tests_alone(repository):
    found = [name for name, text in texts(repository).items() if REQUIREMENT.search(MARKER.sub("", text))]
    assert found == []


def test_nothing_is_left_to_do(repository):
    """A note to oneself belongs where work is planned."""
    note = re.compile(r"(?:#|//)\s*(?:[T]ODO|[F]IXME|[X]XX|[H]ACK)\b")
    assert [name for name, text in texts(repository).items() if note.search(text)] == []


def modules(repository) -> list[Path]:
    return repository.files("kernel", "hookspecs", "plugins", "contrib", "examples", "tests", "docs", suffix=".py")


def check(sizes: dict[str, int], most: int, allowed: dict[str, tuple[int, str]]) -> None:
    """Nothing is longer than allowed, and nothing is on the list that need not be."""
    long = {name: size for name, size in sizes.items() if size > most}
    assert {name: size for name, size in long.items() if size > allowed.get(name, (most, ""))[0]} == {}
    assert set(allowed) - set(long) == set(), "take these off the list"


def test_a_file_is_short_enough_to_read(repository):
    sizes = {repository.name(path): path.read_text(encoding="utf-8").count("\n") for path in modules(repository)}
    check(sizes, LINES, LONG_FILES)


def test_a_function_is_short_enough_to_read(repository):
    sizes = {
        f"{repository.name(path)}:{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in modules(repository)
        for node in ast.walk(repository.tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    check(sizes, STATEMENT_LINES, LONG_FUNCTIONS)


@pytest.mark.parametrize("name", ["README.md", "LICENSE", "CHANGELOG.md"])
def test_what_a_reader_looks_for_is_there(repository, name):
    assert (repository.root / name).stat().st_size > 0
