"""What the document of an agent may say."""

from typing import Annotated

from msgspec import Meta, Struct

from transom_hookspecs import Json, JsonObject
from transom_hookspecs.declared import BARE, NAMED, Duration, decode

_FUNCTIONS = rf"^{BARE}\.(?:{BARE}|\*)\Z"
_SCHEMA = "a JSON Schema, as a mapping"


class Declaration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent's document.

    Parameters:
        name: the agent's; its file's name when left out.
        model: which model it asks.
        instructions: what the model is told first, as the system message.
        tools: the functions it may call: `<tool>.<function>`, `<tool>.*`, and `oz.ask` to ask a person.
        agents: the agents and flows it may delegate to.
        input, output, card: JSON Schemas; without `input` it takes text or any JSON, without `output` it answers text.
        max_calls: how often one job may ask the model.
        max_tokens: how long one answer may be, in tokens.
        options: passed on to the model as they are.
        conversations: whether it takes part in conversations.
        version: for people; a running job keeps the document that it started with anyway.
        timeout: of a whole job, waits included.
    """

    name: Annotated[str, Meta(pattern=NAMED, description="up to 63 letters, digits, `-` and `_`")] = ""
    title: Annotated[str, Meta(description="text")] = ""
    description: Annotated[str, Meta(description="text")] = ""
    model: Annotated[str, Meta(min_length=1, description="the name of a model, as `model: <name>`")]
    instructions: Annotated[str, Meta(description="text")] = ""
    tools: Annotated[
        tuple[Annotated[str, Meta(pattern=_FUNCTIONS)], ...],
        Meta(description="a list of functions, each `<tool>.<function>` or `<tool>.*`"),
    ] = ()
    agents: Annotated[
        tuple[Annotated[str, Meta(pattern=NAMED)], ...],
        Meta(description="a list of agents' names"),
    ] = ()
    input: Annotated[JsonObject | None, Meta(description=_SCHEMA)] = None
    output: Annotated[JsonObject | None, Meta(description=_SCHEMA)] = None
    card: Annotated[JsonObject | None, Meta(description=_SCHEMA)] = None
    max_calls: Annotated[int, Meta(ge=1, le=1_000, description="a whole number from 1 to 1000")] = 100
    max_tokens: Annotated[int, Meta(ge=1, description="a whole number from 1")] = 4096
    temperature: Annotated[Annotated[float, Meta(ge=0, le=2)] | None, Meta(description="a number from 0 to 2")] = None
    options: Annotated[dict[str, Json], Meta(description="a mapping of the model's own options")] = {}
    conversations: Annotated[bool, Meta(description="true or false")] = True
    version: Annotated[str, Meta(description="text")] = "1"
    timeout: Annotated[Duration, Meta(description="a duration, as 30s, 15m, 2h or 30d")] = Duration(30 * 86_400)

    @property
    def functions(self) -> tuple[str, ...]:
        """All that the model may call: functions, and agents as `agent.<name>`."""
        return tuple(dict.fromkeys((*self.tools, *(f"agent.{name}" for name in self.agents))))


def declaration(name: str, body: JsonObject) -> Declaration:
    """Read an agent's document.

    Raises:
        TransomError: invalid_argument, naming the field, what is wrong and the remedy.
    """
    return decode(f"agent {name!r}", body, Declaration)
