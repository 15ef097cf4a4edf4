"""How a Struct's fields become columns: which SQL type each has, and how a value gets there and back.

Scalar fields are columns as they are; every other field is JSON text, and NULL where it is None.
"""

import types
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

from transom_hookspecs import SYSTEM, Scalar

Convert = Callable[[Any], Any]

AFFINITY: dict[type, str] = {str: "TEXT", int: "INTEGER", float: "REAL", bool: "INTEGER"}


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field and its column.

    Parameters:
        column: the quoted name of its column.
        affinity: the column's SQL type.
        nullable: whether it may hold NULL.
        default: its default as an SQL literal, or empty when it has none.
        write, read: conversions to and from the column's value; None where the value is the same.
    """

    name: str
    column: str
    affinity: str
    nullable: bool
    default: str
    write: Convert | None
    read: Convert | None


def field_of(info: FieldInfo) -> Field:
    """The column of one field of a Struct."""
    kind, nullable = _scalar(info.type)
    write, read = _conversions(info.type, kind)
    return Field(
        name=info.name,
        column=column_of(info.name),
        affinity=AFFINITY[kind] if kind else "TEXT",
        nullable=nullable or kind is None,
        default=_default(info, write),
        write=write,
        read=read,
    )


def column_of(name: str) -> str:
    """The quoted column of a field; `tenant` is the store's own column, so a field of that name gets another."""
    return '"tenant_"' if name == "tenant" else f'"{name}"'


def stored(tenant: str) -> str:
    """A tenant as its column has it: SYSTEM's NUL would cut a text dump of the file short."""
    return "$system" if tenant == SYSTEM else tenant


def literal(value: Scalar) -> str:
    """A value as an SQL literal."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(int(value) if isinstance(value, bool) else value)


def _scalar(kind: Any) -> tuple[type | None, bool]:
    """The scalar type that a field's values have (None: JSON) and whether they may be None."""
    options = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    scalars = {scalar for option in options for scalar in _scalars_of(option)}
    nullable = type(None) in scalars
    scalars.discard(type(None))
    only = scalars.pop() if len(scalars) == 1 else None
    return (only if only in AFFINITY else None), nullable


def _scalars_of(option: Any) -> tuple[Any, ...]:
    return tuple(type(value) for value in get_args(option)) if get_origin(option) is Literal else (option,)


def _conversions(type: Any, kind: type | None) -> tuple[Convert | None, Convert | None]:
    if kind is bool:
        return None, _read_bool
    if kind is not None:
        return None, None
    encode, decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(type).decode

    def write(value: Any) -> str | None:
        return None if value is None else encode(value).decode()

    def read(value: str | None) -> Any:
        return None if value is None else decode(value)

    return write, read


def _read_bool(value: int | None) -> bool | None:
    return None if value is None else value != 0


def _default(info: FieldInfo, write: Convert | None) -> str:
    if info.default is not msgspec.NODEFAULT:
        value = info.default
    elif info.default_factory is not msgspec.NODEFAULT:
        value = info.default_factory()
    else:
        return ""
    return literal(write(value) if write else value)
