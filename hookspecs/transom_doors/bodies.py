"""A request's body: read up to a limit, in a media type that is expected, and decoded with bounds.

A body is read last, after the caller is known. What is not expected is refused before it is read; each refusal names what is
wrong, and where.
"""

import json
import re
from collections.abc import Collection
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec
from litestar.types import Receive

from transom_hookspecs import RequestHead, TransomError

from .answers import HttpRefusal

T = TypeVar("T")

JSON: Final = ("application/json",)
FORM: Final = "application/x-www-form-urlencoded"

MAX_DEPTH = 100
"""Levels of lists and objects that a JSON body may have."""

MAX_VALUES = 200_000
"""Values that a JSON body may have: what is made of millions of tiny ones takes seconds, in which nothing else is done."""

MAX_FIELDS = 100
"""Fields that a form may have."""

_CHARSETS = frozenset(("utf-8", "utf8", "us-ascii"))
_STRINGS = re.compile(rb'"[^"]*"')
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_HALF_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")


async def json_or_text(head: RequestHead, receive: Receive, limit: int) -> object:
    """A body that is any JSON, or a text as text/plain; None when there is no body.

    Parameters:
        limit: bytes that it may have.

    Raises:
        TransomError: invalid_argument, with a status of its own (413, 415) where HTTP has one.
    """
    media = media_of(head, (*JSON, "text/plain"))
    body = await read(head, receive, limit)
    if media == "text/plain":
        return text_of(body)
    if body and not media:
        raise HttpRefusal(415, "Content-Type is missing; send application/json, or text/plain for a text")
    return decode(body, Any) if body else None


async def json_body(head: RequestHead, receive: Receive, limit: int, kind: type[T], media: Collection[str] = JSON) -> T:
    """A JSON body as a type, such as a Struct; no body is an empty object.

    Parameters:
        limit: bytes that it may have.
        media: the media types that mean JSON here; a body without a Content-Type is taken as JSON.

    Raises:
        TransomError: invalid_argument, with a status of its own (413, 415) where HTTP has one.
    """
    media_of(head, media)
    return decode(await read(head, receive, limit) or b"{}", kind)


async def form_body(head: RequestHead, receive: Receive, limit: int) -> dict[str, str]:
    """A form (application/x-www-form-urlencoded) as one value a name; no body is an empty form.

    Parameters:
        limit: bytes that it may have.

    Raises:
        TransomError: invalid_argument for a field given twice, for more than MAX_FIELDS and for what is not UTF-8; with a
            status of its own (413, 415) where HTTP has one.
    """
    if media_of(head, (FORM,)) != FORM:
        raise HttpRefusal(415, f"Content-Type is missing; send {FORM}")
    text = text_of(await read(head, receive, limit))
    if text.count("&") >= MAX_FIELDS:
        raise TransomError("invalid_argument", f"the form has more than {MAX_FIELDS} fields; send fewer")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise TransomError("invalid_argument", "the form is not UTF-8; escape its UTF-8 bytes") from error
    fields: dict[str, str] = {}
    for name, value in pairs:
        if name in fields:
            raise TransomError("invalid_argument", f"form field {name[:40]!r} is given twice; give it once")
        fields[name] = value
    return fields


def media_of(head: RequestHead, expected: Collection[str]) -> str:
    """The body's media type, one of those expected, or empty when none is named.

    Raises:
        HttpRefusal: 415 for any other, for another charset than UTF-8, and for a compressed body.
    """
    if any(value.strip().lower() not in ("", "identity") for value in head.headers.get("content-encoding", ())):
        raise HttpRefusal(415, "Content-Encoding: send the body as it is, without compression")
    values = head.headers.get("content-type", ())
    media, *parameters = (part.strip() for part in ",".join(values).lower().split(";"))
    charset = "".join(p.removeprefix("charset=").strip('"') for p in parameters if p.startswith("charset="))
    if (not media or media in expected) and (not charset or charset in _CHARSETS):
        return media
    raise HttpRefusal(415, f"Content-Type: send {' or '.join(expected)}, in UTF-8")


async def read(head: RequestHead, receive: Receive, limit: int) -> bytes:
    """The body's bytes as they came, for who must see them so (a signature is of them).

    Parameters:
        limit: bytes that it may have; a length that is announced is checked before anything is read.

    Raises:
        HttpRefusal: 413 when it is longer.
        TransomError: canceled when the client leaves before its end.
    """
    declared = (head.headers.get("content-length") or ("",))[0]
    parts: list[bytes] = []
    size = int(declared) if declared.isascii() and declared.isdecimal() and len(declared) < 20 else 0
    if size > limit:
        raise _too_long(limit)
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise TransomError("canceled", "the client left before the body was whole")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limit:
            raise _too_long(limit)
        more = message.get("more_body", False)
    return b"".join(parts)


def text_of(body: bytes) -> str:
    """A body as text.

    Raises:
        TransomError: invalid_argument when it is not UTF-8, and where.
    """
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise TransomError("invalid_argument", f"the body is not UTF-8 at byte {error.start}") from error


def decode(body: bytes, kind: type[T]) -> T:
    """A JSON body as a type.

    Raises:
        TransomError: invalid_argument when it is no JSON, does not fit the type (naming the field), is nested too deep, or
            has too many values.
    """
    _bounded(body)
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise TransomError("invalid_argument", f"the body does not fit: {error}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise TransomError("invalid_argument", f"the body is no JSON: {_flaw(body, error)}") from error


def _too_long(limit: int) -> HttpRefusal:
    return HttpRefusal(413, f"the body is longer than {limit:,} bytes; send less")


def _bounded(body: bytes) -> None:
    """Refuse what is too deep or has too many values, at the speed of C and before anything is made of it."""
    brackets = body.count(b"[") + body.count(b"{")
    if brackets <= MAX_DEPTH and brackets + body.count(b",") < MAX_VALUES:
        return
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"")
    strings = bare.count(b'"') // 2  # at most a name and a value each; so many are not even taken out
    if strings <= 2 * MAX_VALUES:
        bare = _STRINGS.sub(b"", bare)
    if strings > 2 * MAX_VALUES or bare.count(b",") + bare.count(b"[") + bare.count(b"{") >= MAX_VALUES:
        raise TransomError("invalid_argument", f"the body has more than {MAX_VALUES:,} values; send less at once")
    if _too_deep(bare):
        raise TransomError("invalid_argument", f"the body is nested more than {MAX_DEPTH} levels deep; make it flatter")


def _too_deep(bare: bytes) -> bool:
    """Whether brackets are nested too deep: take out innermost pairs, level by level."""
    brackets = bare.translate(_BRACKETS, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        outer = brackets.replace(b"[]", b"")
        if len(outer) == len(brackets):  # empty, or no JSON, which decoding says better
            return False
        brackets = outer
    return bool(brackets)


def _flaw(body: bytes, error: Exception) -> str:
    """Where the body stops being JSON; msgspec does not always say."""
    text = text_of(body)
    if "byte" in str(error):
        return str(error)
    try:
        json.loads(text)
    except (ValueError, RecursionError) as flaw:
        return str(flaw)
    half = _HALF_PAIR.search(text)
    return f"half of a surrogate pair (char {half.start() if half else 0})"
