"""JSON Schema: checked when it is declared, compiled once, and errors that name the place.

Draft 2020-12 unless `$schema` names another. No remote references; a pattern or a schema past its size is refused.
"""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import unquote

import msgspec

from transom_hookspecs import Json, JsonObject, TransomError

MAX_SCHEMA = 1024 * 1024
MAX_PATTERN = 1_000
MAX_DEPTH = 200

Check = Callable[[Json], str]
"""Returns what is wrong with a value and where, or an empty text."""


def canonical(value: Json) -> bytes:
    """A JSON value as bytes that are equal exactly when the values are: sorted keys, whole floats as integers."""
    return msgspec.json.encode(_normal(value), order="sorted")


def _normal(value: Json) -> Json:
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, list):
        return [_normal(each) for each in value]
    if isinstance(value, dict):
        return {key: _normal(each) for key, each in value.items()}
    return value


def digest(value: Json) -> str:
    """The SHA-256 of a JSON value, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


def check_schema(schema: JsonObject, what: str) -> None:
    """Refuse a schema that cannot be used.

    Raises:
        TransomError: invalid_argument, naming `what`, the place and the remedy.
    """
    if len(msgspec.json.encode(schema)) > MAX_SCHEMA:
        raise TransomError("invalid_argument", f"{what}: a schema may have at most {MAX_SCHEMA} bytes")
    _check_parts(schema, what, "$", 0)
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    kind = validator_for(schema, default=_default())
    _check_references(schema, schema, what)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise TransomError("invalid_argument", f"{what}: no valid JSON Schema at {error.json_path}: {error.message}") from error


def _check_parts(part: Json, what: str, path: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise TransomError("invalid_argument", f"{what}: the schema is nested more than {MAX_DEPTH} deep at {path[:80]}")
    if isinstance(part, list):
        for i, each in enumerate(part):
            _check_parts(each, what, f"{path}[{i}]", depth + 1)
    if not isinstance(part, dict):
        return
    reference = part.get("$ref")
    if isinstance(reference, str) and not reference.startswith("#"):
        raise TransomError(
            "invalid_argument", f"{what}: $ref {reference!r} at {path} points outside; use #/$defs/… in the same schema"
        )
    pattern = part.get("pattern")
    if isinstance(pattern, str) and len(pattern) > MAX_PATTERN:
        raise TransomError("invalid_argument", f"{what}: the pattern at {path} is longer than {MAX_PATTERN} characters")
    if part.get("nullable") is True:
        raise TransomError(
            "invalid_argument", f'{what}: "nullable" at {path} means nothing in JSON Schema; write "type": [..., "null"]'
        )
    for key, each in part.items():
        _check_parts(each, what, f"{path}.{key}", depth + 1)


def _check_references(part: Json, schema: JsonObject, what: str) -> None:
    """Every reference by a JSON pointer leads somewhere in the schema."""
    if isinstance(part, list):
        for each in part:
            _check_references(each, schema, what)
    if not isinstance(part, dict):
        return
    reference = part.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/") and not _found(schema, reference[2:]):
        raise TransomError("invalid_argument", f"{what}: $ref {reference!r} leads nowhere in the schema")
    for each in part.values():
        _check_references(each, schema, what)


def _found(schema: Json, pointer: str) -> bool:
    for part in pointer.split("/"):
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(schema, dict) and name in schema:
            schema = schema[name]
        elif isinstance(schema, list) and name.isdecimal() and int(name) < len(schema):
            schema = schema[int(name)]
        else:
            return False
    return True


def warm() -> None:
    """Import the validator, which takes a tenth of a second, before anybody waits for it."""
    checker({"type": "string"})("")


def _default() -> type:
    from jsonschema import Draft202012Validator

    return Draft202012Validator


def checker(schema: JsonObject) -> Check:
    """The compiled check of a schema; the same object for the same schema."""
    return _compiled(msgspec.json.encode(schema, order="deterministic"))


@lru_cache(maxsize=4096)
def _compiled(encoded: bytes) -> Check:
    from jsonschema import FormatChecker
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    schema = msgspec.json.decode(encoded)
    kind = validator_for(schema, default=_default())
    validator = kind(schema, format_checker=FormatChecker(formats=()), registry=Registry())

    def check(value: Json) -> str:
        try:
            error = best_match(validator.iter_errors(value))
        except RecursionError:
            return "is nested too deeply"
        except Unresolvable as lost:
            return f"cannot be checked: the schema's reference {lost.ref!r} leads nowhere"
        if error is None:
            return ""
        message = error.message if len(error.message) <= 300 else f"{error.message[:300]}…"
        return f"at {error.json_path}: {message}"

    return check


def require(schema: JsonObject, value: Json, what: str) -> None:
    """Refuse a value that does not match.

    Raises:
        TransomError: invalid_argument, saying what and where.
    """
    if wrong := checker(schema)(value):
        raise TransomError("invalid_argument", f"{what} does not match its schema {wrong}", {"reason": "schema"})
