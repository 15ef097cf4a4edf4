"""Agents declared in YAML: a model, instructions, and the functions and agents that it may use.

    agents/helper.yaml
    model: gpt-5
    instructions: Greet who asks.
    tools: [team.greet]

`format` has every field, `loop` what such an agent does, `history` how a conversation becomes part of its prompt.
"""

from collections.abc import Sequence

import msgspec

from transom_hookspecs import Agent, JsonObject, Kind, hookimpl

from .format import declaration
from .loop import Loop

__all__ = ["AgentKind", "AgentsPlugin"]


class AgentKind:
    """The kind of documents that stand in a bundle's folder `agents`."""

    name = "agent"
    folder = "agents"

    def load(self, name: str, body: JsonObject) -> Agent:
        """Make the agent that a document declares.

        Raises:
            TransomError: invalid_argument, naming the field, what is wrong and the remedy.
        """
        declared = declaration(name, body)
        return Agent(
            name=name,
            run=Loop(name, declared).run,
            title=declared.title,
            description=declared.description,
            input_schema=declared.input,
            output_schema=declared.output,
            card_schema=declared.card,
            version=declared.version,
            conversations=declared.conversations,
            uses=(*declared.functions, f"model.{declared.model}"),
            timeout=float(declared.timeout),
        )


class AgentsPlugin:
    """Declared agents."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """No settings: what an agent does depends on its document alone, so that its jobs can be replayed."""

    def __init__(self, config: Config) -> None:
        self._config = config

    @hookimpl
    def register_kinds(self) -> Sequence[Kind]:
        """Return the kind `agent`."""
        return [AgentKind()]
