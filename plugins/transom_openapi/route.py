"""The route: one document, with an ETag that a client may send back."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from litestar import Request
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Receive, Scope, Send

from transom_doors import heads
from transom_doors.handlers import handler
from transom_hookspecs import Origin

from .library import OpenApiDocument
from .requests import GetOpenApi

if TYPE_CHECKING:
    from . import OpenapiPlugin

PATH: Final = "/v1/openapi.json"
PIECE: Final = 256 * 1024
"""Bytes that are handed to the server at once, so that a slow reader holds up no more of them."""

_TAG: Final = re.compile(r'(?:W/)?("[^"]*")')


def make_handler(plugin: "OpenapiPlugin") -> HTTPRouteHandler:
    """The Litestar handler."""

    async def answer(request: Request[Any, Any, Any]) -> ASGIApp:
        head = heads.head_of(request.scope)
        pairs = heads.pairs_of(head)
        kernel = plugin.kernel
        caller = await kernel.authenticate(head)
        query = heads.query_of(pairs, ("tenant", "plugin"))
        origin = Origin(tenant=heads.tenant_of(query), caller=caller, door="openapi")
        wanted = GetOpenApi(plugin=query.get("plugin", ""))
        found: OpenApiDocument = await kernel.call("GetOpenApi", wanted, origin)
        return Sent(found, unchanged=matches(head.headers.get("if-none-match", ()), found.etag))

    return handler("openapi", "GET", PATH, answer)


def matches(given: Sequence[str], etag: str) -> bool:
    """Whether an If-None-Match names an ETag; a weak one of the same name counts."""
    value = ",".join(given)
    return value.strip() == "*" or etag in _TAG.findall(value)


class Sent:
    """An ASGI application that sends a document, or that the client has it already."""

    def __init__(self, document: OpenApiDocument, *, unchanged: bool) -> None:
        self.status = 304 if unchanged else 200
        self.body = b"" if unchanged else document.document
        self.headers = [
            (b"etag", document.etag.encode()),
            (b"cache-control", b"private, no-cache"),
            (b"vary", b"Authorization"),
        ]
        if not unchanged:
            self.headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(self.body))]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        for begin in range(0, len(self.body), PIECE):
            piece = self.body[begin : begin + PIECE]
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
