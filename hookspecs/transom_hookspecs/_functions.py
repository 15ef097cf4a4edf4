"""How a typed Python function becomes a Function: its arguments as a Struct, its schemas, its caller."""

import inspect
from collections.abc import Callable, Mapping
from typing import cast

import msgspec

from .errors import TransomError
from .tools import CallContext, FunctionCall
from .values import Json, JsonObject


def arguments_struct(call: Callable[..., object], hints: Mapping[str, object]) -> type[msgspec.Struct]:
    """A Struct with one field a parameter; unknown arguments are refused."""
    fields: list[tuple[str, type] | tuple[str, type, object]] = []
    for parameter in inspect.signature(call).parameters.values():
        hint = hints.get(parameter.name)
        if hint is CallContext:
            continue
        if hint is None or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TransomError(
                "invalid_argument", f"function {call.__name__!r}: parameter {parameter.name!r} needs a type hint and no *"
            )
        kind = cast("type", hint)
        fields.append(
            (parameter.name, kind) if parameter.default is parameter.empty else (parameter.name, kind, parameter.default)
        )
    return msgspec.defstruct(f"{call.__name__}_arguments", fields, kw_only=True, forbid_unknown_fields=True, frozen=True)


def schema_of(kind: type) -> JsonObject:
    """A JSON Schema (2020-12) that stands alone, with no title of ours."""
    (schema,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    if set(schema) == {"$ref"}:
        schema = definitions.pop(schema["$ref"].rpartition("/")[2])
        schema.pop("title", None)
    if definitions:
        schema["$defs"] = definitions
    return cast("JsonObject", schema)


def output_schema(kind: object) -> JsonObject | None:
    """The schema of a return type, when one can be made and says anything."""
    if kind is None or kind is type(None) or kind is object:
        return None
    try:
        return schema_of(cast("type", kind)) or None
    except TypeError:
        return None


def caller(call: Callable[..., object], arguments: type[msgspec.Struct], hints: Mapping[str, object]) -> FunctionCall:
    """The adapter from (context, JSON arguments) to the function's own parameters."""
    contexts = [name for name, hint in hints.items() if hint is CallContext and name != "return"]

    def bound(context: CallContext, values: JsonObject) -> dict[str, object]:
        try:
            given = msgspec.convert(values, arguments)
        except msgspec.ValidationError as error:
            raise TransomError("invalid_argument", f"{call.__name__}: {error}") from error
        named = {name: getattr(given, name) for name in arguments.__struct_fields__}
        named.update(dict.fromkeys(contexts, context))
        return named

    if inspect.iscoroutinefunction(call):

        async def run(context: CallContext, values: JsonObject) -> Json:
            return cast("Json", msgspec.to_builtins(await call(**bound(context, values))))

        return run

    def run_plain(context: CallContext, values: JsonObject) -> Json:
        return cast("Json", msgspec.to_builtins(call(**bound(context, values))))

    return run_plain
