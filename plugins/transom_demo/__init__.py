"""The demo bundle: agents and tools that show every kind of step, without a language model or an account anywhere.

Agents that are a model and its tools are YAML documents in `bundle/agents`; their model is `scripted`. Those whose
course a program decides are Python, in `agents`. Nothing here reaches the outside. Loaded in development mode only.
"""

from pathlib import Path
from typing import ClassVar

import msgspec

from transom_hookspecs import Agent, Bundle, Tool, hookimpl

from .agents import AGENTS
from .tools import TOOLS


class DemoPlugin:
    """Registers the demo bundle."""

    spec = "1.0"
    dev_only: ClassVar[bool] = True

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """No settings."""

    def __init__(self, config: Config) -> None:
        self._config = config

    @hookimpl
    def register_bundles(self) -> list[Bundle]:
        """The declared agents."""
        return [Bundle(name="demo", path=str(Path(__file__).parent / "bundle"))]

    @hookimpl
    def register_agents(self) -> list[Agent]:
        """The agents in Python."""
        return list(AGENTS)

    @hookimpl
    def register_tools(self) -> list[Tool]:
        """The tools of both."""
        return list(TOOLS)
