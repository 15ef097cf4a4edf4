"""The fields of an operation's request as arguments and options of a command, and back.

A required field is an argument, any other an option; lists are repeated, what is nested is given as JSON. What a field
means is read from the Struct's docstring (its section `Parameters:`) and from `msgspec.Meta`.
"""

import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import click
import msgspec
from msgspec import inspect as types

from transom_hookspecs import Operation

from .options import read_json
from .screen import watched

_PREFIX: Final = "field_"
"""Of a parameter's name, so that no field takes the name of an option that every command has."""
_TAKEN: Final = frozenset(("help", "json", "url", "token-file", "ca-file", "data", "tenant"))
_COMMON: Final = {"limit": "How many.", "cursor": "Go on where the last page ended."}
_SEVERAL = types.VarTupleType | types.ListType | types.SetType | types.FrozenSetType
_AS_JSON = types.AnyType | types.DictType | types.StructType | types.UnionType | types.TupleType | _SEVERAL


class JsonType(click.ParamType):  # type: ignore[type-arg]  # which older versions of click do not take
    """JSON of any kind: given as such, as `-` (standard input) or as `@file`."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it."""
        shown = param.get_error_hint(ctx) if param is not None and ctx is not None else "value"
        return read_json(value, shown) if isinstance(value, str) else value


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a request, as a command takes it.

    Parameters:
        kind: of the value, or of each one of several.
        nullable: null is taken, and mostly means that something is left as it is.
        meaning: one sentence.
    """

    name: str
    kind: Any
    required: bool
    default: Any
    several: bool
    nullable: bool
    meaning: str

    @property
    def metavar(self) -> str:
        """How usage names it."""
        return self.name.upper()

    @property
    def about(self) -> str:
        """What help says of it as an argument."""
        words = ", ".join(self.kind.choices) if isinstance(self.kind, click.Choice) else ""
        words = "yes, no" if self.kind is click.BOOL else words
        return " ".join(filter(None, (self.meaning, f"One of: {words}." if words else "")))

    def argument(self) -> click.Argument:
        """It as an argument."""
        shown, count = (f"{self.metavar}...", -1) if self.several else (self.metavar, 1)
        return click.Argument([_PREFIX + self.name], type=self.kind, nargs=count, required=True, metavar=shown)

    def option(self, first_word: str) -> click.Option:
        """It as an option.

        Parameters:
            first_word: of the command, put before a name that an option of every command has already.
        """
        name = self.name.replace("_", "-")
        name = f"--{first_word}-{name}" if name in _TAKEN else f"--{name}"
        if self.kind is click.BOOL and not self.several:
            both = self.nullable or self.default is True
            flags = f"{name}/--no-{name[2:]}" if both else name
            return click.Option([flags, _PREFIX + self.name], is_flag=True, default=None, help=self._help())
        return click.Option(
            [name, _PREFIX + self.name], type=self.kind, multiple=self.several, required=self.required, help=self._help()
        )

    def _help(self) -> str:
        said = [self.meaning]
        if self.several:
            said.append("May be repeated; '' means none." if self.nullable else "May be repeated.")
        if isinstance(self.default, str | int | float) and self.default != "" and self.default is not False:
            said.append(f"[default: {'yes' if self.default is True else self.default}]")
        return " ".join(filter(None, said))


def parameters(operation: Operation) -> list[click.Parameter]:
    """The arguments and options; of several required lists one is an argument, since nobody could tell where one ends."""
    made: list[click.Parameter] = []
    listed = False
    for field in fields_of(operation):
        as_argument = field.required and not (field.several and listed)
        listed = listed or (field.required and field.several)
        made.append(field.argument() if as_argument else field.option(operation.command.partition(" ")[0]))
    return made


def fields_of(operation: Operation) -> list[Field]:
    """The fields that are no secrets, in their order."""
    return [field for field in _fields(operation) if field.name not in operation.secret]


def secrets_of(operation: Operation) -> list[Field]:
    """The secret ones."""
    return [field for field in _fields(operation) if field.name in operation.secret]


def ask_secrets(secrets: Sequence[Field]) -> dict[str, str]:
    """Ask for secrets at the terminal; elsewhere a single one is all of standard input, several are a line each.

    Raises:
        click.UsageError: a required one is not there.
    """
    if not secrets:
        return {}
    given = _prompted(secrets) if watched(sys.stdin) else _piped(len(secrets))
    found = {field.name: value for field, value in zip(secrets, given, strict=False) if value}
    for field in secrets:
        if field.required and field.name not in found:
            raise click.UsageError(f"{field.metavar}: nothing stands on standard input; write it there, or use a terminal.")
    return found


def request_of(operation: Operation, given: Mapping[str, Any], secrets: Mapping[str, str]) -> msgspec.Struct:
    """The request, of a command's parameters and the secrets.

    Raises:
        click.UsageError: a value does not fit; it names the field, and shows no secret.
    """
    values: dict[str, Any] = dict(secrets)
    for field in fields_of(operation):
        value = given.get(_PREFIX + field.name)
        if value is not None and value != ():
            values[field.name] = _several(value, nullable=field.nullable) if field.several else value
    try:
        request: msgspec.Struct = msgspec.convert(values, operation.request)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$.")
        name = re.split(r"[.\[`]", path, maxsplit=1)[0]
        hidden = name in operation.secret or (not name and secrets)
        reason = "its form is not what it must be" if hidden else reason
        raise click.UsageError(f"{name.upper() or 'The request'}: {reason}.") from error
    return request


def _prompted(secrets: Sequence[Field]) -> list[str]:
    return [
        click.prompt(
            field.name.replace("_", " ").capitalize() + ("" if field.required else " (empty for none)"),
            hide_input=True,
            err=True,
            default=None if field.required else "",
            show_default=False,
        )
        for field in secrets
    ]


def _piped(count: int) -> list[str]:
    try:
        text = sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise click.UsageError("Standard input is not UTF-8 text.") from error
    return [text.removesuffix("\n").removesuffix("\r")] if count == 1 else text.splitlines()


def _several(values: Sequence[Any], *, nullable: bool) -> list[Any]:
    """The values of a repeated option; one empty text, where nothing given means null, for an empty list."""
    return [] if nullable and list(values) == [""] else list(values)


def _fields(operation: Operation) -> list[Field]:
    info = types.type_info(operation.request)
    assert isinstance(info, types.StructType)
    said, hints = meanings_of(operation.request), get_type_hints(operation.request)
    return [_field(field, said, hints[field.name]) for field in info.fields]


def _field(field: types.Field, said: Mapping[str, str], hint: Any) -> Field:
    info, described = _plain(field.type)
    nullable = False
    if isinstance(info, types.UnionType):
        rest = [each for each in info.types if not isinstance(each, types.NoneType)]
        nullable = len(rest) < len(info.types)
        if len(rest) == 1:
            info, inner = _plain(rest[0])
            described = described or inner
    several = isinstance(info, _SEVERAL) and not isinstance(_plain(info.item_type)[0], _AS_JSON)
    default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    meaning = described or said.get(field.name) or _COMMON.get(field.name, "")
    return Field(
        name=field.encode_name,
        kind=_kind(_plain(info.item_type)[0] if several and isinstance(info, _SEVERAL) else info, hint),
        required=field.required,
        default=None if default is msgspec.NODEFAULT else default,
        several=several,
        nullable=nullable,
        meaning=_sentence(meaning),
    )


def _plain(info: types.Type) -> tuple[types.Type, str]:
    """A type without what is noted of it, and what that says of its meaning."""
    if not isinstance(info, types.Metadata):
        return info, ""
    return info.type, str((info.extra_json_schema or {}).get("description", ""))


def _kind(info: types.Type, hint: Any) -> "click.ParamType[Any]":
    """How a value is read; what msgspec makes of text (a date, say) is left to it."""
    if isinstance(info, types.BoolType):
        return click.BOOL
    if isinstance(info, types.IntType):
        return click.INT if info.ge is None and info.le is None else click.IntRange(info.ge, info.le)
    if isinstance(info, types.FloatType):
        return click.FLOAT if info.ge is None and info.le is None else click.FloatRange(info.ge, info.le)
    if isinstance(info, types.LiteralType) and all(isinstance(value, str) for value in info.values):
        return click.Choice([str(value) for value in _words(hint)])
    if isinstance(info, types.EnumType) and all(isinstance(each.value, str) for each in info.cls):
        return click.Choice([each.value for each in info.cls])
    return JsonType() if isinstance(info, _AS_JSON | types.LiteralType | types.EnumType) else click.STRING


def _words(hint: Any) -> list[object]:
    """The words of a Literal inside a type, in the order in which they were written."""
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [word for part in get_args(hint) for word in _words(part)]


def meanings_of(kind: type) -> dict[str, str]:
    """What the `Parameters:` sections of a Struct and of those that it extends say, by field."""
    said: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        section = inspect.cleandoc(each.__doc__ or "").partition("Parameters:\n")[2]
        for entry in re.split(r"\n(?= {4}\S)", section):
            names, _, meaning = " ".join(entry.split()).partition(": ")
            said |= dict.fromkeys(names.split(", "), meaning)
    return said


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""
