"""How a Struct's fields become columns: which SQL type each has, and how a value gets there and back.

Scalar fields are columns as they are; every other field is JSON text, and NULL where it is None.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import inspect
from msgspec.structs import FieldInfo

from transom_hookspecs import SYSTEM, Scalar

Convert = Callable[[Any], Any]

AFFINITY: dict[type, str] = {str: "TEXT", int: "INTEGER", float: "REAL", bool: "INTEGER"}
_SCALARS: dict[type, type] = {
    inspect.StrType: str,
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.BoolType: bool,
    inspect.NoneType: type(None),
}


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field and its column.

    Parameters:
        column: the quoted name of its column.
        affinity: the column's SQL type.
        scalar: whether it can be part of a key or an index.
        nullable: whether it may hold NULL.
        default: its default as an SQL literal, or empty when it has none.
        write, read: conversions to and from the column's value; None where the value is the same.
    """

    name: str
    column: str
    affinity: str
    scalar: bool
    nullable: bool
    default: str
    write: Convert | None
    read: Convert | None


def field_of(info: FieldInfo) -> Field:
    """The column of one field of a Struct."""
    kinds = _kinds(inspect.type_info(info.type))
    nullable = type(None) in kinds or object in kinds
    kinds.discard(type(None))
    only = kinds.pop() if len(kinds) == 1 else object
    write, read = _conversions(info.type, only, nullable)
    return Field(
        name=info.name,
        column=column_of(info.name),
        affinity=AFFINITY.get(only, "TEXT"),
        scalar=only in AFFINITY,
        nullable=nullable,
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


def _kinds(kind: inspect.Type) -> set[type]:
    """The scalar types that a field's values have; `object` for whatever is no scalar."""
    if isinstance(kind, inspect.UnionType):
        return {scalar for option in kind.types for scalar in _kinds(option)}
    if isinstance(kind, inspect.LiteralType):
        return {type(value) for value in kind.values}
    return {_SCALARS.get(type(kind), object)}


def _conversions(type: Any, kind: type, nullable: bool) -> tuple[Convert | None, Convert | None]:
    if kind is bool:
        return None, _read_bool if nullable else bool
    if kind in AFFINITY:
        return None, None
    encode, decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(type).decode

    def write(value: Any) -> str | None:
        return None if value is None else encode(value).decode()

    def read(value: str | None) -> Any:
        return None if value is None else decode(value)

    return write, read if nullable else decode


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
