"""Pages and their fenced blocks: what the documentation says, as data.

The first word of a fence is its language; the others say what the tests do with it (`KINDS`).
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

ROOT = Path(__file__).parent.parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

KINDS: dict[str, frozenset[str]] = {
    "console": frozenset({"", "tty", "install", "model"}),
    "python": frozenset({"", "file"}),
    "yaml": frozenset({"file"}),
    "javascript": frozenset({"file"}),
    "toml": frozenset({"file", "config", "part"}),
    "text": frozenset({"", "output"}),
}
"""What a block of each language may be; anything else is a block that no test would look at.

console           commands after `$ `, run in a shell of the page, and what they print
console tty       the same at a terminal, with what is typed after a prompt
console install   commands that fetch packages: not run, but what they name must exist
python            a program, run in the page's folder
text output       what the program before it prints
console model     as console, where the local model is installed
toml config       settings that the installed plugins must take
toml part         settings about plugins that are not installed here: they must be what the kernel takes
… file=PATH       written into the page's folder, for the blocks after it
text              for people alone: a tree of files, or what a generator wrote
"""

_FENCE = re.compile(r"^```([a-z]*)([^\n`]*)\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|<img[^>]+src=\"([^\"]+)\"")


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A fenced block. `kind`: the word after the language, or `file` when it names one; `path`: that file."""

    page: Path
    line: int
    language: str
    kind: str
    path: str
    exit: int
    text: str

    @property
    def where(self) -> str:
        """The place, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def known(self) -> bool:
        """Whether the tests know what to do with it."""
        return self.kind in KINDS.get(self.language, ())


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [_block(page, text, match) for match in _FENCE.finditer(text)]


def _block(page: Path, text: str, match: re.Match[str]) -> Block:
    words = match[2].split()
    named = dict(word.split("=", 1) for word in words if "=" in word)
    path = named.get("file", "")
    flags = [word for word in words if "=" not in word]
    return Block(
        page=page,
        line=text.count("\n", 0, match.start()) + 1,
        language=match[1],
        kind=" ".join(flags) or ("file" if path else ""),
        path=path,
        exit=int(named.get("exit", "0")),
        text=match[3],
    )


def prose_of(page: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def links_of(page: Path) -> Iterator[str]:
    """What a page links to and shows."""
    for match in _LINK.finditer(prose_of(page)):
        yield match[1] or match[2]


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    return {anchor(heading) for heading in _HEADING.findall(prose_of(page))}


def anchor(heading: str) -> str:
    """A heading's anchor."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def section_of(page: Path, heading: str) -> str:
    """The text under a heading, up to the next one of its level or above."""
    text = page.read_text(encoding="utf-8")
    found = re.search(rf"^(#+) +{re.escape(heading)}\s*$(.*?)(?=^#{{1,6}} |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page.name} has no heading {heading!r}"
    return found[2]
