"""Finding secrets in texts that come in pieces: as they are, escaped, percent-encoded, or inside of base64.

What each value may look like is one literal or a few (`forms`); they are looked for in the text and in its views. A
stream lets go of a text as far as nothing in it can become one of them any more.
"""

import re
from base64 import b64encode
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from .views import DEEP, FORM, JSON, URL, View

SHORTEST: Final = 8
"""Values of fewer characters are not looked for: they stand in too many texts by chance."""

_SLICE: Final = 4_096
_LONG: Final = 256
"""Longer forms are looked for one by one: they are few, and an expression of them takes long to make."""

_SHARED: Final = 3
"""How many first characters the forms share a branch of the expression by, so that most texts fail at once."""


def looked_for(value: str) -> str:
    """What of a value is looked for: white space around it (a file's last line break) is left to stand; else nothing."""
    return next((text for text in (value.strip(), value) if len(text) >= SHORTEST), "")


def forms(value: str) -> set[str]:
    """What a value's own characters may be written as: themselves, and the characters of base64 that it alone decides.

    Its bytes may begin at each third of a group; the characters at both ends that it shares with what is around it
    are left out, but for a value that is all of what was encoded.
    """
    made = {value}
    data = value.encode()
    for before in range(3):
        encoded = b64encode(bytes(before) + data).decode()
        shared = (0, 2, 3)[before]
        decided = (before + len(data)) * 8 // 6
        made.add(encoded[shared:decided])
    made.add(b64encode(data).decode())
    return made | {text.translate(_URLSAFE) for text in made - {value}}


_URLSAFE: Final = str.maketrans("+/", "-_")


class Matcher:
    """Looks for values.

    Parameters:
        values: by the names that stand in their place.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        wanted = {name: text for name, value in sorted(values.items()) if (text := looked_for(value))}
        masks = {name: _mask(name, wanted.values()) for name in wanted}
        self._masks = {form: masks[name] for name, value in reversed(wanted.items()) for form in forms(value)}
        self._sorted = sorted(self._masks)
        self._longest = max(map(len, self._sorted), default=0)
        self._whole = re.compile(_alternatives([form for form in self._sorted if len(form) <= _LONG], 0))
        self._long = [form for form in self._sorted if len(form) > _LONG]
        self._first = re.compile(_beginnings(self._sorted))
        spaced = any(" " in form for form in self._sorted)
        self._encodings = (JSON, DEEP, URL, *([FORM] if spaced else []))

    def __bool__(self) -> bool:
        return bool(self._masks)

    def stream(self) -> "Stream":
        """A text that is to come."""
        return Stream(self)

    def redacted(self, text: str) -> str:
        """A whole text without the values."""
        stream = self.stream()
        return stream.feed(text) + stream.end()

    def views(self, text: str, *, final: bool) -> list[View]:
        """The text, and what else it reads as."""
        as_it_stands = View(text, [], [], len(text))
        return [as_it_stands, *(view for each in self._encodings if (view := each.view(text, final=final)) is not None)]

    def found(self, views: Sequence[View], done: int) -> tuple[int, int, str] | None:
        """The first value from a place of the source on, the longest of those that begin there; what stands for it."""
        every = [found for view in views if (found := view.next(done, self._search)) is not None]
        return min(every, key=lambda found: (found[0], -found[1]), default=None)

    def _search(self, text: str, place: int) -> tuple[int, int, str] | None:
        match = self._whole.search(text, place)
        every = [match.span()] if match else []
        every += [(at, at + len(form)) for form in self._long if (at := text.find(form, place)) >= 0]
        if not every:
            return None
        start, end = min(every, key=lambda span: (span[0], -span[1]))
        return start, end, self._masks[text[start:end]]

    def begun(self, views: Sequence[View], done: int) -> int:
        """Where in the source, from a place on, the first thing begins that may still become a value."""
        place = min(self._begun(view, done) for view in views)
        while (earlier := min(view.whole(place) for view in views)) < place:
            place = earlier
        return place

    def _begun(self, view: View, done: int) -> int:
        text = view.text
        for at in self._first.finditer(text, max(view.place(done), len(text) - self._longest + 1)):
            if self._begins(text[at.start() :]):
                return view.start(at.start())
        return view.begun

    def _begins(self, text: str) -> bool:
        """Whether something that is looked for begins with a text and is longer."""
        place = bisect_left(self._sorted, text)
        if place < len(self._sorted) and self._sorted[place] == text:
            place += 1
        return place < len(self._sorted) and self._sorted[place].startswith(text)


class Stream:
    """One text on its way: a TextFilter."""

    __slots__ = ("_held", "_matcher")

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._held = ""

    def feed(self, text: str) -> str:
        """More of the text; returns what may pass by now."""
        return "".join([self._passed(text[at : at + _SLICE], final=False) for at in range(0, len(text), _SLICE)])

    def end(self) -> str:
        """The text is whole; returns the rest."""
        return self._passed("", final=True)

    def _passed(self, text: str, *, final: bool) -> str:
        matcher, text = self._matcher, self._held + text
        out: list[str] = []
        views, done = matcher.views(text, final=final), 0
        stop = len(text) if final else matcher.begun(views, 0)
        while (found := matcher.found(views, done)) is not None and found[0] < stop:
            out += (text[done : found[0]], found[2])
            done = found[1]
            if any(view.whole(done) != done for view in views):  # inside of what another view reads as one character
                text, done = text[done:], 0
                views = matcher.views(text, final=final)
                stop = 0
            if done >= stop:
                stop = len(text) if final else matcher.begun(views, done)
        self._held = text[stop:]
        return "".join([*out, text[done:stop]])


def _mask(name: str, values: Iterable[str]) -> str:
    """What stands in a value's place; it must not have a value in it itself."""
    masks = (f"[secret {name}]", "[secret]", "[withheld]")
    values = list(values)
    return next((mask for mask in masks if not any(value in mask for value in values)), "***")


def _alternatives(texts: Sequence[str], shared: int) -> str:
    """An expression for any of these, the longest first, in branches by their first characters.

    Parameters:
        shared: how many first characters are dealt with already.
    """
    if not texts:
        return r"(?!)"
    if shared == _SHARED or len(texts) == 1:
        rests = sorted((text[shared:] for text in texts), key=len, reverse=True)
        return "|".join(map(re.escape, rests))
    branches = _grouped(texts, shared)
    return "|".join(f"{re.escape(first)}(?:{_alternatives(group, shared + 1)})" for first, group in branches.items())


def _beginnings(texts: Sequence[str]) -> str:
    """An expression for places where one of these begins, as far as one sees by two characters."""
    if not texts:
        return r"(?!)"
    branches = []
    for first, group in _grouped(texts, 0).items():
        seconds = "".join(re.escape(second) for second in _grouped(group, 1))
        branches.append(rf"{re.escape(first)}(?=[{seconds}]|\Z)")
    return "|".join(branches)


def _grouped(texts: Sequence[str], place: int) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for text in texts:
        groups[text[place]].append(text)
    return groups
