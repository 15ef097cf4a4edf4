"""A text as those read it who decode it: with JSON's escapes or percent-encoding undone.

A view is made of units: a unit is what one character is written as. Its characters are found again in the text that it
was made of, so that what matches in a view can be cut out there.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final

_HEX: Final = "[0-9A-Fa-f]"
_NEXT: Final = "%[89ABab]" + _HEX
_PERCENT: Final = rf"%[0-7]{_HEX}|%[CDcd]{_HEX}{_NEXT}|%[Ee]{_HEX}(?:{_NEXT}){{2}}|%[Ff][0-7](?:{_NEXT}){{3}}"
_BEGUN: Final = rf"(?:%{_HEX}?|%[CDEFcdef]{_HEX}(?:{_NEXT}){{0,2}}(?:%[89ABab]?)?)\Z"
_JSON: Final = rf'\\u[Dd][89ABab]{_HEX}{{2}}\\u[Dd][C-Fc-f]{_HEX}{{2}}|\\u{_HEX}{{4}}|\\["\\/bfnrt]'
_JSON_BEGUN: Final = rf"\\(?:u{_HEX}{{0,3}})?\Z|\\u[Dd][89ABab]{_HEX}{{2}}(?:\\(?:u(?:[Dd](?:[C-Fc-f]{_HEX}?)?)?)?)?\Z"
_RUN: Final = r"\\{1,16}"
_DEEP: Final = rf'{_RUN}u[Dd][89ABab]{_HEX}{{2}}{_RUN}u[Dd][C-Fc-f]{_HEX}{{2}}|{_RUN}u{_HEX}{{4}}|{_RUN}["/bfnrt]|\\{{2,16}}'
_DEEP_BEGUN: Final = (
    rf"{_RUN}(?:u{_HEX}{{0,3}})?\Z|{_RUN}u[Dd][89ABab]{_HEX}{{2}}(?:{_RUN}(?:u(?:[Dd](?:[C-Fc-f]{_HEX}?)?)?)?)?\Z"
)
_SHORT: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class View:
    """A text with one kind of encoding undone.

    Parameters:
        text: what it reads as.
        places: where its decoded characters stand in it.
        units: from where to where each of those is written in the source.
        begun: where in the source a unit begins whose end is still to come; the source's length when none does.
    """

    __slots__ = ("_ahead", "_places", "_units", "begun", "text")

    def __init__(self, text: str, places: list[int], units: list[tuple[int, int]], begun: int) -> None:
        self.text, self.begun = text, begun
        self._places, self._units = places, units
        self._ahead: tuple[int, int, str] | None = (-1, -1, "")

    def next(self, source: int, search: Callable[[str, int], tuple[int, int, str] | None]) -> tuple[int, int, str] | None:
        """What is found first from a place of the source on: from where to where in the source, and what it is.

        Parameters:
            source: not before the one that was asked for last.
            search: gives the same for a text and a place in it.
        """
        if self._ahead is not None and self._ahead[0] < source:
            found = search(self.text, self.place(source))
            self._ahead = (self.start(found[0]), self.start(found[1]), found[2]) if found else None
        return self._ahead

    def place(self, source: int) -> int:
        """Where in the text it reads what begins at a place of the source."""
        number = bisect_right(self._units, (source,)) - 1
        return source if number < 0 else self._places[number] + 1 + source - self._units[number][1]

    def start(self, place: int) -> int:
        """Where in the source the character at a place begins; at the text's end, where more of it would."""
        number = bisect_right(self._places, place) - 1
        if number < 0:
            return place
        start, end = self._units[number]
        behind = place - self._places[number]
        return start if behind == 0 else end + behind - 1

    def whole(self, source: int) -> int:
        """A place of the source, or the beginning of the unit that it is inside of."""
        if source > self.begun:
            return self.begun
        number = bisect_right(self._units, (source,)) - 1
        if number >= 0 and self._units[number][0] < source < self._units[number][1]:
            return self._units[number][0]
        return source


class Encoding:
    """One way of writing characters.

    Parameters:
        mark: a text without it reads as it stands.
        complete, begun: expressions for a whole unit, and for one whose end is still to come.
        character: what a unit stands for.
    """

    def __init__(self, mark: str, complete: str, begun: str, character: Callable[[str], str]) -> None:
        self._mark = re.compile(mark)
        self._units = re.compile(f"({begun})|{complete}")
        self._whole = re.compile(complete)
        self._character = character

    def view(self, source: str, *, final: bool) -> View | None:
        """How a text reads; None when it is just as it stands.

        Parameters:
            final: there is no more of it, so that a unit that has only begun is none.
        """
        if self._mark.search(source) is None:
            return None
        parts: list[str] = []
        places: list[int] = []
        units: list[tuple[int, int]] = []
        done, length, begun = 0, 0, len(source)
        for found in self._found(source, final=final):
            if not final and found[1] is not None:
                begun = found.start()
                break
            between = source[done : found.start()]
            places.append(length + len(between))
            units.append(found.span())
            parts += (between, self._character(found[0]))
            length, done = length + len(between) + 1, found.end()
        parts.append(source[done:begun])
        return View("".join(parts), places, units, begun)

    def _found(self, source: str, *, final: bool) -> Iterator[re.Match[str]]:
        return (self._whole if final else self._units).finditer(source)


def _deeply_unescaped(unit: str) -> str:
    return _unescaped(re.sub(r"\\+", r"\\", unit)) if unit.strip("\\") else "\\"


def _unescaped(unit: str) -> str:
    if unit[1] != "u":
        return _SHORT.get(unit[1], unit[1])
    if len(unit) == 6:
        return chr(int(unit[-4:], 16))
    return (bytes.fromhex(unit[2:6]) + bytes.fromhex(unit[8:])).decode("utf-16-be")


def _unquoted(unit: str) -> str:
    if unit == "+":
        return " "
    read = bytes.fromhex(unit.replace("%", "")).decode("utf-8", "replace")
    return read if len(read) == 1 else "�"


JSON: Final = Encoding(r"\\", _JSON, _JSON_BEGUN, _unescaped)
DEEP: Final = Encoding(r"\\\\", _DEEP, _DEEP_BEGUN, _deeply_unescaped)
"""As `JSON`, in texts of JSON in JSON, whose escapes are escaped themselves."""

URL: Final = Encoding("%", _PERCENT, _BEGUN, _unquoted)
FORM: Final = Encoding(r"[%+]", rf"\+|{_PERCENT}", _BEGUN, _unquoted)
"""As `URL`, with `+` for a space."""
