"""What the tests of declared agents, flows and tools share."""

from collections.abc import Callable

import pytest

from transom import yaml
from transom_agents import AgentKind
from transom_flows import FlowKind
from transom_hookspecs import Agent


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def agent() -> Callable[..., Agent]:
    """An agent of its YAML."""
    return lambda text, name="helper": AgentKind().load(name, yaml.load(text, f"agents/{name}.yaml"))


@pytest.fixture
def flow() -> Callable[..., Agent]:
    """A flow of its YAML."""
    return lambda text, name="deploy": FlowKind().load(name, yaml.load(text, f"flows/{name}.yaml"))
