"""Placeholders of secrets in requests: `{{secret:NAME}}` becomes the value on its way out, and only there.

In a header's value, in the query and in the body, each in the writing of that place. The request that the caller has
keeps its placeholders, and no error has a value in it.
"""

import re
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from transom_hookspecs import Secrets, TransomError

if TYPE_CHECKING:
    import httpx

_NAME = rb"([A-Za-z0-9][A-Za-z0-9_-]{0,62})"
PLAIN = re.compile(rb"\{\{secret:" + _NAME + rb"\}\}")
ENCODED = re.compile(rb"(?:\{|%7[Bb]){2}secret(?::|%3[Aa])" + _NAME + rb"(?:\}|%7[Dd]){2}")
"""As it stands in a query or a form, where its characters may be percent-encoded."""

HEADER_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?\Z")


class Used:
    """The secrets of one request: resolved once each, and remembered so that its errors have none of them."""

    def __init__(self, secrets: Secrets | None, tenant: str, url: "httpx.URL") -> None:
        self._secrets, self._tenant = secrets, tenant
        self._at = f"{url.scheme}://{url.netloc.decode('ascii')}"
        self.values: dict[str, str] = {}

    def put(self, pattern: re.Pattern[bytes], text: bytes, write: Callable[[str, str], bytes]) -> bytes:
        """A text with values in the place of their placeholders; `write` is given a secret's name and value."""
        return pattern.sub(lambda match: write(match[1].decode(), self._value(match[1].decode())), text)

    def _value(self, name: str) -> str:
        if name not in self.values:
            if self._secrets is None:
                raise TransomError("failed_precondition", f"secret {name!r}: no plugin is loaded that keeps secrets")
            self.values[name] = self._secrets.resolve(self._tenant, name, self._at)
        return self.values[name]


async def resolved(request: "httpx.Request", used: Used) -> "httpx.Request":
    """A request as it is to be sent; the same one when it has no placeholder.

    Raises:
        TransomError: what the service Secrets refuses with, or invalid_argument for a value that no header may have.
    """
    import httpx

    headers = [(name, used.put(PLAIN, value, _in_header)) for name, value in request.headers.raw]
    query = used.put(ENCODED, request.url.query, _in_query)
    body = None if "transfer-encoding" in request.headers else await request.aread()
    content = body if body is None else _body(used, body, request.headers.get("content-type", ""))
    if not used.values:
        return request
    url = request.url.copy_with(query=query) if query else request.url
    if content is None:
        return httpx.Request(request.method, url, headers=headers, stream=request.stream, extensions=request.extensions)
    headers = [(name, value) for name, value in headers if name.lower() != b"content-length"]
    return httpx.Request(request.method, url, headers=headers, content=content or None, extensions=request.extensions)


def _in_header(name: str, value: str) -> bytes:
    if not HEADER_VALUE.match(value):
        raise TransomError(
            "invalid_argument", f"secret {name!r} has characters that no header may have; send it in the body, or set it anew"
        )
    return value.encode()


def _in_query(_: str, value: str) -> bytes:
    return quote(value, safe="").encode()


def _in_json(_: str, value: str) -> bytes:
    return msgspec.json.encode(value)[1:-1]


def _body(used: Used, body: bytes, content_type: str) -> bytes:
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        return used.put(ENCODED, body, _in_query)
    return used.put(PLAIN, body, _in_json if kind.endswith(("/json", "+json")) else lambda _, value: value.encode())


async def quietly(send: Callable[[], Awaitable["httpx.Response"]], values: Mapping[str, str]) -> "httpx.Response":
    """Send a request that has secrets in it; an error that shows one is told without its words."""
    try:
        return await send()
    except Exception as error:  # noqa: BLE001 - raised below, where no traceback leads back to it
        failed = error
    raise _told(failed, values)


def _told(error: Exception, values: Mapping[str, str]) -> Exception:
    import httpx

    words = "".join(traceback.format_exception(error))
    written = {writing for value in values.values() for writing in (value, repr(value)[1:-1], quote(value, safe=""))}
    if not any(each in words for each in written):
        return error
    kind = type(error) if isinstance(error, httpx.TransportError) else httpx.TransportError
    return kind(f"the request failed ({type(error).__name__}); the words of the error have a secret in them")
