"""A door's Litestar handlers: each answers with an ASGI application, and its errors become answers in one place."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from litestar import Request
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Method

from transom_hookspecs import TransomError

from .answers import refusal

logger = logging.getLogger(__name__)


def handler(
    door: str,
    method: Method,
    path: str,
    answer: Callable[[Request[Any, Any, Any]], Awaitable[ASGIApp]],
    *,
    refuse: Callable[[TransomError], ASGIApp] = refusal,
) -> HTTPRouteHandler:
    """A handler of one route.

    Parameters:
        door: the door's name; with method and path it names the handler.
        answer: what answers a request; the body has not been read.
        refuse: how this door tells an error. What is no TransomError is logged, and told as `internal` without its text.
    """

    async def handle(request: Request[Any, Any, Any]) -> ASGIApp:
        try:
            return await answer(request)
        except TransomError as error:
            return refuse(error)
        except Exception:
            logger.exception("%s %s failed", method, path)
            return refuse(TransomError("internal", "something went wrong here; the server's log has the cause"))

    name = f"{door} {method} {path}"
    # the status is the answer's own; Litestar's default for DELETE forbids a body
    return HTTPRouteHandler(path, http_method=[method], status_code=200, name=name, include_in_schema=False)(handle)
