"""What the identity tests share: heads of requests, and a whole kernel with people at its door."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest

from transom_hookspecs import Caller, DevTokens, RequestHead, TransomError

EVERYTHING = ("sqlite", "local_engine", "identity", "policy", "rest", "board", "agents", "scripted", "demo")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def head() -> Callable[..., RequestHead]:
    """A request's head, with the values of its Authorization header, and other headers by name."""

    def make(*authorization: str, method: str = "GET", certificate: str = "", **others: Any) -> RequestHead:
        given = {"authorization": authorization} if authorization else {}
        given |= {name.replace("_", "-"): (v,) if isinstance(v, str) else tuple(v) for name, v in others.items()}
        return RequestHead(method=method, path="/v1/jobs/1", headers=given, certificate=certificate)

    return make


class House:
    """A running kernel, its people's tokens, and an HTTP client at its door."""

    def __init__(self, kernel: Any, client: httpx.AsyncClient) -> None:
        self.kernel, self.client = kernel, client
        service = kernel.service(DevTokens)
        self.tokens: dict[str, str] = service.tokens()

    def bearer(self, who: str) -> dict[str, str]:
        """The header of one of the tokens by name, or of a token itself."""
        return {"Authorization": f"Bearer {self.tokens.get(who, who)}"}

    async def ask(self, operation: str, who: str = "ada", tenant: str = "default", **fields: Any) -> httpx.Response:
        """Call an operation over HTTP."""
        return await self.client.post(
            f"/v1/operations/{operation}", json=fields, headers=self.bearer(who), params={"tenant": tenant}
        )

    async def did(self, operation: str, who: str = "ada", tenant: str = "default", **fields: Any) -> dict[str, Any]:
        """Call an operation that goes well; returns its answer."""
        answer = await self.ask(operation, who, tenant, **fields)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def refused(self, operation: str, who: str = "ada", tenant: str = "default", **fields: Any) -> tuple[int, str]:
        """Call an operation that is refused; returns the status and what it says."""
        answer = await self.ask(operation, who, tenant, **fields)
        assert answer.status_code >= 400, answer.text
        return answer.status_code, answer.json()["message"]

    async def status(self, token: str, path: str = "/v1/agents", **headers: str) -> int:
        """What a token gets."""
        return (await self.client.get(path, headers={**self.bearer(token), **headers})).status_code

    async def caller(self, token: str) -> Caller:
        """Whom the kernel takes a bearer token for."""
        return await self.kernel.authenticate(
            RequestHead(method="GET", path="/", headers={"authorization": (f"Bearer {self.tokens.get(token, token)}",)})
        )

    async def audited(self, tenant: str = "default") -> list[Any]:
        """The tenant's audit trail."""
        return [row.entry for row in await self.kernel.store.audit(tenant, limit=10_000)]


@pytest.fixture
def house(kernel, door_client) -> Callable[..., AbstractAsyncContextManager[House]]:
    """A factory: `async with house(identity={…}) as home`; development mode unless `dev=False`."""

    @asynccontextmanager
    async def opened(*, dev: bool = True, identity: dict[str, Any] | None = None, **options: Any) -> AsyncIterator[House]:
        settings = {"dev": dev, "tenants": ("default", "acme"), "identity": identity or {}}
        async with (
            kernel(plugins=EVERYTHING, config=settings, jobs=False, **options) as k,
            door_client(k) as client,
        ):
            yield House(k, client)

    return opened


@pytest.fixture
async def home(house) -> AsyncIterator[House]:
    """A kernel in development mode."""
    async with house() as home:
        yield home


@pytest.fixture(scope="session")
def code_of() -> Callable[..., Any]:
    """The code that a coroutine is refused with."""

    async def code(awaited: Any) -> str:
        with pytest.raises(TransomError) as refused:
            await awaited
        return refused.value.code

    return code
