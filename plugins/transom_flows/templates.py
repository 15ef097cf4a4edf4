"""Templates: `${{ path }}` inside declared JSON.

A path is names and list indexes with dots between them, and nothing else: `input.repo`, `steps.find.items.0.title`.
A text that is one template and nothing more becomes the value as it is; templates inside a longer text become text.
What a path leads to is data: it is put in as it stands, and a `${{` in it means nothing.
"""

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import msgspec

from transom_hookspecs import Json, JsonObject, TransomError

_TEMPLATE: Final = re.compile(r"\$\{\{([^{}]*)\}\}")
_PATH: Final = re.compile(r"\s*([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)\s*", re.ASCII)
_HOW: Final = "write names with dots between them, as `${{ input.repo }}`"

Find = Callable[[str], Json]
"""The value that a path leads to."""


def paths(value: Json) -> Iterator[str]:
    """Every path in a declared value.

    Raises:
        TransomError: invalid_argument; a template is not closed, is no path, or stands in a key.
    """
    if isinstance(value, str):
        yield from _split(value)[1::2]
    elif isinstance(value, list):
        for item in value:
            yield from paths(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if "${{" in key:
                raise TransomError("invalid_argument", f"the key {_short(key)} has a template; only values take them")
            yield from paths(item)


def only_path(text: str) -> str:
    """The path of a text that is one template.

    Raises:
        TransomError: invalid_argument; it is something else.
    """
    parts = _split(text)
    if not _is_whole(parts):
        raise TransomError("invalid_argument", f"{_short(text)} is no single template; {_HOW} and nothing else")
    return parts[1]


def render(value: Json, find: Find) -> Json:
    """A declared value with what its paths lead to."""
    if isinstance(value, str):
        parts = _split(value)
        return find(parts[1]) if _is_whole(parts) else _joined(parts, find)
    if isinstance(value, list):
        return [render(item, find) for item in value]
    if isinstance(value, dict):
        return {key: render(item, find) for key, item in value.items()}
    return value


def render_text(text: str, find: Find) -> str:
    """A declared text with what its paths lead to, always as text."""
    return _joined(_split(text), find)


def resolve(root: JsonObject, path: str) -> Json:
    """What a path leads to; its first name is one of the root's.

    Raises:
        TransomError: failed_precondition; it leads nowhere, and where it stopped.
    """
    seen, *rest = path.split(".")
    value = root[seen]
    for part in rest:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and _is_index(part, len(value)):
            value = value[int(part)]
        else:
            place = f"`{seen}` is {_described(value)} and has no `{part}`"
            raise TransomError("failed_precondition", f"`${{{{ {path} }}}}` leads nowhere: {place}; mend the path")
        seen = f"{seen}.{part}"
    return value


def _split(text: str) -> list[str]:
    """Text, path, text, path, …, text."""
    if "${{" not in text:
        return [text]
    parts = _TEMPLATE.split(text)
    if any("${{" in part for part in parts[::2]):
        raise TransomError("invalid_argument", f"{_short(text)} has a template that is not closed; {_HOW}")
    for number in range(1, len(parts), 2):
        found = _PATH.fullmatch(parts[number])
        if found is None:
            raise TransomError("invalid_argument", f"{_short(parts[number])} between `${{{{` and `}}}}` is no path; {_HOW}")
        parts[number] = found[1]
    return parts


def _is_whole(parts: list[str]) -> bool:
    return len(parts) == 3 and not parts[0] and not parts[2]


def _joined(parts: list[str], find: Find) -> str:
    return "".join(_as_text(find(part)) if number % 2 else part for number, part in enumerate(parts))


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _is_index(part: str, length: int) -> bool:
    return len(part) < 10 and part.isdecimal() and int(part) < length


def _described(value: Json) -> str:
    if isinstance(value, dict):
        return f"a mapping with {', '.join(_names(value))}" if value else "an empty mapping"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return "null" if value is None else "text" if isinstance(value, str) else "a number or boolean"


def _names(value: JsonObject) -> list[str]:
    names = [_short(name) for name in islice(value, 10)]
    return names if len(names) == len(value) else [*names, "…"]


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")
