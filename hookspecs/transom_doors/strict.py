"""Values that came from outside, as Structs and strictly: no field that a caller misspelt is passed over.

The contract's Structs themselves skip what they do not know, so that they may gain fields.
"""

from collections.abc import Callable, Collection, Hashable, Iterator
from functools import lru_cache
from typing import TypeVar

import msgspec
from msgspec import inspect

from transom_hookspecs import Json, TransomError

T = TypeVar("T", bound=msgspec.Struct)


@lru_cache(maxsize=1024)
def _described(kind: Hashable) -> inspect.Type:
    return inspect.type_info(kind)


Hidden = Collection[tuple[type, str]]
"""Fields that are there, but not for who sends the value: a Struct and a field's name each."""


def fitted(value: Json, kind: type[T], hidden: Hidden = ()) -> T:
    """A decoded JSON value as a type.

    Parameters:
        hidden: fields that are taken for unknown ones, at any depth.

    Raises:
        TransomError: invalid_argument when it does not fit or has a field that is unknown, at any depth, naming the field.
    """
    try:
        made = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise TransomError("invalid_argument", f"the body does not fit: {error}") from error
    if path := next(_unknown(_described(kind), value, "$", hidden), ""):
        raise TransomError("invalid_argument", f"the body does not fit: there is no field `{path[:200]}`; leave it out")
    return made


def _unknown(kind: inspect.Type, value: Json, path: str, hidden: Hidden) -> Iterator[str]:
    """The paths of the fields that a type does not have."""
    if isinstance(kind, inspect.Metadata):
        yield from _unknown(kind.type, value, path, hidden)
    elif isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from _unknown(each, value, path, hidden)
    elif isinstance(value, dict):
        yield from _in_object(kind, value, path, hidden)
    elif isinstance(value, list) and (item_of := _item_types(kind)) is not None:
        for n, item in enumerate(value):
            if isinstance(item, dict | list):
                yield from _unknown(item_of(n), item, f"{path}[{n}]", hidden)


def _in_object(kind: inspect.Type, value: dict[str, Json], path: str, hidden: Hidden) -> Iterator[str]:
    if isinstance(kind, inspect.DictType):
        for name, inner in value.items():
            if isinstance(inner, dict | list):
                yield from _unknown(kind.value_type, inner, f"{path}.{name}", hidden)
    elif isinstance(kind, inspect.StructType) and (kind.tag_field is None or value.get(kind.tag_field) == kind.tag):
        fields = {each.encode_name: each.type for each in kind.fields if (kind.cls, each.name) not in hidden}
        for name, inner in value.items():
            if name in fields:
                yield from _unknown(fields[name], inner, f"{path}.{name}", hidden)
            elif name != kind.tag_field:
                yield f"{path}.{name}"


def _item_types(kind: inspect.Type) -> Callable[[int], inspect.Type] | None:
    """The type of a list's item by its place; None where the items may be anything."""
    if isinstance(kind, inspect.TupleType):
        return kind.item_types.__getitem__
    if isinstance(kind, inspect.ListType | inspect.VarTupleType | inspect.SetType | inspect.FrozenSetType):
        item = kind.item_type
        return lambda _: item
    return None
