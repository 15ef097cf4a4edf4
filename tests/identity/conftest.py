"""What the identity tests share: heads of requests, accesses, and the plugin as a kernel runs it."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace

import pytest

from transom_hookspecs import Access, Caller, Job, RequestHead, Rule
from transom_identity import IdentityPlugin


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def head() -> Callable[..., RequestHead]:
    def make(*authorization: str) -> RequestHead:
        headers = {"authorization": authorization} if authorization else {}
        return RequestHead(method="GET", path="/v1/jobs/1", headers=headers)

    return make


@pytest.fixture
def job() -> Callable[..., Job]:
    def make(caller: Caller, agent: str = "echo") -> Job:
        return Job(
            id="j1",
            tree="j1",
            agent=agent,
            definition="version:1",
            caller=caller,
            status="running",
            created_at=1,
            digest="",
            id_from="edge",
            token="t",
        )

    return make


@pytest.fixture
def access() -> Callable[..., Access]:
    def make(caller: Caller, permission: str, *, object: str = "", job: Job | None = None, rule: Rule | None = None) -> Access:
        return Access(
            caller=caller, tenant=caller.tenant or "default", permission=permission, object=object, job=job, rule=rule
        )

    return make


@pytest.fixture
def running(tmp_path) -> Callable[..., AbstractAsyncContextManager[None]]:
    def run(plugin: IdentityPlugin, *, dev: bool = True, data: str = "") -> AbstractAsyncContextManager[None]:
        return plugin.run(SimpleNamespace(dev=dev, data=data or str(tmp_path)))

    return run
