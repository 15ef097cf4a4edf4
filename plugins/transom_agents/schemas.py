"""Whether an answer fits the schema that was declared for it."""

from typing import Final

from transom_hookspecs import Json, JsonObject

_LONGEST: Final = 300


class Fitting:
    """A JSON Schema, ready to check values: of the draft that its `$schema` names, else 2020-12.

    The catalog has checked the schema itself. References out of it are not followed.
    """

    def __init__(self, schema: JsonObject) -> None:
        from jsonschema import Draft202012Validator
        from jsonschema.validators import validator_for
        from referencing import Registry

        self._validator = validator_for(schema, default=Draft202012Validator)(schema, registry=Registry())

    def misfit(self, value: Json) -> str:
        """What in a value does not fit and where, short enough for a prompt; empty when it fits."""
        from jsonschema.exceptions import best_match
        from referencing.exceptions import Unresolvable

        try:
            error = best_match(self._validator.iter_errors(value))
        except Unresolvable as lost:
            return f"the schema's reference {lost.ref!r} leads nowhere"
        except RecursionError:
            return "it is nested too deeply"
        if error is None:
            return ""
        message = error.message if len(error.message) <= _LONGEST else error.message[:_LONGEST] + "…"
        return f"at {error.json_path}: {message}"
