"""Reads the answer of a model that chooses through structured output: `{"answer": …}` or `{"call": …, "arguments": …}`.

The answer's text is given out as it grows, decoded; the JSON around it never is.
"""

import json
import re
from typing import Literal, NamedTuple

from transom_hookspecs import Json, JsonObject

from .jsontext import PairJoiner, decode_whole

_HEAD = re.compile(r'\s*\{\s*"answer"\s*:\s*(?=\S)')
_FIRST = re.compile(r"\s*(\S)")
_HEAD_LIMIT = 256
"""How far in the answer's key is looked for; further in, the text is given out at the end."""
_PLAIN = re.compile(r'[^"\\]+')
_HEX = re.compile("[0-9a-fA-F]{4}")
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class Choice(NamedTuple):
    """A call that the model chose, by the name that it was told."""

    function: str
    arguments: JsonObject


class SchemaAnswer:
    """Takes the model's text as it comes.

    Parameters:
        structured: the answer is a value of its own schema, and its text is that value's JSON.
    """

    def __init__(self, *, structured: bool) -> None:
        self._structured = structured
        self._parts: list[str] = []
        self._head = ""
        self._state: Literal["head", "value", "plain", "whole"] = "head"
        self._value: _StringValue | _RawValue = _RawValue()

    def feed(self, text: str) -> str:
        """The answer's text that is certain now."""
        self._parts.append(text)
        if self._state == "plain":
            return text
        if self._state == "value":
            return self._value.feed(text)
        return self._look(text) if self._state == "head" else ""

    def _look(self, text: str) -> str:
        self._head += text
        if head := _HEAD.match(self._head):
            return self._begin(self._head[head.end() :])
        first = _FIRST.match(self._head)
        if first and first[1] != "{":  # a server that took no notice of the schema
            self._state = "plain"
            return self._head.lstrip()
        if len(self._head) > _HEAD_LIMIT:
            self._state = "whole"
        return ""

    def end(self) -> tuple[str, Choice | None]:
        """The text that was not given out yet, and the call.

        Raises:
            ValueError: the JSON is cut, or neither an answer nor a call.
        """
        if self._state == "plain":
            return "", None
        value = _first_object("".join(self._parts))
        function, rest = value.get("call"), ""
        if self._state != "value" and "answer" in value:
            rest = self._as_text(value["answer"])
        if isinstance(function, str) and function:
            return rest, Choice(function, _arguments(value.get("arguments")))
        if "answer" not in value:
            raise ValueError("it has neither `answer` nor `call`")
        return rest, None

    def _begin(self, value: str) -> str:
        self._state = "value"
        if value[0] == '"' and not self._structured:
            self._value = _StringValue()
            value = value[1:]
        return self._value.feed(value)

    def _as_text(self, answer: Json) -> str:
        if isinstance(answer, str) and not self._structured:
            return answer
        return json.dumps(answer, ensure_ascii=False)


class _StringValue:
    """A JSON string after its opening quote, decoded piece by piece; escapes may be cut anywhere."""

    def __init__(self) -> None:
        self._held = ""
        self._pairs = PairJoiner()
        self._closed = False

    def feed(self, text: str) -> str:
        text, self._held, at, out = self._held + text, "", 0, ""
        while at < len(text) and not self._closed:
            if plain := _PLAIN.match(text, at):
                out, at = out + plain[0], plain.end()
            elif text[at] == '"':
                self._closed = True
            elif (size := _escape_size(text, at)) > len(text) - at:
                self._held, at = text[at:], len(text)
            else:
                out, at = out + _unescape(text[at : at + size]), at + size
        out = self._pairs.feed(out)
        return out + self._pairs.flush() if self._closed else out


def _escape_size(text: str, at: int) -> int:
    return 6 if text[at + 1 : at + 2] == "u" else 2


def _unescape(escape: str) -> str:
    if len(escape) == 2:
        return _ESCAPES.get(escape[1], escape[1])
    digits = _HEX.match(escape, 2)
    return chr(int(digits[0], 16)) if digits else "\ufffd"


class _RawValue:
    """A JSON value as it stands, to where it ends."""

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = False
        self._escaped = False
        self._ended = False

    def feed(self, text: str) -> str:
        if self._ended:
            return ""
        for at, character in enumerate(text):
            if self._ends(character):
                self._ended = True
                return text[:at]
        return text

    def _ends(self, character: str) -> bool:
        if self._escaped:
            self._escaped = False
        elif self._quoted:
            self._escaped, self._quoted = character == "\\", character != '"'
        elif character == '"':
            self._quoted = True
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1
        return self._depth < 0 or (character == "," and not self._depth and not self._quoted)


def _first_object(text: str) -> JsonObject:
    """The object that the text begins with; what follows it is left out."""
    start = text.lstrip()
    _, end = json.JSONDecoder(strict=False).raw_decode(start)
    value = decode_whole(start[:end])
    if not isinstance(value, dict):
        raise ValueError("it is no object")  # noqa: TRY004 - one kind of error for whatever is no answer
    return value


def _arguments(value: Json) -> JsonObject:
    if isinstance(value, str):
        value = decode_whole(value) if value.strip() else {}
    if value is not None and not isinstance(value, dict):
        raise ValueError("the arguments are no object")
    return value or {}
