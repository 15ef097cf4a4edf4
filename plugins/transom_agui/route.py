"""The route: a request up to its values, and the way it goes from there.

The caller is known, and may use the route for this agent, before the body is read.
"""

from typing import TYPE_CHECKING, Any

from litestar import Request
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from transom_doors import bodies, heads
from transom_doors.handlers import handler
from transom_hookspecs import Caller, Json, Kernel, Origin, TransomError

from .follow import parse_event_id
from .inputs import read_input
from .threads import find
from .visit import Visit

if TYPE_CHECKING:
    from . import AguiPlugin

PATH = "/v1/agui/agents/{agent:str}"
NEEDED = ("feeds.read", "content.read")
"""What a caller needs on this route, whatever it does there."""


def make_handlers(plugin: "AguiPlugin") -> list[HTTPRouteHandler]:
    """The door's Litestar handlers."""

    async def run(request: Request[Any, Any, Any]) -> ASGIApp:
        return await _run(plugin, request)

    return [handler("agui", "POST", PATH, run)]


async def _run(plugin: "AguiPlugin", request: Request[Any, Any, Any]) -> ASGIApp:
    head = heads.head_of(request.scope)
    pairs = heads.pairs_of(head)
    kernel = plugin.kernel
    caller = await kernel.authenticate(head)
    heads.check_path(request.scope)
    tenant = heads.tenant_of(heads.query_of(pairs, {"tenant"}))
    agent: str = request.path_params["agent"]
    await _check(kernel, tenant, caller, agent)
    since = parse_event_id(heads.header_of(head, "last-event-id"))
    key = heads.idempotency_key_of(head)
    body: dict[str, Json] = await bodies.json_body(head, request.receive, plugin.config.max_body, dict[str, Any])
    asked = read_input(body)
    place = await find(kernel, Origin(tenant=tenant, caller=caller, door="agui", taint="agui"), asked.thread)
    return await Visit(plugin, place, asked, agent, since, key).answer()


async def _check(kernel: Kernel, tenant: str, caller: Caller, agent: str) -> None:
    """The caller may use the route, and reaches the agent, which is there."""
    for permission, object in (*((name, "") for name in NEEDED), ("catalog.read", agent)):
        verdict = await kernel.may(caller, tenant, permission, object)
        if verdict.ruling != "allow":
            why = f": {verdict.reason}" if verdict.reason else ""
            raise TransomError("permission_denied", f"{permission} is not permitted{why}", {"permission": permission})
    if kernel.agent(tenant, agent) is None:
        raise TransomError("not_found", f"there is no agent {agent!r} in tenant {tenant!r}")
