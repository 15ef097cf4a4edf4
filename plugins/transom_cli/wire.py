"""What goes over the REST wire, as this client reads and writes it; the routes stand in `remote`.

JSON fields are the camelCase forms of the contract's Structs' fields, times are RFC 3339. Which dictionaries are
Structs is read from the types, so that what people and agents wrote (inputs, arguments, schemas) keeps its own keys.
The commands' `--json` prints the same shapes, whether a server or a kernel in this process answered.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TypeVar, cast, get_args
from urllib.parse import quote

import msgspec
from msgspec import inspect

from transom_hookspecs import (
    CODES,
    AnyEvent,
    Code,
    DecideApproval,
    Entry,
    JobAnswer,
    JobView,
    Json,
    JsonObject,
    Rule,
    StartJob,
    TransomError,
    WaitOpened,
    WaitView,
)

S = TypeVar("S", bound=msgspec.Struct)

_BY_HTTP: Mapping[int, Code] = {
    400: "invalid_argument",
    401: "unauthenticated",
    403: "permission_denied",
    404: "not_found",
    409: "already_exists",
    413: "invalid_argument",
    429: "resource_exhausted",
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
}
_TIMES = frozenset(("at", "expires", "since", "started_at", "closed_at", "opened_at", "expires_at", "begun_at", "ended_at"))
_LATEST = 253_402_300_799_999  # the end of the year 9999: what comes later is no time
_ABSENT: Mapping[type, JsonObject] = {
    JobView: {"tree": "", "token": "", "started_at": 0},
    WaitView: {"expires_at": 0},
    WaitOpened: {"expires": 0},
    Rule: {"veto": False, "count": 1},
}
"""What a field is that the wire leaves out, where that is not the contract's own default."""
_EVENT_TYPES = frozenset(str(kind.__struct_config__.tag) for kind in get_args(AnyEvent))


def path(*parts: str) -> str:
    """A path under /v1, each part quoted."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def start_query(request: StartJob) -> dict[str, str]:
    """The start's query parameters, those that are set."""
    query = {
        "id": request.id,
        "timeout": "" if request.timeout is None else f"{request.timeout:.3f}".rstrip("0").rstrip(".") + "s",
        "tags": ",".join(request.tags),
        "team": request.team,
        "conversation": request.conversation,
    }
    return {name: value for name, value in query.items() if value}


def start_body(value: Json) -> tuple[str, bytes]:
    """The input's content type and bytes: text as text, all else as JSON."""
    if isinstance(value, str):
        return "text/plain; charset=utf-8", value.encode()
    return "application/json", msgspec.json.encode(value)


def decision(decision: DecideApproval) -> tuple[str, JsonObject]:
    """A decision's verb in its path, and its body."""
    body: JsonObject = {"comment": decision.comment, "confirm": decision.confirm, "token": decision.token}
    told: JsonObject = {name: value for name, value in body.items() if value}
    if decision.approved is None:
        return "answer", {**told, "answer": decision.answer}
    return "approve" if decision.approved else "deny", told


def decode(type: type[S], value: Json) -> S:
    """A Struct from its JSON on the wire; fields that this version does not know are left out.

    Raises:
        TransomError: data_loss when the server's answer does not have the shape.
    """
    return cast("S", _converted(type, value, type.__name__))


def started(value: JsonObject) -> JobAnswer:
    """The answer to a start: the job's own fields and `retried` beside them, or the job in a field."""
    job = value.get("job")
    return JobAnswer(job=decode(JobView, job if isinstance(job, dict) else value), retried=value.get("retried") is True)


def encode(value: msgspec.Struct) -> JsonObject:
    """A Struct as JSON on the wire."""
    return cast("JsonObject", _write(_info(type(value)), msgspec.to_builtins(value)))


def entry(data: str) -> Entry | None:
    """A log entry from an event's data; None when it is of a type that this version does not know.

    Raises:
        TransomError: data_loss when it does not have the shape.
    """
    try:
        body = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise _misshapen("event", error) from error
    if not isinstance(body, dict) or body.get("type") not in _EVENT_TYPES:
        return None
    event = cast("AnyEvent", _converted(AnyEvent, body, "event"))
    try:
        return Entry(int(body["seq"]), _milliseconds(body["at"]), event)
    except (KeyError, TypeError, ValueError) as error:
        raise _misshapen("event", error) from error


def entry_json(item: Entry) -> JsonObject:
    """A log entry as the wire has it: the event's fields beside its `seq` and `at`."""
    return {"seq": item.seq, "at": _rfc3339(item.at), **encode(item.event)}


def error(status: int, body: bytes) -> TransomError:
    """The error that an answer tells of."""
    try:
        told = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        told = None  # a proxy's page: the status has to do
    if isinstance(told, dict) and isinstance(told.get("message"), str):
        code, details = told.get("code"), told.get("details")
        known: Code = code if code in CODES else _BY_HTTP.get(status, "unknown")
        return TransomError(known, told["message"], details if isinstance(details, dict) else None)
    return TransomError(_BY_HTTP.get(status, "unknown"), f"the server answered HTTP {status}", {"status": status})


def _converted(type: object, value: Json, what: str) -> object:
    try:
        return msgspec.convert(_read(_info(type), value), type)
    except (msgspec.ValidationError, ValueError) as error:
        raise _misshapen(what, error) from error


def _misshapen(what: str, error: Exception) -> TransomError:
    return TransomError("data_loss", f"the server's answer is no {what}: {error}; are client and server of different versions?")


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


@cache
def _info(type: object) -> inspect.Type:
    return inspect.type_info(type)


def _read(info: inspect.Type, value: Json) -> Json:
    """The wire's JSON with the contract's names, as deep as the type says that there are Structs."""
    if isinstance(value, list) and (item := _item_of(info)):
        return [_read(item, each) for each in value]
    if isinstance(value, dict) and (struct := _struct_of(info, value)):
        return _read_struct(struct, value)
    return _milliseconds(value) if isinstance(value, str) and isinstance(info, inspect.IntType) else value


def _read_struct(info: inspect.StructType, value: JsonObject) -> JsonObject:
    read: JsonObject = dict(_ABSENT.get(info.cls, {}))
    if info.tag_field:
        read[info.tag_field] = value[info.tag_field]
    for field in info.fields:
        name = field.encode_name
        found = value.get(_camel(name), value.get(name))
        if found is not None or (field.required and {name, _camel(name)} & value.keys()):
            read[name] = _read(field.type, found)
    return read


def _write(info: inspect.Type, value: Json) -> Json:
    """The reverse of `_read`, of a Struct's builtins."""
    if isinstance(value, list | tuple) and (item := _item_of(info)):
        return [_write(item, each) for each in value]
    if isinstance(value, dict) and (struct := _struct_of(info, value)):
        return _write_struct(struct, value)
    return value


def _write_struct(info: inspect.StructType, value: JsonObject) -> JsonObject:
    written: JsonObject = {info.tag_field: value[info.tag_field]} if info.tag_field else {}
    told = _ABSENT.get(info.cls, {})
    for field in info.fields:
        name = field.encode_name
        if name in value:
            found = _write_time(value[name]) if name in _TIMES else _write(field.type, value[name])
            if found is not None or name not in _TIMES:
                written[_camel(name)] = found
        elif name in told:
            written[_camel(name)] = cast("Json", field.default)  # the contract leaves out what the wire does not
    return written


def _write_time(value: Json) -> Json:
    return _rfc3339(value) or None if isinstance(value, int) else value


def _struct_of(info: inspect.Type, value: JsonObject) -> inspect.StructType | None:
    if isinstance(info, inspect.StructType):
        return info
    if isinstance(info, inspect.UnionType):
        structs = [each for each in info.types if isinstance(each, inspect.StructType)]
        tagged = [each for each in structs if each.tag_field and value.get(each.tag_field) == each.tag]
        return next(iter(tagged or structs), None)
    return None


def _item_of(info: inspect.Type) -> inspect.Type | None:
    return info.item_type if isinstance(info, inspect.VarTupleType | inspect.ListType) else None


def _milliseconds(value: object) -> int:
    """A time on the wire, as milliseconds or in RFC 3339, in milliseconds (Unix); 0 for none."""
    if isinstance(value, str):
        return round(datetime.fromisoformat(value).timestamp() * 1000) if value else 0
    return int(cast("int", value))


def _rfc3339(at: int) -> str:
    """A time in milliseconds (Unix) in RFC 3339; empty for none."""
    if not 0 < at <= _LATEST:
        return ""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
