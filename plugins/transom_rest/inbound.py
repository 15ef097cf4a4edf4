"""A request, up to its values: head, query, body. Nothing here knows an operation.

Each refusal is an `invalid_argument` that names what is wrong; the body is read last, after the caller is known.
"""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from litestar.types import HTTPScope, Receive

from transom_hookspecs import NAME, RequestHead, TransomError

from .answers import HttpRefusal

T = TypeVar("T")

MAX_DEPTH = 100
"""Levels of lists and objects that a body may have."""

_KEYS_IN_URL = frozenset(("apikey", "token", "accesstoken", "key"))
_IDEMPOTENCY_KEY = re.compile(r"[\x21-\x7e]{1,128}")
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)s")
_CHARSETS = frozenset(("utf-8", "utf8", "us-ascii"))
_STRINGS = re.compile(rb'"[^"]*"')
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_HALF_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")


def head_of(scope: HTTPScope) -> RequestHead:
    """The request's head, every byte of it kept (latin-1)."""
    headers: dict[str, list[str]] = {}
    for raw, value in scope["headers"]:
        headers.setdefault(raw.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    client = scope.get("client")
    return RequestHead(
        method=scope["method"],
        path=scope["path"],
        headers={name: tuple(values) for name, values in headers.items()},
        query=scope["query_string"].decode("latin-1"),
        client=client[0] if client else "",
    )


def check_path(scope: HTTPScope) -> None:
    """Refuse a path whose parts are not what they seem: an escaped `/`, or bytes that are no UTF-8."""
    raw = scope.get("raw_path") or b""
    if b"%" not in raw:
        return
    if b"%2f" in raw.lower():
        raise TransomError("invalid_argument", "the path has an escaped '/' (%2F); no ID, name or token may contain '/'")
    try:
        unquote_to_bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise TransomError("invalid_argument", "the path is not UTF-8; escape its UTF-8 bytes") from error


def pairs_of(head: RequestHead) -> list[tuple[str, str]]:
    """The query's names and values.

    Raises:
        TransomError: invalid_argument when it carries a key, which would stand in logs and histories, or is not UTF-8.
    """
    try:
        pairs = parse_qsl(head.query, keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise TransomError("invalid_argument", "the query is not UTF-8; escape its UTF-8 bytes") from error
    for name, _ in pairs:
        if name.lower().replace("_", "").replace("-", "") in _KEYS_IN_URL:
            raise TransomError(
                "invalid_argument", f"the URL carries a key ({name[:40]!r}); send it as the header 'Authorization: Bearer …'"
            )
    return pairs


def query_of(pairs: list[tuple[str, str]], known: Collection[str]) -> dict[str, str]:
    """The query as one value a name.

    Raises:
        TransomError: invalid_argument naming a parameter that is unknown here, or is given twice.
    """
    query: dict[str, str] = {}
    for name, value in pairs:
        if name not in known:
            raise TransomError(
                "invalid_argument", f"query parameter {name[:40]!r} is not known here; there are {', '.join(sorted(known))}"
            )
        if name in query:
            raise TransomError("invalid_argument", f"query parameter {name!r} is given twice; give it once")
        query[name] = value
    return query


def tenant_of(query: Mapping[str, str]) -> str:
    """The tenant that the request is about."""
    tenant = query.get("tenant") or "default"
    if not NAME.match(tenant):
        raise _bad("tenant", tenant, "a tenant's name has letters, digits, '-' and '_', at most 63")
    return tenant


def seconds_of(query: Mapping[str, str], name: str) -> float | None:
    """A duration in the JSON form of protobuf (`900s`, `1.5s`), in seconds; None when it is not given."""
    value = query.get(name, "")
    if not value:
        return None
    match = _DURATION.fullmatch(value)
    if match is None or float(match[1]) == 0:
        raise _bad(name, value, "it must be a duration above zero, in seconds with an s, such as 900s or 1.5s")
    return float(match[1])


def number_of(query: Mapping[str, str], name: str, default: int) -> int:
    """A whole number."""
    value = query.get(name, "")
    if not value:
        return default
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise _bad(name, value, "it must be a whole number")
    return int(value)


def flag_of(query: Mapping[str, str], name: str) -> bool:
    """True or false, as `true` and `false`; false when it is not given."""
    value = query.get(name) or "false"
    if value not in ("true", "false"):
        raise _bad(name, value, "it must be true or false")
    return value == "true"


def words_of(query: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Words between commas."""
    words = tuple(word.strip() for word in query[name].split(",")) if query.get(name) else ()
    if "" in words:
        raise _bad(name, query[name], "there is nothing between two commas")
    return words


def header_of(head: RequestHead, name: str) -> str | None:
    """A header's value, or None.

    Raises:
        TransomError: invalid_argument when it was sent twice.
    """
    values = head.headers.get(name, ())
    if len(values) > 1:
        raise TransomError("invalid_argument", f"header {name!r} is given twice; give it once")
    return values[0] if values else None


def idempotency_key_of(head: RequestHead) -> str:
    """The Idempotency-Key, or empty when none was sent."""
    key = header_of(head, "idempotency-key")
    if key is not None and not _IDEMPOTENCY_KEY.fullmatch(key):
        raise TransomError(
            "invalid_argument", "Idempotency-Key: it must have 1 to 128 visible ASCII characters, such as a UUID has"
        )
    return key or ""


async def input_of(head: RequestHead, receive: Receive, limit: int) -> object:
    """A body that is any JSON, or a text as text/plain; None when there is no body."""
    media = _media_of(head)
    body = await _read(head, receive, limit)
    if media == "text/plain":
        return _text(body)
    return _decode(body, media, Any) if body else None


async def body_of(head: RequestHead, receive: Receive, limit: int, kind: type[T]) -> T:
    """A JSON object as a Struct (or a dict); no body is an empty object."""
    media = _media_of(head)
    if media == "text/plain":
        raise HttpRefusal(415, "Content-Type: text/plain is for an agent's input; send application/json here")
    return _decode(await _read(head, receive, limit) or b"{}", media or "application/json", kind)


def _bad(name: str, value: str, remedy: str) -> TransomError:
    return TransomError("invalid_argument", f"query parameter {name!r}: {value[:60]!r} will not do; {remedy}")


def _media_of(head: RequestHead) -> str:
    """`application/json`, `text/plain`, or empty when none is named; others are refused before the body is read."""
    if any(value.strip().lower() not in ("", "identity") for value in head.headers.get("content-encoding", ())):
        raise HttpRefusal(415, "Content-Encoding: send the body as it is, without compression")
    values = head.headers.get("content-type", ())
    media, *parameters = (part.strip() for part in ",".join(values).lower().split(";"))
    charset = "".join(p.removeprefix("charset=").strip('"') for p in parameters if p.startswith("charset="))
    if media in ("", "application/json", "text/plain") and (not charset or charset in _CHARSETS):
        return media
    raise HttpRefusal(415, "Content-Type: send application/json, or text/plain for a text; both in UTF-8")


async def _read(head: RequestHead, receive: Receive, limit: int) -> bytes:
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


def _too_long(limit: int) -> HttpRefusal:
    return HttpRefusal(413, f"the body is longer than {limit:,} bytes; send less")


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise TransomError("invalid_argument", f"the body is not UTF-8 at byte {error.start}") from error


def _decode(body: bytes, media: str, kind: type[T]) -> T:
    if not media:
        raise HttpRefusal(415, "Content-Type is missing; send application/json, or text/plain for a text")
    if _too_deep(body):
        raise TransomError("invalid_argument", f"the body is nested more than {MAX_DEPTH} levels deep; make it flatter")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise TransomError("invalid_argument", f"the body does not fit: {error}") from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise TransomError("invalid_argument", f"the body is no JSON: {_flaw(body, error)}") from error


def _too_deep(body: bytes) -> bool:
    """Whether brackets are nested too deep: take out strings, then innermost pairs, level by level."""
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return False
    bare = _STRINGS.sub(b"", body.replace(rb"\\", b"").replace(rb"\"", b""))
    brackets = bare.translate(_BRACKETS, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        outer = brackets.replace(b"[]", b"")
        if len(outer) == len(brackets):  # empty, or no JSON, which decoding says better
            return False
        brackets = outer
    return bool(brackets)


def _flaw(body: bytes, error: Exception) -> str:
    """Where the body stops being JSON; msgspec does not always say."""
    text = _text(body)
    if "byte" in str(error):
        return str(error)
    try:
        json.loads(text)
    except (ValueError, RecursionError) as flaw:
        return str(flaw)
    half = _HALF_PAIR.search(text)
    return f"half of a surrogate pair (char {half.start() if half else 0})"
