"""A request without its body: head, path, query and headers, as values.

Each refusal is an `invalid_argument` that names what is wrong.
"""

import re
from collections.abc import Collection, Mapping
from urllib.parse import parse_qsl, unquote_to_bytes

from litestar.types import HTTPScope

from transom_hookspecs import CERTIFICATE, NAME, RequestHead, TransomError

_KEYS_IN_URL = frozenset(("apikey", "token", "accesstoken", "key"))
_IDEMPOTENCY_KEY = re.compile(r"[\x21-\x7e]{1,128}")
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)s")


def head_of(scope: HTTPScope) -> RequestHead:
    """The request's head, every byte of it kept (latin-1), and the certificate that the connection was made with."""
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
        certificate=scope.get("state", {}).get(CERTIFICATE, ""),
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


def _bad(name: str, value: str, remedy: str) -> TransomError:
    return TransomError("invalid_argument", f"query parameter {name!r}: {value[:60]!r} will not do; {remedy}")
