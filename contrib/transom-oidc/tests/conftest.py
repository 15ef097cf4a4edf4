"""A real provider process, and a kernel that knows it."""

import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from transom_oidc import OidcPlugin

SECRET = "the-secret-of-the-client"
HOST = "http://testserver"
HERE = Path(__file__).parent / "provider"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def issuer(tmp_path_factory) -> Iterator[str]:
    """The address of a provider that runs; skips where there is no node, or no way to its package."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not installed; they run the provider of these tests")
    folder = tmp_path_factory.mktemp("provider")
    for file in HERE.iterdir():
        shutil.copy(file, folder)
    install = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"]
    done = subprocess.run(install, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot install oidc-provider: {done.stderr[-300:]}")
    command = [node, "server.mjs", f"{HOST}/v1/oidc/test/callback", SECRET]
    process = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with process:
        yield process.stdout.readline().strip()
        process.stdin.close()


@pytest.fixture
def house(kernel, door_client, monkeypatch) -> Callable[..., AbstractAsyncContextManager[Any]]:
    """A factory of a kernel with the provider `test`, whose settings may be changed, and a client at its door."""
    monkeypatch.setenv("OIDC_SECRET", SECRET)

    @asynccontextmanager
    async def opened(issuer: str, **settings: Any) -> AsyncIterator[tuple[Any, httpx.AsyncClient]]:
        provider = {"issuer": issuer, "client_id": "transom", "client_secret_env": "OIDC_SECRET", **settings}
        plugins = [OidcPlugin, "sqlite", "identity", "policy", "rest"]
        config = {"oidc": {"providers": {"test": provider}}, "dev": True, "tenants": ("default", "acme")}
        async with (
            kernel(plugins=plugins, jobs=False, config=config) as k,
            door_client(k, base_url=HOST) as client,
        ):
            yield k, client

    return opened
