"""References in a script: `{input.repo}` stands for a part of what was said or returned before.

    {input}, {input.a.0}       the last user message; inside it, when it is JSON
    {result}, {result.a}       the last function result
    {call.name}                an argument of the call that an `each` text is about
    {input.bytes=50}           with a value for when there is none

A string that is nothing but a reference becomes the value itself (a number stays a number); within other text
the value is written out. All other braces stay as they are, and what was put in is not looked at again.
"""

import re
from collections.abc import Mapping

import msgspec

from transom_hookspecs import Json, TransomError

REFERENCE = re.compile(r"\{(input|result|call)((?:\.[A-Za-z0-9_-]{1,64})*)(?:=([^{}]*))?\}")


def fill(value: Json, texts: Mapping[str, str]) -> Json:
    """Replace the references in a JSON value.

    Parameters:
        texts: what each root (`input`, `result`, `call`) stands for.

    Raises:
        TransomError: invalid_argument, naming the reference, when it leads nowhere and has no value of its own.
    """
    if isinstance(value, str):
        return _fill_text(value, texts)
    if isinstance(value, list):
        return [fill(item, texts) for item in value]
    if isinstance(value, dict):
        return {key: fill(item, texts) for key, item in value.items()}
    return value


def written(value: Json) -> str:
    """A value as text: a string as it is, all else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _fill_text(text: str, texts: Mapping[str, str]) -> Json:
    if whole := REFERENCE.fullmatch(text):
        return _value(whole, texts)
    return REFERENCE.sub(lambda found: written(_value(found, texts)), text)


def _value(found: re.Match[str], texts: Mapping[str, str]) -> Json:
    root, path, default = found.groups()
    try:
        return _walk(texts[root], path)
    except (LookupError, msgspec.DecodeError):
        if default is not None:
            return _json_or_text(default)
        raise TransomError(
            "invalid_argument",
            f"script: {found[0]} leads nowhere: there is no such {root}, or it is no JSON that has it; "
            f"send one that has, or write a value for then, as in {{{root}{path}=1}}",
        ) from None


def _walk(text: str, path: str) -> Json:
    if not path:
        return text
    value: Json = msgspec.json.decode(text)
    for name in path[1:].split("."):
        if isinstance(value, dict):
            value = value[name]
        elif isinstance(value, list) and name.isdigit():
            value = value[int(name)]
        else:
            raise KeyError(name)
    return value


def _json_or_text(text: str) -> Json:
    try:
        value: Json = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    return value
