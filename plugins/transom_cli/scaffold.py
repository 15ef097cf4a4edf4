"""A new plugin's files, from the templates beside this module."""

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from string import Template

import msgspec

from transom_hookspecs import TransomError

KINDS: Mapping[str, str] = {
    "agent": "an agent written in Python",
    "door": "a way in: HTTP routes",
    "filter": "words that are masked before anything is recorded",
    "model": "a language model",
    "policy": "a say in which calls are made",
    "tool": "functions that agents call",
}
"""Each kind, and what a plugin of it brings."""

_MODULES: Mapping[str, Sequence[str]] = {"door": ("routes",)}
"""The modules of a kind's package beside its `__init__`."""

_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*\Z")


class Scaffold(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin to begin.

    Parameters:
        kind: one of `KINDS`.
        name: lower-case letters and digits, joined by `-` or `_`; `transom-` before it is taken as understood.
    """

    kind: str
    name: str

    def files(self) -> dict[str, str]:
        """The files, by their path in the new folder.

        Raises:
            TransomError: invalid_argument when the name is no good one.
        """
        words = self._words()
        package = words["package"]
        templates = {
            "pyproject.toml": "pyproject.toml.txt",
            "README.md": "README.md.txt",
            f"{package}/__init__.py": f"{self.kind}.py.txt",
            f"tests/test_{words['name']}.py": f"test_{self.kind}.py.txt",
            **{f"{package}/{each}.py": f"{self.kind}_{each}.py.txt" for each in _MODULES.get(self.kind, ())},
        }
        made = {path: _fill(template, words) for path, template in templates.items()}
        return {**made, f"{package}/py.typed": ""}

    def write(self, folder: Path) -> Path:
        """Write them into a new folder under `folder`, and return that.

        Raises:
            TransomError: invalid_argument for the name, already_exists when the folder is there,
                failed_precondition when it cannot be written.
        """
        files = self.files()
        top = folder / self._words()["distribution"]
        try:
            top.mkdir(parents=True)
            for path, text in files.items():
                (top / path).parent.mkdir(parents=True, exist_ok=True)
                (top / path).write_text(text, encoding="utf-8")
        except FileExistsError as error:
            raise TransomError("already_exists", f"{top} is there already; take another name, or --dir") from error
        except OSError as error:
            raise TransomError("failed_precondition", f"{top} cannot be written: {error.strerror}") from error
        return top

    def _words(self) -> dict[str, str]:
        """What the templates' placeholders stand for."""
        name = self.name.removeprefix("transom-").removeprefix("transom_")
        if not _NAME.match(name) or len(name) > 40:
            raise TransomError(
                "invalid_argument",
                f"name {self.name!r}: it needs 1 to 40 lower-case letters and digits, joined by - or _, as `my-tool`",
            )
        name = name.replace("-", "_")
        return {
            "name": name,
            "brings": KINDS[self.kind],
            "distribution": f"transom-{name.replace('_', '-')}",
            "package": f"transom_{name}",
            "klass": "".join(word.capitalize() for word in name.split("_")) + "Plugin",
        }


def _fill(template: str, words: Mapping[str, str]) -> str:
    text = resources.files(__package__).joinpath("templates", template).read_text(encoding="utf-8")
    return Template(text).substitute(words)
