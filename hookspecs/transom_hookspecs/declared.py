"""From a declared document to a Struct, with errors that name the field, what is wrong with it and the remedy."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final, TypeVar, get_args, get_type_hints

import msgspec

from .errors import TransomError
from .values import NAME, JsonObject

T = TypeVar("T", bound=msgspec.Struct)

BARE: Final = NAME.pattern.removesuffix(r"\Z")
"""A name inside a longer pattern."""

NAMED: Final = rf"^{BARE}\Z"
"""A name, as a pattern for `msgspec.Meta`."""

_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)(s|m|h|d)\Z")
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LONGEST: Final = 3_650 * 86_400
_MISFIT = re.compile(r"(?P<problem>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)
_OTHER_SCALAR = re.compile(r"Expected `str`, got `(?:int|float|bool)`")


class Duration(float):
    """Seconds, declared as `30s`, `15m`, `2h`, `30d` or a number of seconds."""

    @classmethod
    def read(cls, value: object) -> "Duration":
        """Make one of a declared value.

        Raises:
            ValueError: it is no duration, not above zero or longer than ten years.
        """
        seconds = 0.0
        if isinstance(value, str) and (found := _DURATION.match(value)):
            seconds = float(found[1]) * _UNITS[found[2]]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value
        if not 0 < seconds <= _LONGEST:
            raise ValueError("is no duration between 0 and 3650d")
        return cls(seconds)


def decode(what: str, body: JsonObject, type: type[T]) -> T:
    """The Struct that a declared mapping is.

    Parameters:
        what: what is declared, for messages: `agent 'helper'`.
        type: its Struct; the description of a field's `msgspec.Meta` says what the field takes.

    Raises:
        TransomError: invalid_argument, naming the field, what is wrong and the remedy.
    """
    try:
        return msgspec.convert(body, type, dec_hook=_custom)
    except msgspec.ValidationError as error:
        raise TransomError("invalid_argument", f"{what}: {_explained(str(error), body, type)}") from error


def _custom(type: type, value: object) -> Duration:
    assert type is Duration
    return Duration.read(value)


def _explained(error: str, body: JsonObject, type: type[msgspec.Struct]) -> str:
    fields = type.__struct_fields__
    found = _MISFIT.fullmatch(error)
    problem, path = (found["problem"], found["path"] or "") if found else (error, "")
    if unknown := sorted(set(body) - set(fields)):
        close = get_close_matches(unknown[0], fields, 1)
        remedy = f"did you mean `{close[0]}`?" if close else f"it takes {', '.join(fields)}"
        return f"`{unknown[0]}` is no field of it; {remedy}"
    if missing := re.fullmatch(r"Object missing required field `(\w+)`", problem):
        return f"`{missing[1]}` is missing; write {_takes(type, missing[1])}"
    field = re.split(r"[.[]", path)[0]
    remedy = "put it in quotes" if _OTHER_SCALAR.match(problem) else f"write {_takes(type, field)}"
    if "matching regex" in problem:  # the pattern would tell nobody anything
        problem = "is not of its form"
    return f"`{path}`: {problem[0].lower()}{problem[1:]}; {remedy}"


def _takes(type: type[msgspec.Struct], field: str) -> str:
    """What a field takes, in words."""
    hint = get_type_hints(type, include_extras=True).get(field)
    return next(_descriptions(hint), "a value of that type")


def _descriptions(hint: object) -> Iterator[str]:
    for meta in getattr(hint, "__metadata__", ()):
        if isinstance(meta, msgspec.Meta) and meta.description:
            yield meta.description
    for part in get_args(hint):
        yield from _descriptions(part)
