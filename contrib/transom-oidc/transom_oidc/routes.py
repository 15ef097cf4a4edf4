"""The two requests of a browser: to be sent to the provider, and back from it with a code."""

import hmac
import html
import re
from typing import TYPE_CHECKING, Any

from litestar import Request
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from transom_doors import heads
from transom_doors.answers import Answer
from transom_doors.handlers import handler
from transom_hookspecs import RequestHead, TransomError

from .claims import name_of, person_of
from .pending import LIFE, Pending, begin, seal, unseal
from .provider import Provider

if TYPE_CHECKING:
    from . import OidcPlugin

DOOR = "oidc"
PATH = "/v1/oidc"
COOKIE = "transom_oidc"

HttpRequest = Request[Any, Any, Any]

_PATH = re.compile(r"/(?![/\\])[!-\[\]-~]{0,500}")


def make_handlers(plugin: "OidcPlugin") -> list[HTTPRouteHandler]:
    """The handlers."""

    async def login(request: HttpRequest) -> ASGIApp:
        return await _login(plugin, request)

    async def callback(request: HttpRequest) -> ASGIApp:
        return await _callback(plugin, request)

    return [
        handler(DOOR, "GET", f"{PATH}/{{provider:str}}/login", login),
        handler(DOOR, "GET", f"{PATH}/{{provider:str}}/callback", callback),
    ]


async def _login(plugin: "OidcPlugin", request: HttpRequest) -> ASGIApp:
    """Send the browser to the provider, with a cookie that it comes back with."""
    head = heads.head_of(request.scope)
    return_to = heads.query_of(heads.pairs_of(head), {"return_to"}).get("return_to", "/")
    if not _PATH.fullmatch(return_to):
        raise TransomError("invalid_argument", "return_to: it is no path of this server; begin it with one /")
    provider = _provider(plugin, request)
    pending = begin(return_to, _now(plugin))
    base = _base(provider, request)
    url = await provider.sign_in_url(pending, f"{base}{PATH}/{provider.name}/callback")
    headers = {b"location": url.encode(), b"set-cookie": _cookie(provider, seal(pending, provider.key), LIFE, base)}
    return Answer(302, b"", headers, media=b"text/plain")


async def _callback(plugin: "OidcPlugin", request: HttpRequest) -> ASGIApp:
    """Take the code, and begin the person's session."""
    head = heads.head_of(request.scope)
    pairs = heads.pairs_of(head)
    query = dict(pairs)  # providers add fields of their own; none of them is read twice
    if len(query) < len(pairs):
        raise TransomError("invalid_argument", "the provider's answer has a field twice; sign in again")
    provider = _provider(plugin, request)
    pending = _pending(provider, head, query.get("state", ""), _now(plugin))
    base = _base(provider, request)
    if "error" in query or "code" not in query or query.get("iss", provider.settings.issuer) != provider.settings.issuer:
        raise TransomError("unauthenticated", "nobody signed in at the OpenID provider; sign in again")
    redirect_uri = f"{base}{PATH}/{provider.name}/callback"
    claims = await provider.claims(query["code"], pending, redirect_uri, _now(plugin))
    settings = provider.settings
    session = await plugin.sign_in.sign_in(
        settings.tenant,
        person_of(claims, settings.person),
        secure=base.startswith("https:"),
        role=settings.create_role,
        name=name_of(claims),
        door=DOOR,
    )
    answer = Answer(200, _page(pending.return_to), {b"set-cookie": session.cookie.encode()}, media=b"text/html; charset=utf-8")
    answer.headers.append((b"set-cookie", _cookie(provider, "", 0, base)))
    answer.headers.append((b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"))
    answer.headers.append((b"referrer-policy", b"no-referrer"))  # the URL has the code
    return answer


def _provider(plugin: "OidcPlugin", request: HttpRequest) -> Provider:
    name = request.path_params["provider"]
    if name not in plugin.providers:
        raise TransomError("not_found", f"there is no OpenID provider {name[:63]!r} here")
    return plugin.providers[name]


def _pending(provider: Provider, head: RequestHead, state: str, now: int) -> Pending:
    """The sign-in that this browser has begun.

    Raises:
        TransomError: unauthenticated when it is another browser's, too old, or none.
    """
    pairs = (pair.strip().partition("=") for line in head.headers.get("cookie", ()) for pair in line.split(";"))
    values = [value for name, _, value in pairs if name == COOKIE]
    pending = unseal(values[0], provider.key, now) if len(values) == 1 else None
    if pending is None or not hmac.compare_digest(pending.state.encode(), state.encode()):
        raise TransomError("unauthenticated", "this browser has begun no such sign-in, or too long ago; sign in again")
    return pending


def _base(provider: Provider, request: HttpRequest) -> str:
    """Where the browser reaches this server. The provider knows the addresses that it may be sent back to."""
    return provider.settings.public_url.rstrip("/") or f"{request.url.scheme}://{request.url.netloc}"


def _cookie(provider: Provider, value: str, seconds: int, base: str) -> bytes:
    # Lax, not Strict: the browser comes back from the provider's site
    flags = f"Path={PATH}/{provider.name}; Max-Age={seconds}; HttpOnly; SameSite=Lax"
    return f"{COOKIE}={value}; {flags}{'; Secure' if base.startswith('https:') else ''}".encode()


def _page(path: str) -> bytes:
    """A page that goes on by itself: after a redirect from another site no browser would send the session's cookie."""
    target = html.escape(path, quote=True)
    return (
        f'<!doctype html><meta http-equiv="refresh" content="0; url={target}"><title>Signed in</title>'
        f'<p>You are signed in. <a href="{target}">Go on</a></p>'
    ).encode()


def _now(plugin: "OidcPlugin") -> int:
    return plugin.kernel.clock.now() // 1000
