"""YAML as declared things are written in it: one document, read so that values keep their author's meaning.

A value is text unless it can be read in one way only. `true` and `false` are booleans; `null`, `~` and nothing are
null; `12`, `-0.5` and `1.5e3` are numbers. `NO`, `on`, `22:30`, `0755`, `012`, `+49`, `1_000`, `2026-03-01`, `12e3` and
a number that 64 bits cannot hold stay the text that they are. A plain `1.10` is the number 1.1: a version goes in quotes.

PyYAML parses (with libyaml, which is linear in the text) and this module makes JSON of the parser's events, so that no
tag ever constructs anything. Its caller is the catalog.
"""

import re
from collections.abc import Iterator
from copy import deepcopy
from math import isfinite
from typing import Final, NoReturn

import msgspec
import yaml

from transom_hookspecs import Json, JsonObject, TransomError

MAX_BYTES: Final = 1 << 20
"""How large a document may be, and how much its aliases may stand for."""

MAX_DEPTH: Final = 64
"""How many lists and mappings may stand inside each other."""

_PARSER: type[yaml.CSafeLoader | yaml.SafeLoader] = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_INT = re.compile(r"-?(?:0|[1-9][0-9]{0,18})\Z")
_FLOAT = re.compile(r"-?(?:(?:0|[1-9][0-9]*)?\.[0-9]+(?:[eE][-+]?[0-9]+)?|(?:0|[1-9][0-9]*)[eE][-+][0-9]+)\Z")
_WORDS: Final[dict[str, bool | None]] = {"": None, "~": None, "null": None, "true": True, "false": False}
_UNREADABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_TAB = re.compile(r"#[^\n]*|(\t)[ \t]*(?!\s|#|\Z)")  # a comment, or a tab that something follows
_TEXT_TAGS: Final = (None, "!", "tag:yaml.org,2002:str")
_COLLECTION_TAGS: Final = (None, "!", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map")
_BEGINNING: Final = (1, 1)

_FAULTS: Final = (  # what the parser's message has in it, what is wrong, what to do
    (
        "mapping values are not allowed",
        "a `:` where no key can stand",
        "put text with `: ` in it in quotes, or mend the indentation",
    ),
    ("tab character", "a tab in the indentation", "indent with spaces"),
    ("end of stream", "the quote that opens {where} is not closed", "close it"),
    ("']'", "the list that opens {where} is not closed", "add the missing `,` or `]`"),
    ("'}}'", "the mapping that opens {where} is not closed", "add the missing `,` or `}}`"),
    ("escape", "an escape that YAML does not know", "double the backslash, or use single quotes"),
    ("alphabetic or numeric", "`*` or `&` without a name", "put the text in quotes"),
    ("expected key", "this line does not fit the mapping that opens {where}", "indent it as the keys above"),
    ("block end", "this line does not fit what opens {where}", "indent it as the lines above"),
    ("'-' indicator", "this line does not fit the list that opens {where}", "begin it with `- `, or indent it"),
    ("expected ':'", "a key without its `:`", "write `key: value`, or put a text of several lines in quotes"),
    ("cannot start any token", "a value cannot begin with `{char}`", "put it in quotes"),
    ("document start", "text after the document's end", "leave one document in the file"),
)


def load(text: str | bytes, path: str) -> JsonObject:
    """The one mapping that a YAML text holds, as JSON.

    Parameters:
        text: UTF-8, with or without a byte order mark; at most `MAX_BYTES`.
        path: the file's name, for messages.

    Raises:
        TransomError: invalid_argument; one line, "path:line:column: what is wrong; what to do". The place is in its
            details too (`path`, `line`, `column`).
    """
    source = _Source(path, text)
    try:
        value = _Reader(source).read()
    except yaml.MarkedYAMLError as error:
        source.refuse_fault(error)
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # PyYAML's own parser lets some of int() and chr() out
        source.refuse(
            _BEGINNING, f"the text cannot be read ({' '.join(str(error).split())})", "mend its escapes and directives"
        )
    if not isinstance(value, dict):
        source.refuse(_BEGINNING, "the document is no mapping", "write it as `key: value` lines")
    return value


class _Source:
    """The text, and errors that point into it."""

    def __init__(self, path: str, text: str | bytes) -> None:
        self.path = path
        raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        if len(raw) > MAX_BYTES:
            self.refuse(_BEGINNING, f"its {len(raw):,} bytes are over the limit of {MAX_BYTES:,}", "split the file")
        try:
            self.text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            before = raw[: error.start].decode("utf-8", "replace")
            self.refuse(_end_of(before), f"the byte 0x{raw[error.start]:02x} is no UTF-8", "save the file as UTF-8")
        if bad := _UNREADABLE.search(self.text):
            self.refuse(_end_of(self.text[: bad.start()]), f"the character U+{ord(bad[0]):04X} is not allowed", "remove it")

    def events(self) -> Iterator[yaml.Event]:
        """The parser's events; a tab between values is refused (people cannot see it, and parsers differ on it)."""
        end = len(self.text) if "\t" not in self.text else 0
        for event in yaml.parse(self.text, Loader=_PARSER):
            assert event.start_mark is not None
            assert event.end_mark is not None
            for found in _TAB.finditer(self.text, end, event.start_mark.index + 1):
                if found[1]:
                    self.refuse(_end_of(self.text[: found.start(1)]), "a tab between values", "use spaces")
            end = max(end, event.end_mark.index)
            yield event

    def refuse_fault(self, error: yaml.MarkedYAMLError) -> NoReturn:
        """Say in our words what the parser stopped at."""
        mark, opened = error.problem_mark, error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else _BEGINNING
        char = self.text[mark.index : mark.index + 1] if mark else ""
        said = "tab character" if char == "\t" else str(error.problem)
        words = {"char": char, "where": f"in line {opened.line + 1}" if opened else "before it"}
        for sign, problem, remedy in _FAULTS:
            if sign.format() in said:
                self.refuse(place, problem.format(**words), remedy.format(**words))
        self.refuse(place, said, "mend the indentation or the quotes here")

    def refuse(self, place: tuple[int, int], problem: str, remedy: str) -> NoReturn:
        """Raise the one error there is, about a line and column (from 1)."""
        line, column = place
        details: JsonObject = {"path": self.path, "line": line, "column": column}
        raise TransomError("invalid_argument", f"{self.path}:{line}:{column}: {problem}; {remedy}", details)


class _Anchored(msgspec.Struct, frozen=True):
    """A value that aliases stand for: about how many bytes of JSON it is, and how many levels."""

    value: Json
    size: int
    levels: int


class _Open(msgspec.Struct, kw_only=True):
    """A list or mapping that is not closed yet.

    Parameters:
        key: the key whose value comes next; None in a list, and before a key.
        lines: the line of each key so far, from 1.
        merged: the mappings of its `<<`.
    """

    value: list[Json] | JsonObject
    anchor: str | None
    size: int = 2
    levels: int = 1
    key: str | None = None
    merging: bool = False
    lines: dict[str, int] = {}
    merged: list[JsonObject] = []

    @property
    def wants_key(self) -> bool:
        """Whether a key comes next."""
        return isinstance(self.value, dict) and self.key is None

    def closed(self) -> Json:
        """The whole value: a mapping's own keys win over merged ones, and the first merged over the next."""
        if isinstance(self.value, list) or not self.merged:
            return self.value
        return {key: value for part in (*reversed(self.merged), self.value) for key, value in part.items()}


class _Reader:
    """One pass over a document's events."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored] = {}
        self._aliased = 0
        self._documents = 0
        self._root: Json = None
        self._event = yaml.Event()

    def read(self) -> Json:
        """The document's value; None when there is none."""
        for any_event in self._source.events():
            self._event = any_event
            match any_event:
                case yaml.ScalarEvent() as event:
                    self._scalar(event)
                case yaml.AliasEvent() as event:
                    self._alias(event.anchor or "")
                case yaml.MappingStartEvent() as event:
                    self._begin(event, {})
                case yaml.SequenceStartEvent() as event:
                    self._begin(event, [])
                case yaml.CollectionEndEvent():
                    done = self._open.pop()
                    self._add(_Anchored(done.closed(), done.size, done.levels), done.anchor)
                case yaml.DocumentStartEvent():
                    self._documents += 1
                    if self._documents > 1:
                        self._refuse("a second document begins", "leave one document in the file")
        return self._root

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        text = event.value
        if event.tag not in _TEXT_TAGS:
            self._refuse_tag(event.tag)
        if _UNSTORABLE.search(text):
            self._refuse("an escape stands for NUL or half a character", "remove it")
        value = text if event.style or event.tag else _plain(text)
        done = _Anchored(value, 2 + len(text), 0)
        if not (self._open and self._open[-1].wants_key):
            self._add(done, event.anchor)
            return
        self._key(self._open[-1], text, value, merging=text == "<<" and not event.style)
        if event.anchor:
            self._anchors[event.anchor] = done

    def _key(self, inside: _Open, text: str, value: Json, *, merging: bool) -> None:
        if not isinstance(value, str):
            self._refuse(f"the key `{text}` is no text", f'write it as "{text}"' if text else "write one before the `:`")
        if text in inside.lines:
            remedy = "merge several as `<<: [*a, *b]`" if merging else "remove one of the two"
            self._refuse(f"the key {_short(text)} stands in line {inside.lines[text]} already", remedy)
        inside.key, inside.merging, inside.lines[text] = text, merging, self._place()[0]
        inside.size += 2 + len(text)

    def _alias(self, name: str) -> None:
        if any(inside.anchor == name for inside in self._open):
            self._refuse(f"`*{name}` stands inside what it means", "write the value out")
        if name not in self._anchors:
            self._refuse(f"`*{name}` means nothing yet", f"mark a value above it with `&{name}`, or put the text in quotes")
        if self._open and self._open[-1].wants_key:
            self._refuse("an alias as a key", "write the key out")
        meant = self._anchors[name]
        self._aliased += meant.size
        if self._aliased > MAX_BYTES:
            self._refuse(f"the aliases stand for more than {MAX_BYTES:,} bytes", "use fewer of them")
        self._check_depth(meant.levels)
        self._add(_Anchored(deepcopy(meant.value), meant.size, meant.levels), None)

    def _begin(self, event: yaml.CollectionStartEvent, empty: list[Json] | JsonObject) -> None:
        if event.tag not in _COLLECTION_TAGS:
            self._refuse_tag(event.tag)
        if self._open and self._open[-1].wants_key:
            self._refuse("a list or mapping as a key", "put a text that begins with `[` or `{` in quotes")
        self._check_depth(1)
        self._open.append(_Open(value=empty, anchor=event.anchor))

    def _add(self, done: _Anchored, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = done
        if not self._open:
            self._root = done.value
            return
        inside = self._open[-1]
        inside.size += done.size
        inside.levels = max(inside.levels, done.levels + 1)
        if isinstance(inside.value, list):
            inside.value.append(done.value)
        elif inside.merging:
            inside.merged += self._mappings(done.value)
        else:
            inside.value[inside.key or ""] = done.value
        inside.key = None

    def _mappings(self, value: Json) -> list[JsonObject]:
        parts = value if isinstance(value, list) else [value]
        mappings = [part for part in parts if isinstance(part, dict)]
        if len(mappings) < len(parts):
            self._refuse("`<<` merges something that is no mapping", "write `<<: *name`, or `<<: [*a, *b]`")
        return mappings

    def _check_depth(self, more: int) -> None:
        if len(self._open) + more > MAX_DEPTH:
            self._refuse(f"lists and mappings stand deeper than {MAX_DEPTH} levels", "make it flatter")

    def _place(self) -> tuple[int, int]:
        mark = self._event.start_mark
        return (mark.line + 1, mark.column + 1) if mark else _BEGINNING

    def _refuse_tag(self, tag: str | None) -> NoReturn:
        self._refuse(f"the tag {_short(tag or '')} means nothing here", "remove it; text goes in quotes")

    def _refuse(self, problem: str, remedy: str) -> NoReturn:
        self._source.refuse(self._place(), problem, remedy)


def _end_of(text: str) -> tuple[int, int]:
    """The line and column (from 1) of what follows a text."""
    return text.count("\n") + 1, len(text) - text.rfind("\n")


def _plain(text: str) -> Json:
    """What a scalar without quotes means."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.match(text):
        number = int(text)
        return number if -(1 << 63) <= number < 1 << 63 else text
    if _FLOAT.match(text):
        decimal = float(text)
        return decimal if isfinite(decimal) else text
    return text


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")
