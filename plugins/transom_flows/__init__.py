"""Flows declared in YAML: steps in a fixed order, which pass data on by `${{ path }}`.

    flows/greet.yaml
    steps:
      - id: draft
        agent: writer
        input: { about: "${{ input.topic }}" }
      - id: send
        function: team.post
        arguments: { text: "${{ steps.draft }}" }
    result: ${{ steps.send.id }}

`format` has every field, `actions` what a step can do, `templates` what `${{ }}` means, `plan` what is checked when a
flow is read, `runner` how it runs.
"""

from collections.abc import Sequence

import msgspec

from transom_hookspecs import Agent, JsonObject, Kind, hookimpl

from .plan import plan
from .runner import Runner

__all__ = ["FlowKind", "FlowsPlugin"]


class FlowKind:
    """The kind of documents that stand in a bundle's folder `flows`."""

    name = "flow"
    folder = "flows"

    def load(self, name: str, body: JsonObject) -> Agent:
        """Make the flow that a document declares.

        Raises:
            TransomError: invalid_argument, naming the step and field, what is wrong and the remedy.
        """
        flow = plan(name, body)
        return Agent(
            name=name,
            run=Runner(flow).run,
            title=flow.declared.title,
            description=flow.declared.description,
            input_schema=flow.declared.input,
            output_schema=flow.declared.output,
            flow=True,
            uses=flow.uses,
        )


class FlowsPlugin:
    """Declared flows."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """No settings: what a flow does depends on its document alone, so that its jobs can be replayed."""

    def __init__(self, config: Config) -> None:
        self._config = config

    @hookimpl
    def register_kinds(self) -> Sequence[Kind]:
        """Return the kind `flow`."""
        return [FlowKind()]
