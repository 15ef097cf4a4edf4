"""Gathers the calls of an answer from their fragments, by the rules that real servers need.

A call is known by its index and its ID, but servers leave out either, repeat them, or give every call index 0. So:
a new ID on a used index is a new call; a name without an ID begins one unless it repeats the name of a call that is
still incomplete; whatever says nothing of whose it is belongs to the call that began last.
"""

import json

from transom_hookspecs import Json, JsonObject

from .failures import ProviderError
from .jsontext import decode_whole, mend, object_of, text_of

MOST = 256
"""Calls in one answer."""


class RawCall:
    """A call as far as it came. `name` is the wire's."""

    def __init__(self, index: Json, id: str) -> None:
        self.index = index
        self.id = id
        self.name = ""
        self._arguments: list[str] = []

    @property
    def text(self) -> str:
        """The text of its arguments so far."""
        return "".join(self._arguments).strip()

    @property
    def whole(self) -> bool:
        """Whether its arguments are written out to the end."""
        if not self._arguments or not self._arguments[-1].endswith("}"):
            return False
        try:
            return isinstance(decode_whole(self.text), dict)
        except ValueError:
            return False

    def extend(self, function: JsonObject) -> int:
        """Take a fragment's name and arguments; returns how many bytes these are."""
        name, arguments = text_of(function.get("name")), function.get("arguments")
        if not self.name:
            self.name = mend(name)
        # some servers write the object itself
        text = json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict) else text_of(arguments)
        if text:
            self._arguments.append(text)
        return len(name) + len(text.encode("utf-8", "surrogatepass"))

    def arguments(self) -> JsonObject:
        """Its arguments; no text counts as none.

        Raises:
            ValueError: they are no JSON object.
        """
        value = decode_whole(self.text) if self.text else None
        if isinstance(value, str):  # an object inside a string: some models encode twice
            value = decode_whole(value)
        if value is not None and not isinstance(value, dict):
            raise ValueError("not an object")
        return value or {}


class CallCollector:
    """The calls of one answer, in the order in which they began."""

    def __init__(self) -> None:
        self.calls: list[RawCall] = []

    def add(self, delta: JsonObject) -> int:
        """Take one entry of `delta.tool_calls`; returns how many bytes it added.

        Raises:
            ProviderError: there are too many calls.
        """
        function = object_of(delta.get("function"))
        index, id = delta.get("index"), text_of(delta.get("id"))
        call = self._find(index, id, function)
        if call is None:
            call = RawCall(index, id)
            self.calls.append(call)
            if len(self.calls) > MOST:
                raise ProviderError("failed_precondition", f"the server sent more than {MOST} calls in one answer")
        if not call.id:
            call.id = id
        return call.extend(function)

    def _find(self, index: Json, id: str, function: JsonObject) -> RawCall | None:
        """The call that a fragment belongs to; None when it begins one."""
        call = self._latest(index, id)
        if call is None or (id and call.id and id != call.id):
            return None
        named = text_of(function.get("name"))
        if not named or not call.name:
            return call
        # the name comes again: a repetition while the call is incomplete, else another call of the same function
        another = named != call.name or (index is None and not id) or (function.get("arguments") and call.whole)
        return None if another else call

    def _latest(self, index: Json, id: str) -> RawCall | None:
        """The latest call with this index; without one, with this ID; with neither, the latest of all."""
        if index is not None:
            return next((call for call in reversed(self.calls) if call.index == index), None)
        if id:
            return next((call for call in reversed(self.calls) if call.id == id), None)
        return self.calls[-1] if self.calls else None
