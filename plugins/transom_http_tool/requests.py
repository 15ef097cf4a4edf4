"""What an agent may ask for: an address, headers and a body that are what they seem."""

import re
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from transom_hookspecs import Json, TransomError

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]

_LONGEST_URL: Final = 8_192
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_VALUE: Final = re.compile(r"[\x20-\x7e]*\Z")
_OURS: Final = re.compile(
    r"host|content-length|transfer-encoding|connection|keep-alive|upgrade|te|trailer|expect|accept-encoding|proxy-.*"
)
"""Headers that say where a request goes, how long it is and how it is sent."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is known to be sound. `host` is for messages: a path may hold what they must not."""

    method: Method
    url: str
    host: str
    headers: dict[str, str]
    content: bytes | None


def checked(method: Method, url: str, headers: Mapping[str, str], body: Json = None, key: str = "") -> Request:
    """Make a request.

    Parameters:
        body: text as it is, None for no body, anything else as JSON.
        key: an Idempotency-Key for a method that changes something, unless the headers have one.

    Raises:
        TransomError: invalid_argument, naming the argument, what is wrong and the remedy.
    """
    sent = {"accept-encoding": "identity", "user-agent": "transom"} | _headers(headers)
    if method in ("GET", "HEAD") and body is not None:
        raise _refusal("body", f"{method} has none", "leave it out, or use POST")
    if method not in ("GET", "HEAD") and key:
        sent.setdefault("idempotency-key", key)
    content = None if body is None else body.encode() if isinstance(body, str) else msgspec.json.encode(body)
    if content is not None:
        sent.setdefault("content-type", "text/plain; charset=utf-8" if isinstance(body, str) else "application/json")
    return Request(method=method, url=url, host=_host(url), headers=sent, content=content)


def _host(url: str) -> str:
    import httpx

    try:
        parsed = httpx.URL(url) if len(url) <= _LONGEST_URL else None
    except httpx.InvalidURL as error:
        raise _refusal("url", f"is no address ({error})", "write it as https://host/path") from error
    if parsed is None:
        raise _refusal("url", f"is longer than {_LONGEST_URL} characters", "send the data in the body")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise _refusal("url", "is no http or https address", "write it as https://host/path")
    if parsed.port is not None and not 0 < parsed.port < 65_536:
        raise _refusal("url", f"has no possible port ({parsed.port})", "use one from 1 to 65535")
    if parsed.userinfo:
        raise _refusal("url", "has a user or password in it, which logs would show", "use an Authorization header")
    return parsed.host


def _headers(given: Mapping[str, str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for written, value in given.items():
        name = written.lower()
        if not _NAME.match(name):
            raise _refusal("headers", f"{written!r} is no header's name", "use letters, digits and `-`")
        if _OURS.fullmatch(name):
            raise _refusal("headers", f"{written!r} is set by the runtime", "leave it out")
        if name in headers:
            raise _refusal("headers", f"{written!r} stands there twice", "leave one")
        if not _VALUE.match(value):
            raise _refusal("headers", f"the value of {written!r} has other characters than visible ASCII", "encode it")
        headers[name] = value
    return headers


def _refusal(argument: str, problem: str, remedy: str) -> TransomError:
    return TransomError("invalid_argument", f"`{argument}`: {problem}; {remedy}")
