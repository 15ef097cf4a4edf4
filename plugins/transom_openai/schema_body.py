"""From a ModelRequest to a body for models without function calls: the answer's schema offers the choice instead.

The system text names the functions, the response format allows one of them or an answer, and results go back as
messages of the user.
"""

from collections.abc import Sequence
from itertools import groupby

from transom_hookspecs import FunctionSpec, Json, JsonObject, Message, ModelRequest

from .body import json_text, response_format, result_text

_VALUES = frozenset(("const", "enum", "default", "examples"))
"""Keywords whose values are data, not schemas."""
_NAMED = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"))
"""Keywords whose values are schemas by name."""


def schema(request: ModelRequest) -> JsonObject:
    """Messages and response format that let the model choose a function or an answer."""
    body: JsonObject = {"messages": _messages(request)}
    if request.functions:
        body["response_format"] = response_format(_choice(request))
    elif request.output_schema is not None:
        body["response_format"] = response_format(request.output_schema)
    return body


def _messages(request: ModelRequest) -> list[Json]:
    written = [_message(message, chooses=bool(request.functions)) for message in request.messages]
    if request.functions:
        written.insert(0, {"role": "system", "content": _instructions(request)})
    return _alternating(written)


def _alternating(messages: Sequence[dict[str, str]]) -> list[Json]:
    """Join neighbours of one role: many small models' templates refuse two in a row."""
    joined: list[Json] = []
    for _, same in groupby(messages, key=lambda message: message["role"]):
        first, *others = same
        content = "\n\n".join(message["content"] for message in (first, *others))
        joined.append({**first, "content": content})
    return joined


def _instructions(request: ModelRequest) -> str:
    functions = "\n".join(
        json_text({"name": f.name, "description": f.description, "parameters": f.parameters}) for f in request.functions
    )
    # no example text stands in it: small models would answer with that
    answer = "value" if request.output_schema is not None else "text"
    return (
        f"You have these functions:\n{functions}\n"
        'Write one JSON object: {"call": name, "arguments": {}} calls a function and gives you its result; '
        f'{{"answer": {answer}}} says {answer} to the user. When you have the result, answer.'
    )


def _message(message: Message, *, chooses: bool) -> dict[str, str]:
    if message.role == "tool":
        return {"role": "user", "content": f"Result of {message.function or 'the call'}: {result_text(message)}"}
    if message.role != "assistant" or not (chooses or message.calls):
        return {"role": message.role, "content": message.content}
    said = [json_text({"call": c.function, "arguments": c.arguments}) for c in message.calls]
    return {"role": "assistant", "content": "\n".join(said) or json_text({"answer": message.content})}


def _choice(request: ModelRequest) -> JsonObject:
    """One object a function, and one for the answer."""
    definitions: JsonObject = {}
    choices: list[Json] = [_call(f, f"f{i}", definitions) for i, f in enumerate(request.functions)]
    answer: Json = {"type": "string"}
    if request.output_schema is not None:
        answer = _hoisted(request.output_schema, "answer", definitions)
    choices.append(_object({"answer": answer}))
    return {"anyOf": choices, "$defs": definitions} if definitions else {"anyOf": choices}


def _call(function: FunctionSpec, place: str, definitions: JsonObject) -> Json:
    arguments = _hoisted(function.parameters, place, definitions)
    return _object({"call": {"const": function.name}, "arguments": arguments})


def _object(properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _hoisted(part: JsonObject, place: str, definitions: JsonObject) -> JsonObject:
    """A schema as part of another: its references to its own root are made to find it there."""
    rebased = _rebase(part, f"#/$defs/{place}")
    if rebased == part or not isinstance(rebased, dict):
        return part
    definitions[place] = rebased
    return {"$ref": f"#/$defs/{place}"}


def _rebase(value: Json, root: str, *, named: bool = False) -> Json:
    """The schema with its references moved under `root`. `named`: the keys are names, as those of `properties`."""
    if isinstance(value, list):
        return [_rebase(entry, root) for entry in value]
    if not isinstance(value, dict):
        return value
    if named:
        return {name: _rebase(entry, root) for name, entry in value.items()}
    return {key: _rebase_keyword(key, entry, root) for key, entry in value.items()}


def _rebase_keyword(key: str, value: Json, root: str) -> Json:
    if key == "$ref" and isinstance(value, str) and value.startswith("#"):
        return root + value[1:]
    return value if key in _VALUES else _rebase(value, root, named=key in _NAMED)
