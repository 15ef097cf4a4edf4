"""JSON as servers really send it: read leniently, never with a mark of damage that the server did not send."""

import json
import math
from typing import cast

import msgspec

from transom_hookspecs import Json, JsonObject


def decode(raw: bytes) -> Json:
    """Read JSON; unpaired surrogate escapes are kept, since the other half may come with the next delta.

    Raises:
        ValueError: it is no JSON, holds a number that JSON has not, or is nested too deep.
    """
    try:
        return cast("Json", msgspec.json.decode(raw))
    except (msgspec.DecodeError, RecursionError):
        return _decode_slowly(raw.decode("utf-8", "replace"))


def decode_whole(text: str) -> Json:
    """Read JSON that is complete, as a call's arguments: halves of surrogate pairs are joined or marked.

    Raises:
        ValueError: as for `decode`.
    """
    value = decode(mend(text).encode())
    if "\\u" not in text:
        return value
    return decode(mend(json.dumps(value, ensure_ascii=False)).encode())


def _decode_slowly(text: str) -> Json:
    """Read what the fast decoder refuses: unpaired surrogates, raw line ends in strings, damaged UTF-8."""
    try:
        return cast("Json", json.loads(text, strict=False, parse_constant=_refuse, parse_float=_finite))
    except RecursionError:
        raise ValueError("nested too deep") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is out of range")
    return number


def mend(text: str) -> str:
    """Join surrogate pairs that stand as two code points, and put U+FFFD for a half without its other."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class PairJoiner:
    """Joins a surrogate pair whose halves came in two deltas: servers that count in UTF-16 units cut there."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """Text that is whole so far; a first half at its end is held back."""
        text, self._held = self._held + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return mend(text)

    def flush(self) -> str:
        """What is left when nothing follows."""
        text, self._held = mend(self._held), ""
        return text


def object_of(value: Json) -> JsonObject:
    """The value when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def list_of(value: Json) -> list[Json]:
    """The value when it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text_of(value: Json) -> str:
    """The value when it is text; of a list of content parts, their text."""
    if isinstance(value, list):
        return "".join(text_of(object_of(part).get("text")) for part in value)
    return value if isinstance(value, str) else ""
