"""The way in: a request becomes the operation `RingBell`."""

from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Request, Response, post

from transom_hookspecs import Origin, RequestHead, TransomError

from .operations import RingBell

if TYPE_CHECKING:
    from . import BellPlugin

STATUS = {"invalid_argument": 400, "unauthenticated": 401, "permission_denied": 403, "unavailable": 503}


def make_handlers(plugin: "BellPlugin") -> list[Any]:
    """The one route."""

    @post("/bell/{name:str}", status_code=200)
    async def ring(request: Request[Any, Any, Any]) -> Response[bytes]:
        try:
            return Response(msgspec.json.encode(await rung(plugin, request)), media_type="application/json")
        except TransomError as error:
            return Response(msgspec.json.encode(error.info()), status_code=STATUS.get(error.code, 500))

    return [ring]


async def rung(plugin: "BellPlugin", request: Request[Any, Any, Any]) -> msgspec.Struct:
    """Know the caller, then call the operation."""
    if plugin.kernel is None:
        raise TransomError("unavailable", "the server is starting or stopping")
    headers = {name.decode("latin-1"): (value.decode("latin-1"),) for name, value in request.scope["headers"]}
    caller = await plugin.kernel.authenticate(RequestHead(method=request.method, path=request.scope["path"], headers=headers))
    key = headers.get("idempotency-key", ("",))[0]
    origin = Origin(tenant=caller.tenant or "default", caller=caller, door="bell", key=key)
    answer: msgspec.Struct = await plugin.kernel.call("RingBell", RingBell(name=request.path_params["name"]), origin)
    return answer
