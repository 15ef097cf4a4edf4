"""The backend of the chat: it signs people in, holds the tokens, and passes each run through as it is.

    transom dev --json | python backend.py

It reads one line of JSON from standard input, `{"url": …, "tokens": {…}}`, as the development server prints it: where
Transom is, the key of the app `deskapp`, and a token of each person. The page gets a cookie and never a token.
"""

import argparse
import asyncio
import secrets
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import anyio
import httpx
import msgspec
import uvicorn
from litestar import Litestar, Request, Response, delete, get, post
from litestar.datastructures import Cookie, MutableScopeHeaders
from litestar.exceptions import HTTPException, NotAuthorizedException, PermissionDeniedException
from litestar.params import Parameter
from litestar.static_files import create_static_files_router
from litestar.types import ASGIApp, Message, Receive, Scope, Send

PAGE = Path(__file__).parent / "page"
APP = "deskapp"
PEOPLE = ("anna", "omar", "ada")
"""Who may sign in. An application of yours knows its people, and asks for a password."""

COOKIE = "chat_session"
SESSION_SECONDS = 12 * 3600
RENEW_SECONDS = 60.0
"""A token with less time left than this is not used for another run."""

IDENTITY = {"Accept-Encoding": "identity"}
"""An answer is passed on as it is, so it is not to be compressed for the backend."""

MAX_BODY = 4 * 1024 * 1024
GRANT = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a type's name

SAFE = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
"""What every answer tells the browser: nothing but this page's own files runs, and nobody frames it."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What `transom dev --json` prints.

    Parameters:
        tokens: a name to its bearer token: the app's own key, and each person's.
    """

    url: str
    tokens: dict[str, str]


class SignIn(msgspec.Struct, frozen=True, kw_only=True):
    """Who signs in."""

    person: str


class Session:
    """A person who is signed in, and the token with which the app acts for her."""

    def __init__(self, person: str, ends: float) -> None:
        self.person, self.ends = person, ends
        self.token, self.token_ends = "", 0.0
        self.renewing = anyio.Lock()


class Desk:
    """The app at Transom: its sessions and their tokens.

    Parameters:
        http: a client with Transom's address as its base.
        now: a clock, in seconds.
    """

    def __init__(self, settings: Settings, http: httpx.AsyncClient, now: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._now = settings, now
        self.http = http
        self._sessions: dict[str, Session] = {}

    async def sign_in(self, person: str) -> str:
        """Begin a session; returns its ID, which only the cookie has."""
        if person not in PEOPLE or person not in self._settings.tokens:
            raise PermissionDeniedException(detail="There is no such person here.")
        session = Session(person, self._now() + SESSION_SECONDS)
        await self.token(session)
        self._sessions = {key: each for key, each in self._sessions.items() if each.ends > self._now()}
        identity = secrets.token_urlsafe(32)
        self._sessions[identity] = session
        return identity

    def sign_out(self, request: Request[Any, Any, Any]) -> None:
        """End a session; its token is forgotten, and ends by itself."""
        self._sessions.pop(request.cookies.get(COOKIE, ""), None)

    def signed_in(self, request: Request[Any, Any, Any]) -> Session | None:
        """The session that a request belongs to."""
        session = self._sessions.get(request.cookies.get(COOKIE, ""))
        return session if session is not None and session.ends > self._now() else None

    async def ask(self, request: Request[Any, Any, Any], asked: httpx.Request) -> httpx.Response:
        """Ask Transom as the app that acts for whoever is signed in; the answer's body is still to come.

        Raises:
            HTTPException: nobody is signed in, or Transom is away.
        """
        session = self.signed_in(request)
        if session is None:
            raise NotAuthorizedException(detail="You are not signed in any more. Sign in again.")
        token = await self.token(session)
        answer = await self._send(asked, token)
        if answer.status_code == 401:  # a token may end sooner than it said
            await answer.aclose()
            if session.token == token:
                session.token_ends = 0.0
            answer = await self._send(asked, await self.token(session))
        return answer

    async def _send(self, asked: httpx.Request, token: str) -> httpx.Response:
        asked.headers["Authorization"] = f"Bearer {token}"
        try:
            return await self.http.send(asked, stream=True)
        except httpx.HTTPError as error:
            raise unreachable() from error

    async def token(self, session: Session) -> str:
        """The session's app token, exchanged anew when it is about to end."""
        async with session.renewing:
            if session.token_ends - self._now() < RENEW_SECONDS:
                await self._exchange(session)
            return session.token

    async def _exchange(self, session: Session) -> None:
        form = {
            "grant_type": GRANT,
            "subject_token": self._settings.tokens[session.person],
            "subject_token_type": ACCESS_TOKEN,
        }
        asked_at = self._now()
        key = {"Authorization": f"Bearer {self._settings.tokens[APP]}"}
        try:
            answer = await self.http.post("/oauth/token", data=form, headers=key)
        except httpx.HTTPError as error:
            raise unreachable() from error
        if answer.status_code != 200:
            print(f"{session.person}: no token: {answer.status_code} {answer.text}", file=sys.stderr)
            raise NotAuthorizedException(detail="Transom does not let you in any more. Sign in again.")
        got = answer.json()
        session.token, session.token_ends = got["access_token"], asked_at + got["expires_in"]


def unreachable() -> HTTPException:
    """What is said while Transom is away."""
    return HTTPException(status_code=502, detail="The agents cannot be reached at the moment.")


class PassedThrough:
    """An answer of Transom's, byte by byte as it comes, until it ends or the page is gone.

    When it breaks off in the middle, so does this one: the page sees that it did not end, and asks for the rest.
    """

    def __init__(self, answer: httpx.Response) -> None:
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        async with anyio.create_task_group() as tasks:

            async def until_gone() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                tasks.cancel_scope.cancel()

            tasks.start_soon(until_gone)
            await self._pass(send)
            tasks.cancel_scope.cancel()

    async def _pass(self, send: Send) -> None:
        answer = self._answer
        kind = answer.headers.get("content-type", "application/octet-stream").encode()
        headers = [(b"content-type", kind), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
        try:
            await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
            async for chunk in answer.aiter_raw():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except httpx.HTTPError as error:
            print(f"{answer.url.path}: broke off: {error!r}", file=sys.stderr)
        finally:
            with anyio.CancelScope(shield=True):
                await answer.aclose()


def only_this_page(hosts: tuple[str, ...]) -> Callable[[Request[Any, Any, Any]], Awaitable[None]]:
    """A check before every request: it is for this host, and what may change something comes from this page.

    The cookie alone would not do: another site's page could have a browser send it.
    """

    async def check(request: Request[Any, Any, Any]) -> None:
        host = request.headers.get("host", "")
        if host not in hosts:
            raise PermissionDeniedException(detail="This page is served under another address.")
        if request.method not in ("GET", "HEAD") and request.headers.get("origin") != f"http://{host}":
            raise PermissionDeniedException(detail="Only the chat's own page may ask for this.")

    return check


def told(_: Request[Any, Any, Any], error: HTTPException) -> Response[dict[str, str]]:
    """An error in words for the page."""
    return Response({"code": str(error.status_code), "message": error.detail}, status_code=error.status_code)


async def add_safety(message: Message, _: Scope) -> None:
    """Add what every answer tells the browser."""
    if message["type"] == "http.response.start":
        headers = MutableScopeHeaders(message)
        for name, value in SAFE.items():
            headers[name] = value


AgentName = Annotated[str, Parameter(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")]


def routes(desk: Desk, tenant: str) -> list[Any]:
    """What the page asks for."""

    @get("/session")
    async def who(request: Request[Any, Any, Any]) -> dict[str, Any]:
        session = desk.signed_in(request)
        return {"person": session.person if session else None, "people": PEOPLE}

    @post("/session", status_code=200)
    async def sign_in(data: SignIn) -> Response[dict[str, str]]:
        identity = await desk.sign_in(data.person)
        cookie = Cookie(key=COOKIE, value=identity, max_age=SESSION_SECONDS, httponly=True, samesite="strict")
        return Response({"person": data.person}, cookies=[cookie])

    @delete("/session", status_code=204)
    async def sign_out(request: Request[Any, Any, Any]) -> None:
        desk.sign_out(request)

    @get("/agents")
    async def agents(request: Request[Any, Any, Any]) -> ASGIApp:
        asked = desk.http.build_request("GET", "/v1/agents", params={"tenant": tenant}, headers=IDENTITY)
        return PassedThrough(await desk.ask(request, asked))

    @post("/agents/{agent:str}")
    async def run(request: Request[Any, Any, Any], agent: AgentName) -> ASGIApp:
        headers = {"Content-Type": request.headers.get("content-type", ""), **IDENTITY}
        if place := request.headers.get("last-event-id"):
            headers["Last-Event-ID"] = place
        path, body = f"/v1/agui/agents/{agent}", await request.body()
        asked = desk.http.build_request("POST", path, params={"tenant": tenant}, headers=headers, content=body)
        return PassedThrough(await desk.ask(request, asked))

    return [who, sign_in, sign_out, agents, run]


def make_app(desk: Desk, hosts: tuple[str, ...], tenant: str = "default") -> Litestar:
    """The application.

    Parameters:
        hosts: what it answers to, with the port.
    """

    @asynccontextmanager
    async def connected(_: Litestar) -> AsyncIterator[None]:
        async with desk.http:
            yield

    return Litestar(
        [*routes(desk, tenant), create_static_files_router(path="/", directories=[PAGE], html_mode=True)],
        before_request=only_this_page(hosts),
        before_send=[add_safety],
        exception_handlers={HTTPException: told},
        lifespan=[connected],
        logging_config=None,
        openapi_config=None,
        request_max_body_size=MAX_BODY,
    )


async def serve(settings: Settings, port: int, tenant: str) -> None:
    """Serve on this machine alone, until it is stopped."""
    listening = socket.create_server(("127.0.0.1", port))
    port = listening.getsockname()[1]
    patience = httpx.Timeout(10, read=60)  # a stream says something every quarter of a minute
    desk = Desk(settings, httpx.AsyncClient(base_url=settings.url, timeout=patience, trust_env=False))
    app = make_app(desk, (f"127.0.0.1:{port}", f"localhost:{port}"), tenant)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, server_header=False))
    print(f"The chat is at http://127.0.0.1:{port}", flush=True)
    await server.serve(sockets=[listening])


def main() -> None:
    """Read where Transom is from standard input, and serve."""
    parser = argparse.ArgumentParser(description="The chat's backend: transom dev --json | python backend.py")
    parser.add_argument("--port", type=int, default=8000, help="where the page is served (default: 8000; 0: any that is free)")
    parser.add_argument("--tenant", default="default", help="whose agents they are (default: default)")
    options = parser.parse_args()
    if not (PAGE / "bundle.js").exists():
        parser.error("the page's script is not built: run `npm install` in this folder first")
    line = sys.stdin.readline()
    if not line:
        parser.error("nothing came in: run `transom dev --json | python backend.py`")
    asyncio.run(serve(msgspec.json.decode(line, type=Settings), options.port, options.tenant))


if __name__ == "__main__":
    main()
