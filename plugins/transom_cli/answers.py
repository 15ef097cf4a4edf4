"""What an operation answered, for people: a list of things is a table, a list of texts lines, anything else a line a field."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from .render import compact
from .safe import safe, safe_line
from .screen import say, table, when

_NOTHING: Final = "-"
_TIMES: Final = ("at", "since", "until", "expires")
_YEAR_9999: Final = 253_402_300_799_999


def show(answer: msgspec.Struct) -> None:
    """Print an answer: lists of Structs as tables, below the lines of its other fields."""
    names = [name for name in _names(answer) if name != "cursor"]
    lists = [name for name in names if _items(answer, name) is msgspec.inspect.StructType]
    if len(names) == 1 and _items(answer, names[0]) is msgspec.inspect.StrType:
        for text in getattr(answer, names[0]):
            say(safe(text))
    else:
        for line in _lines({name: getattr(answer, name) for name in names if name not in lists}):
            say(line)
    for name in lists:
        if len(lists) > 1:
            say(f"\n{_title(name)}:", "head")
        _table(getattr(answer, name), f"There are no {_title(name)}.")
    if not names:
        say("Done.", "dim", err=True)
    if cursor := getattr(answer, "cursor", ""):
        say(f"There are more: the same with --cursor {safe_line(str(cursor))}", "dim", err=True)


def cell(name: str, value: Any) -> str:
    """A value in one line."""
    if value is None or value in ("", ()):
        return _NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and (name in _TIMES or name.endswith("_at")):
        return when(value) or _NOTHING if value <= _YEAR_9999 else "never"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    if isinstance(value, tuple | list) and not any(isinstance(each, msgspec.Struct | dict | list) for each in value):
        return ", ".join(cell("", each) for each in value)
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else compact(msgspec.to_builtins(value))


def _lines(values: dict[str, Any], indent: str = "") -> list[str]:
    """A line a value; what is inside a Struct is indented below its name, and so are texts of several lines."""
    lines: list[str] = []
    width = max((len(name) for name in values), default=0) + 2
    for name, value in values.items():
        if isinstance(value, msgspec.Struct):
            lines += [f"{indent}{_title(name)}", *_lines({each: getattr(value, each) for each in _names(value)}, f"{indent}  ")]
        elif isinstance(value, str) and "\n" in value.strip():
            lines += [f"{indent}{_title(name)}", *(f"{indent}  {line}" for line in safe(value).splitlines())]
        else:
            lines.append(f"{indent}{_title(name):<{width}}{safe_line(cell(name, value))}")
    return lines


def _table(rows: Sequence[msgspec.Struct], empty: str) -> None:
    """Rows in columns; one in which no row differs from the field's default is left out."""
    names = [name for name in _names(rows[0]) if any(_tells(row, name) for row in rows)] if rows else []
    table([_title(name) for name in names], [[cell(name, getattr(row, name)) for name in names] for row in rows], empty=empty)


def _tells(row: msgspec.Struct, name: str) -> bool:
    field = next(field for field in msgspec.structs.fields(type(row)) if field.name == name)
    default = field.default_factory() if field.default is msgspec.NODEFAULT and not field.required else field.default
    return field.required or getattr(row, name) != default


def _names(struct: msgspec.Struct) -> list[str]:
    """A Struct's fields, those first that it always has: what names it is among them."""
    fields = msgspec.structs.fields(type(struct))
    return [field.name for field in sorted(fields, key=lambda field: not field.required)]


def _items(answer: msgspec.Struct, name: str) -> type | None:
    """What a field is a list of, also when it is empty; None when it is no list."""
    info = msgspec.inspect.type_info(type(answer))
    assert isinstance(info, msgspec.inspect.StructType)
    kind = next(field.type for field in info.fields if field.name == name)
    several = msgspec.inspect.VarTupleType | msgspec.inspect.ListType
    return type(kind.item_type) if isinstance(kind, several) else None


def _title(name: str) -> str:
    return name.replace("_", " ")
