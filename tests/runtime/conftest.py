"""A kernel with a store on disk behind its REST door, and the people of the development mode at the door."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest
from kernel_kit import agents_plugin

import transom.web  # noqa: F401 - imported here, because an import on the event loop would be a blocking call
from transom_hookspecs import DevTokens, Tool
from transom_testing.streaming import sse

ENDED = {"completed", "failed", "cancelled", "timed_out"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class House:
    """What a test does at the door, as one of the people."""

    def __init__(self, kernel: Any, tokens: dict[str, str], client: httpx.AsyncClient) -> None:
        self.kernel, self.tokens, self.client = kernel, tokens, client

    def headers(self, who: str, more: Any = None) -> list[tuple[str, Any]]:
        """A request's headers, with the token of one of the people (nobody has none)."""
        token = [("Authorization", f"Bearer {self.tokens[who]}")] if who in self.tokens else []
        return [*token, *(more.items() if isinstance(more, dict) else more or [])]

    async def get(self, path: str, who: str = "anna", headers: Any = None, **options: Any) -> httpx.Response:
        return await self.client.get(path, headers=self.headers(who, headers), **options)

    async def post(self, path: str, who: str = "anna", headers: Any = None, **options: Any) -> httpx.Response:
        return await self.client.post(path, headers=self.headers(who, headers), **options)

    async def start(
        self, agent: str, input: Any = "hello", who: str = "anna", *, key: str | None = None, **query: str
    ) -> httpx.Response:
        headers = {} if key is None else {"Idempotency-Key": key}
        return await self.post(f"/v1/agents/{agent}/jobs", who, json=input, params=query, headers=headers)

    async def started(self, agent: str, input: Any = "hello", who: str = "anna", **options: Any) -> str:
        """Start a job that is accepted, and return its ID."""
        answer = await self.start(agent, input, who, **options)
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    async def job(self, job: str, who: str = "anna", **query: str) -> dict[str, Any]:
        answer = await self.get(f"/v1/jobs/{job}", who, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def until(self, job: str, *statuses: str, who: str = "anna", **query: str) -> dict[str, Any]:
        """The job once it has one of these statuses, or has ended."""
        with anyio.fail_after(15):
            while (found := await self.job(job, who, **query))["status"] not in (statuses or ENDED):
                await anyio.sleep(0.005)
            return found

    async def ran(self, agent: str, input: Any = "hello", who: str = "anna", **options: Any) -> dict[str, Any]:
        """Start a job and return it at its end."""
        return await self.until(await self.started(agent, input, who, **options), who=who)

    async def jobs(self, who: str = "ada", **query: str) -> list[str]:
        """The IDs that a list shows, newest first."""
        answer = await self.get("/v1/jobs", who, params={"limit": "200", **query})
        assert answer.status_code == 200, answer.text
        return [job["id"] for job in answer.json()["jobs"]]

    async def waits(self, who: str = "ada", **query: str) -> list[dict[str, Any]]:
        """What waits for a person, once something does."""
        with anyio.fail_after(10):
            while not (found := (await self.get("/v1/approvals", who, params=query)).json()["approvals"]):
                await anyio.sleep(0.005)
            return found

    async def events(self, job: str, who: str = "anna", last: str = "", until: str = "") -> list[tuple[str, dict[str, Any]]]:
        """A job's stream, to its end or the first event of a type."""
        headers = self.headers(who, {"Last-Event-ID": last} if last else {})
        found = []
        with anyio.fail_after(15):
            async with self.client.stream("GET", f"/v1/jobs/{job}/events", headers=headers) as answer:
                assert answer.status_code == 200, await answer.aread()
                async for event in sse(answer):
                    found.append((event.id, json.loads(event.data)))
                    if until and found[-1][1]["type"] == until:
                        break
        return found

    async def audited(self, action: str, object: str = "") -> int:
        """How often an action that was not refused stands in the audit trail."""
        rows = await self.kernel.store.audit("default", limit=10_000)
        entries = [row.entry for row in rows if row.entry.outcome != "refused"]
        return sum(entry.action == action and (not object or entry.object == object) for entry in entries)


@pytest.fixture
def house(kernel, door_client) -> Callable[..., Any]:
    """A factory: `async with house(my_agent, tools=(my_tool,), config={…}) as home`."""

    @asynccontextmanager
    async def opened(
        *agents: Any,
        tools: tuple[Tool, ...] = (),
        plugins: tuple[Any, ...] = (),
        config: dict[str, Any] | None = None,
        **options: Any,
    ) -> AsyncIterator[House]:
        mine = [agents_plugin(*agents, tools=tools)] if agents or tools else []
        built_in = ["sqlite", "local_engine", "identity", "policy", "rest", "board", "agents", "scripted", "demo"]
        everything = [*built_in, *mine, *plugins]
        settings = {"dev": True, "tenants": ("default", "acme"), **(config or {})}
        async with kernel(plugins=everything, config=settings, jobs=False, **options) as k, door_client(k) as client:
            yield House(k, k.service(DevTokens).tokens(), client)

    return opened
