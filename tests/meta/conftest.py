"""The repository as the tests of its rules see it."""

import ast
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


class Repository:
    """Its files, without what is ignored or made."""

    root = REPOSITORY

    def __init__(self) -> None:
        ignored = [line.strip("/") for line in (self.root / ".gitignore").read_text().split() if not line.startswith("#")]
        self._ignored = [*ignored, ".git"]
        self._trees: dict[Path, ast.Module] = {}

    def top(self) -> set[str]:
        """The names at the top."""
        return {path.name for path in self.root.iterdir() if not self._is_ignored(path.name)}

    def files(self, *parts: str, suffix: str = "") -> list[Path]:
        """Files below folders (or below the top), sorted."""
        found: list[Path] = []
        for part in parts or (".",):
            found += [path for path in self._below(self.root / part) if path.name.endswith(suffix)]
        return sorted(found)

    def _below(self, folder: Path) -> list[Path]:
        if not folder.is_dir():
            return []
        kept = [path for path in folder.iterdir() if not self._is_ignored(path.name)]
        return [each for path in kept for each in (self._below(path) if path.is_dir() else [path])]

    def _is_ignored(self, name: str) -> bool:
        return any(fnmatch(name, pattern) for pattern in self._ignored)

    def tree(self, path: Path) -> ast.Module:
        """A module's syntax."""
        if path not in self._trees:
            self._trees[path] = ast.parse(path.read_text(encoding="utf-8"))
        return self._trees[path]

    def name(self, path: Path) -> str:
        """A path as messages and lists have it."""
        return path.relative_to(self.root).as_posix()

    def packages(self, *parts: str) -> list[Path]:
        """The packages directly in folders."""
        return sorted(path.parent for part in parts for path in (self.root / part).glob("*/__init__.py"))


@pytest.fixture(scope="session")
def repository() -> Repository:
    return Repository()


@pytest.fixture(scope="session")
def in_a_clean_process():
    """Run Python with nothing but what is installed; returns what it prints."""
    import sys

    def run(program: str) -> str:
        done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
