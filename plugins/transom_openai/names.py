"""Names and IDs on the way to a model and back: functions and calls.

Servers allow 64 characters of `[A-Za-z0-9_-]` for a function's name and know no `.`. A name's form depends on the
name alone, so the same function keeps it through a conversation, whatever else is offered beside it.
"""

import hashlib
import re
import secrets
import string
from collections.abc import Iterable

LONGEST = 64
_PART = "[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*"
_REVERSIBLE = re.compile(rf"{_PART}(?:\.{_PART})*\Z")
"""Names whose form, with `__` for each `.`, reads back in one way only."""
_VISIBLE = re.compile(r"[\x21-\x7e]{1,64}\Z")
_ALPHANUMERIC = string.ascii_letters + string.digits


def to_wire(name: str) -> str:
    """The form of a function's name that a server takes: 1 to 64 characters of `[A-Za-z0-9_-]`."""
    plain = name.replace(".", "__")
    if len(plain) <= LONGEST and _REVERSIBLE.match(name):
        return plain
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]
    # `___` stands in no reversible form, so a shortened name never meets a plain one
    return f"{re.sub('[^A-Za-z0-9_-]', '_', plain)[: LONGEST - 13]}___{digest}"


class FunctionNames:
    """The functions of one request, by the names that the model was told."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_wire = {to_wire(name): name for name in names}

    def from_wire(self, wire: str) -> str:
        """The function's name; of a function that nobody offered, the likeliest, for the error that it will get."""
        return self._by_wire.get(wire, wire.replace("__", ".", 1))


class CallIds:
    """Which IDs the calls of a conversation have, so that each new one is its own.

    Servers number the calls of each answer anew (`call_0`), which would put results under the wrong call.
    """

    def __init__(self, used: Iterable[str]) -> None:
        self._used = set(used)

    def take(self, proposed: str) -> str:
        """The model's own ID when it is 1 to 64 visible ASCII characters and new, else one of ours."""
        while proposed in self._used or not _VISIBLE.match(proposed):
            # nine alphanumeric characters: the one form that the strictest server (Mistral's) takes back
            proposed = "".join(secrets.choice(_ALPHANUMERIC) for _ in range(9))
        self._used.add(proposed)
        return proposed
