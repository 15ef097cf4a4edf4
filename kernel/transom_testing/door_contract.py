"""What every door must do: subclass `DoorContract` in a test module, and give it a fixture `plugin` and its `routes`.

class TestMyDoor(DoorContract):
    routes = (("POST", "/my/echo"), ("GET", "/my/jobs/a"))

    @pytest.fixture
    def plugin(self) -> type:
        return MyDoorPlugin
"""

# ruff: noqa: D102 - a test's name says what it is about

from collections.abc import AsyncIterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import unquote

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transom.web import create_app
from transom_hookspecs import Caller, RequestHead, hookimpl

if TYPE_CHECKING:
    from .fixtures import KernelFactory
    from .streaming import App

_SETTINGS = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],  # several may subclass it
)
_PATIENCE = 10.0
"""Seconds after which something that should have happened did not."""

TOKEN = "t0ken-of-the-door-contract"  # noqa: S105 - it opens nothing but the contract's own kernel


class Guard:
    """An identity plugin that knows one token, an operator's."""

    name = "contract_guard"
    spec = "1.0"

    def __init__(self, config: object) -> None:
        """Take no settings."""

    @hookimpl
    def authenticate(self, head: RequestHead) -> Caller | None:
        """The operator, when the one token was sent as a bearer token."""
        sent = head.headers.get("authorization")
        return Caller(kind="operator", id="contract") if sent == (f"Bearer {TOKEN}",) else None


Headers = Sequence[tuple[bytes, bytes]]
_GOOD: Headers = ((b"authorization", f"Bearer {TOKEN}".encode()),)
_NAMES = (
    *(b"accept", b"accept-encoding", b"authorization", b"connection", b"content-encoding", b"content-length"),
    *(b"content-type", b"cookie", b"host", b"idempotency-key", b"if-none-match", b"last-event-id", b"origin"),
    *(b"range", b"traceparent", b"transfer-encoding", b"x-forwarded-for"),
)
_TOKEN_LETTERS = st.sampled_from([bytes([c]) for c in b"!#$%&'*+-.^_`|~0189abcxyz"])
_HEADERS = st.lists(
    st.tuples(
        st.sampled_from(_NAMES) | st.lists(_TOKEN_LETTERS, min_size=1, max_size=12).map(b"".join),
        st.binary(max_size=40).map(lambda value: value.translate(None, b"\0\r\n")),
    ),
    max_size=4,
)


class Exchange:
    """One request, as a server hands it over, and what the door makes of it.

    `read`: how often the door asked for the body before its answer began.
    """

    def __init__(self, body: bytes) -> None:
        self.read, self.status = 0, 0
        self.told = b""
        self._body: bytes | None = body
        self._begun = anyio.Event()

    async def receive(self) -> MutableMapping[str, Any]:
        """The body, and once the answer has begun that the client is gone: so an endless one ends."""
        if not self.status:
            self.read += 1
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._begun.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Keep what is sent."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.told += b"\n".join(value for _, value in message["headers"])
            self._begun.set()
        self.told += message.get("body", b"")


async def _ask(app: "App", route: tuple[str, str], headers: Headers = (), query: bytes = b"", body: bytes = b"{}") -> Exchange:
    method, path = route
    exchange = Exchange(body)
    scope: MutableMapping[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query,
        "root_path": "",
        "headers": list(headers),
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    with anyio.fail_after(_PATIENCE):
        await app(scope, exchange.receive, exchange.send)
    return exchange


class DoorContract:
    """A door's routes know the caller before they read the body, take no key in a URL, and survive any header.

    `routes` are (method, path) pairs, with the path's parameters filled in; what they name need not be there.
    """

    pytestmark = pytest.mark.anyio
    routes: ClassVar[Sequence[tuple[str, str]]] = ()

    @pytest.fixture
    def anyio_backend(self) -> str:
        """The event loop that doors run on."""
        return "asyncio"

    @pytest.fixture
    def plugin(self) -> type | str:
        """The plugin's class, or its name when it is installed: subclasses give their own."""
        raise NotImplementedError

    @pytest.fixture
    def config(self) -> dict[str, Any]:
        """Settings of the kernel, and plugins' tables by name."""
        return {}

    @pytest.fixture
    async def app(self, kernel: "KernelFactory", plugin: type | str, config: dict[str, Any]) -> AsyncIterator["App"]:
        """The application of a running kernel that has the door."""
        async with kernel(plugins=[plugin, Guard], config=config) as core:
            yield cast("App", create_app(core))

    async def test_there_are_routes_and_they_are_served(self, app: "App") -> None:
        assert self.routes, "name the door's routes"
        for route in self.routes:
            answered = await _ask(app, route, _GOOD)
            assert answered.status not in (401, 405), f"{route} answers {answered.status} to a good credential"

    @pytest.mark.parametrize(
        "headers",
        [(), ((b"authorization", b"Bearer wrong"),), ((b"authorization", b"\xff\xfe"),)],
        ids=["none", "one that is not good", "one that is no text"],
    )
    async def test_without_a_credential_it_refuses_before_it_reads_the_body(self, app: "App", headers: Headers) -> None:
        for route in self.routes:
            answered = await _ask(app, route, headers, body=b"x" * 65_536)
            assert answered.status == 401, f"{route} answers {answered.status}"
            assert answered.read == 0, f"{route} read the body of a caller that it does not know"

    @pytest.mark.parametrize("name", ["token", "access_token", "api_key", "key", "authorization"])
    async def test_a_key_in_the_url_opens_nothing(self, app: "App", name: str) -> None:
        for route in self.routes:
            answered = await _ask(app, route, query=f"{name}={TOKEN}".encode())
            assert answered.status in (400, 401), f"{route} answers {answered.status}"
            assert TOKEN.encode() not in answered.told, f"{route} repeats the key"

    @_SETTINGS
    @given(headers=_HEADERS, known=st.booleans())
    async def test_any_bytes_in_any_header_are_answered(self, app: "App", headers: Headers, known: bool) -> None:
        for route in self.routes:
            answered = await _ask(app, route, (*headers, *(_GOOD if known else ())))
            fine = answered.status < 500 or answered.status == 501  # nothing here does what the route asks for
            assert fine, f"{route} answers {answered.status} to {headers}"
