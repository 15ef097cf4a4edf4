"""Kernels with the plugin, and calls of its operations."""

from collections.abc import Callable
from typing import Any

import pytest

from transom_hookspecs import Caller, Origin
from transom_secrets.requests import SetSecret

OPERATOR = Caller(kind="operator", id="local")


def as_operator(tenant: str = "default") -> Origin:
    """Where a call of the process's operator comes from."""
    return Origin(tenant=tenant, caller=OPERATOR, door="test")


@pytest.fixture
def operator() -> Callable[..., Origin]:
    return as_operator


@pytest.fixture
def put() -> Callable[..., Any]:
    """Set a secret: `await put(k, "name", "value", host=("a.example",))`."""

    async def put(k: Any, name: str, value: str, *, tenant: str = "default", **more: Any) -> Any:
        return await k.call("SetSecret", SetSecret(name=name, value=value, **more), as_operator(tenant))

    return put


@pytest.fixture
def opened(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Kernels with the plugin on a SQLite store: `async with opened() as k`."""

    def opened(*plugins: Any, config: Any = None, **options: Any) -> Any:
        settings = {"tenants": ("default", "acme"), "store": "sqlite", **(config or {})}
        chosen = ["secrets", "sqlite", "local_engine", *plugins]
        return kernel(plugins=chosen, jobs=False, config=settings, **options)

    return opened
