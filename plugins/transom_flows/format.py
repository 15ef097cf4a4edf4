"""What the document of a flow may say."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from transom_hookspecs import Json, JsonObject
from transom_hookspecs.declared import BARE, NAMED, Duration

_FUNCTION = rf"^{BARE}\.{BARE}\Z"
_NAME = "a name of up to 63 letters, digits, `-` and `_`"
_SCHEMA = "a JSON Schema, as a mapping"
_DURATION = "a duration, as 30s, 15m, 2h or 30d"
_PATH = "one template, as `${{ input.items }}`"


class Declaration(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A flow's document.

    Parameters:
        name: the flow's; its file's name when left out.
        input, output: JSON Schemas.
        steps: one after the other; see `Step`.
        result: the output, with templates; the last step's result when left out.
    """

    name: Annotated[str, Meta(pattern=NAMED, description=_NAME)] = ""
    title: Annotated[str, Meta(description="text")] = ""
    description: Annotated[str, Meta(description="text")] = ""
    input: Annotated[JsonObject | None, Meta(description=_SCHEMA)] = None
    output: Annotated[JsonObject | None, Meta(description=_SCHEMA)] = None
    steps: Annotated[tuple[JsonObject, ...], Meta(min_length=1, description="a list of steps, at least one")]
    result: Json | UnsetType = UNSET


class Step(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step: an `id`, one action, what goes with that action, and when it runs.

    Actions and what goes with them; values marked * take templates:
        agent: delegates to an agent or flow with `input`*, for `timeout` at most; the result is its output.
        function: calls `<tool>.<function>` with `arguments`*; the result is the function's.
        ask: asks a person a question*, with `choices`* or a `schema`, for `timeout` at most; the result is the answer,
            null when it was declined or expired.
        wait: waits for an event of a source that fits `match`*, for `timeout` at most; the result is the event, null
            when none came.
        output: queues a safe output of the routine with `arguments`*; the result is {applied, state, result, answer}.
        sleep: waits for a duration; the result is null.
        set: the result is the value*.
        together: runs steps at once; the result has each one's under its id.

    Parameters:
        when: a path; the step, and with `together` all in it, is left out and its result is null when the value there is
            false, null, zero or empty.
        for_each: the path of a list of at most 100; the action runs once for each item, one after the other, with the
            item as `${{ item }}`; the result is the list of results.
        on_error: `continue`: a failure does not end the flow, and the result is {"error": {code, message, details}}.
    """

    id: Annotated[str, Meta(pattern=r"^(?!\d+\Z)" + NAMED[1:], description=_NAME + "; not a number")]
    agent: Annotated[str, Meta(pattern=NAMED, description="an agent's or flow's name")] | UnsetType = UNSET
    function: Annotated[str, Meta(pattern=_FUNCTION, description="`<tool>.<function>`")] | UnsetType = UNSET
    ask: Annotated[str, Meta(min_length=1, description="a question")] | UnsetType = UNSET
    wait: Annotated[str, Meta(min_length=1, description="the name of an event source")] | UnsetType = UNSET
    output: Annotated[str, Meta(pattern=NAMED, description="the name of one of the routine's outputs")] | UnsetType = UNSET
    sleep: Annotated[Duration, Meta(description=_DURATION)] | UnsetType = UNSET
    set: Json | UnsetType = UNSET
    together: Annotated[tuple[JsonObject, ...], Meta(min_length=1, description="a list of steps")] | UnsetType = UNSET
    input: Json | UnsetType = UNSET
    arguments: Annotated[JsonObject, Meta(description="a mapping")] | UnsetType = UNSET
    choices: Annotated[tuple[str, ...], Meta(min_length=1, description="a list of texts")] | UnsetType = UNSET
    schema: Annotated[JsonObject, Meta(description=_SCHEMA)] | UnsetType = UNSET
    match: Annotated[JsonObject, Meta(description="a mapping of fields and values")] | UnsetType = UNSET
    timeout: Annotated[Duration, Meta(description=_DURATION)] | UnsetType = UNSET
    when: Annotated[str, Meta(description=_PATH)] | UnsetType = UNSET
    for_each: Annotated[str, Meta(description=_PATH)] | UnsetType = UNSET
    on_error: Annotated[Literal["continue"], Meta(description="`continue`, or leave it out")] | UnsetType = UNSET
