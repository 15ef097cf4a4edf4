"""The plugin's own HTTP routes: signing in and out, exchanging a token, and a subject's token.

They are where a credential comes from, so they do not all have a caller yet; everything else is an operation.
"""

from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Request
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from transom_doors import bodies, heads
from transom_doors.answers import Answer, refusal, rfc3339, status_of
from transom_doors.handlers import handler
from transom_hookspecs import Json, Origin, RequestHead, TransomError

from .credential_requests import CreateSubjectToken, EndSession
from .exchange import OAuthError
from .origins import check_own_page, speaks_tls
from .presented import COOKIE

if TYPE_CHECKING:
    from . import IdentityPlugin

LIMIT = 16 * 1024
"""Bytes of a body."""

DOOR = "identity"
_GONE = f"{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict".encode()

HttpRequest = Request[Any, Any, Any]


class SignInBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a sign-in."""

    person: str
    password: str


def make_handlers(plugin: "IdentityPlugin") -> list[HTTPRouteHandler]:
    """The handlers."""

    async def sign_in(request: HttpRequest) -> ASGIApp:
        return await _sign_in(plugin, request)

    async def sign_out(request: HttpRequest) -> ASGIApp:
        return await _sign_out(plugin, request)

    async def exchange(request: HttpRequest) -> ASGIApp:
        return await _exchange(plugin, request)

    async def subject(request: HttpRequest) -> ASGIApp:
        return await _subject(plugin, request)

    return [
        handler(DOOR, "POST", "/v1/sessions", sign_in, refuse=_refused),
        handler(DOOR, "DELETE", "/v1/sessions", sign_out),
        handler(DOOR, "POST", "/oauth/token", exchange, refuse=_oauth),
        handler(DOOR, "POST", "/subjects/tokens", subject, refuse=_problem),
        handler(DOOR, "POST", "/api/v1/subjects/tokens", subject, refuse=_problem),
    ]


# -- sessions


async def _sign_in(plugin: "IdentityPlugin", request: HttpRequest) -> ASGIApp:
    head = heads.head_of(request.scope)
    tenant = heads.tenant_of(heads.query_of(heads.pairs_of(head), {"tenant"}))
    public_url = plugin.home.kernel.settings(tenant).public_url
    if "origin" in head.headers or "sec-fetch-site" in head.headers:
        check_own_page(head, public_url)  # a browser asks: nobody else's page signs somebody in
    body = await bodies.json_body(head, request.receive, LIMIT, SignInBody)
    session = await plugin.sessions.sign_in_with_password(
        tenant,
        body.person,
        body.password,
        address=head.client,
        secure=speaks_tls(head, request.scope["scheme"], public_url),
        door=DOOR,
    )
    told = {"person": session.person, "tenant": session.tenant, "expires_at": rfc3339(session.expires_at)}
    return Answer(200, msgspec.json.encode(told), {b"set-cookie": session.cookie.encode()})


async def _sign_out(plugin: "IdentityPlugin", request: HttpRequest) -> ASGIApp:
    head = heads.head_of(request.scope)
    heads.query_of(heads.pairs_of(head), set())
    kernel = plugin.home.kernel
    caller = await kernel.authenticate(head)
    if not caller.via.startswith("session:"):
        raise TransomError("failed_precondition", "this credential is no session; there is nothing to sign out of")
    session = EndSession(id=caller.via.removeprefix("session:"))
    await kernel.call("EndSession", session, Origin(tenant=caller.tenant, caller=caller, door=DOOR))
    return Answer(200, b"{}", {b"set-cookie": _GONE})


def _refused(error: TransomError) -> Answer:
    answer = refusal(error)
    if isinstance(seconds := error.details.get("retry_after"), int):
        answer.headers.append((b"retry-after", b"%d" % seconds))
    return answer


# -- token exchange


async def _exchange(plugin: "IdentityPlugin", request: HttpRequest) -> ASGIApp:
    head = heads.head_of(request.scope)
    heads.query_of(heads.pairs_of(head), set())
    try:
        form = await bodies.form_body(head, request.receive, LIMIT)
        answer = await plugin.exchange.exchange(head, form)
    except OAuthError as error:
        return _oauth_answer(error)
    return Answer(200, msgspec.json.encode(answer), {b"pragma": b"no-cache"})


def _oauth(error: TransomError) -> ASGIApp:
    status = status_of(error)
    if status in (500, 503):
        return refusal(error)
    return _oauth_answer(OAuthError("invalid_request", error.message, status if status in (413, 415) else 400))


def _oauth_answer(error: OAuthError) -> Answer:
    body = msgspec.json.encode({"error": error.error, "error_description": error.description})
    headers = {b"pragma": b"no-cache"} | (
        {b"www-authenticate": b'Basic realm="transom", Bearer'} if error.status == 401 else {}
    )
    return Answer(error.status, body, headers)


# -- subjects


async def _subject(plugin: "IdentityPlugin", request: HttpRequest) -> ASGIApp:
    head = heads.head_of(request.scope)
    heads.query_of(heads.pairs_of(head), set())
    kernel = plugin.home.kernel
    caller = await kernel.authenticate(head)
    asked = await _asked(head, request)
    made = await kernel.call("CreateSubjectToken", asked, Origin(tenant=caller.tenant, caller=caller, door=DOOR))
    told = {"token": made.token, "subject_id": made.subject_id, "expires_at": rfc3339(made.expires_at)}
    return Answer(200, msgspec.json.encode(told))


class FieldRefused(TransomError):
    """A field of a body that will not do; `param` is its path."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__("invalid_argument", message)
        self.param = param


async def _asked(head: RequestHead, request: HttpRequest) -> CreateSubjectToken:
    """The request, field by field: what does not fit is told with the path of its field."""
    body = await bodies.json_body(head, request.receive, LIMIT, dict[str, Json])
    subject, seconds = body.get("subject"), body.get("expires_in", 900)
    if not isinstance(subject, dict):
        raise FieldRefused("subject", 'subject: send an object, {"id": "…"}')
    if not isinstance(subject.get("id"), str):
        raise FieldRefused("subject.id", "subject.id: send a text")
    if not isinstance(seconds, int) or isinstance(seconds, bool):
        raise FieldRefused("expires_in", "expires_in: send a whole number of seconds")
    return CreateSubjectToken(subject=str(subject["id"]), expires_in=seconds)


_PARAMS = {"subject": "subject.id", "expires_in": "expires_in"}
_TITLES = {400: "Bad request", 401: "Unauthorized", 403: "Forbidden", 413: "Content too large", 422: "Unprocessable content"}


def _problem(error: TransomError) -> Answer:
    """An error as application/problem+json, 422 with `param` for a field."""
    status = status_of(error)
    param = error.param if isinstance(error, FieldRefused) else _PARAMS.get(error.message.partition(":")[0], "")
    body: dict[str, Json] = {"type": "about:blank", "title": "", "status": status, "detail": error.message}
    if error.code == "invalid_argument" and param:
        status = 422
        body |= {"status": status, "param": param}
    body["title"] = _TITLES.get(status, "Error")
    headers = {b"www-authenticate": b"Bearer"} if status == 401 else None
    return Answer(status, msgspec.json.encode(body), headers, media=b"application/problem+json")
