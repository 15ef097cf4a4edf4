"""The tool family: functions that agents and flows may call.

A tool is a named group; a function's full name is `<tool>.<function>`. `tool("team", greet, …)` makes one of plain
Python functions, with JSON Schema from their type hints.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, get_type_hints

import msgspec

from .callers import Caller
from .errors import TransomError
from .events import Rule
from .markers import hookspec
from .outbound import Transport
from .values import Json, JsonObject


class Annotations(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What is known of a function's effects, under MCP's names. Unknown counts as the worse.

    Parameters:
        read_only_hint: it changes nothing anywhere.
        destructive_hint: it may remove or overwrite.
        idempotent_hint: twice with the same arguments is as once.
        open_world_hint: it reaches others; only False says that it cannot send data out.
    """

    title: str = ""
    read_only_hint: bool = False
    destructive_hint: bool = True
    idempotent_hint: bool = False
    open_world_hint: bool = True


class CallContext(Protocol):
    """What a function may know and use while it runs."""

    tenant: str
    job: str
    tree: str
    agent: str
    caller: Caller
    step: str
    attempt: int
    idempotency_key: str
    """The same whenever this very call is made again (job and step), for receivers that deduplicate."""
    secret_env: Mapping[str, str]
    """The values of the secrets that the function declares as its `secret_env`; for this call only."""

    def outbound(self, hosts: Sequence[str] = ()) -> Transport:
        """A guarded httpx transport for addresses that an agent named; `hosts` narrows where it may connect."""


FunctionCall = Callable[[CallContext, JsonObject], Awaitable[Json] | Json]


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """One function of a tool.

    Parameters:
        call: given the context and arguments that fit `input_schema`; what it returns is the result (JSON).
            A plain function runs in a thread.
        approval: the rule under which a person must agree before each call; None asks nobody.
        timeout: seconds for one attempt.
        secret_env: names of secrets whose plain values it needs. It gets them in `CallContext.secret_env` once an
            operator allowed that for its tool and tenant (`transom secret allow TOOL NAME`), and fails before.
    """

    name: str
    call: FunctionCall
    description: str = ""
    input_schema: JsonObject = msgspec.field(default_factory=lambda: {"type": "object"})
    output_schema: JsonObject | None = None
    annotations: Annotations = Annotations()
    approval: Rule | None = None
    timeout: float = 60.0
    secret_env: tuple[str, ...] = ()

    @property
    def repeatable(self) -> bool:
        """Whether a call in flight at a crash may be made again without asking."""
        return self.annotations.read_only_hint or self.annotations.idempotent_hint


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A named group of functions. `remote`: they run on a server of others, so they can always send data out."""

    name: str
    functions: tuple[Function, ...]
    description: str = ""
    remote: bool = False


def function(
    call: Callable[..., object],
    *,
    name: str = "",
    description: str = "",
    read_only: bool = False,
    idempotent: bool = False,
    destructive: bool = True,
    open_world: bool = True,
    approval: Rule | None = None,
    timeout: float = 60.0,
    secret_env: Sequence[str] = (),
) -> Function:
    """Make a Function of a Python function with type hints.

    The schema comes from its parameters and their types, the description from its docstring. A parameter typed
    `CallContext` gets the context and is no argument. A plain (not async) function runs in a thread.

    Raises:
        TransomError: invalid_argument when a parameter has no type hint, or one that no schema can be made of.
    """
    import transom_hookspecs._functions as build

    hints = get_type_hints(call, include_extras=True)
    arguments = build.arguments_struct(call, hints)
    return Function(
        name=name or call.__name__,
        description=description or inspect.getdoc(call) or "",
        input_schema=build.schema_of(arguments),
        output_schema=build.output_schema(hints.get("return")),
        annotations=Annotations(
            read_only_hint=read_only,
            destructive_hint=destructive and not read_only,
            idempotent_hint=idempotent or read_only,
            open_world_hint=open_world,
        ),
        approval=approval,
        timeout=timeout,
        secret_env=tuple(secret_env),
        call=build.caller(call, arguments, hints),
    )


def tool(name: str, *functions: Callable[..., object] | Function, description: str = "") -> Tool:
    """Group functions under a name; Python functions among them are made Functions with the defaults."""
    made = tuple(f if isinstance(f, Function) else function(f) for f in functions)
    if len({f.name for f in made}) != len(made):
        raise TransomError("invalid_argument", f"tool {name!r} has two functions of one name")
    return Tool(name=name, functions=made, description=description)


class ToolHooks:
    """Hooks of the tool family."""

    @hookspec
    def register_tools(self) -> Sequence[Tool]:  # type: ignore[empty-body]
        """Return tools; their functions are called by agents under policy."""
