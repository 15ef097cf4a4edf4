"""What a step of a flow can do: the table of actions."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from msgspec import Struct, UnsetType

from transom_hookspecs import Context, Json, JsonObject

from .format import Step
from .templates import Find, render, render_text

T = TypeVar("T")


class Action(Struct, frozen=True, kw_only=True):
    """One kind of step.

    Parameters:
        takes: the fields that go with it.
        perform: do it with a Context; what `find` gives stands in for the templates.
    """

    takes: tuple[str, ...] = ()
    perform: Callable[[Step, Context, Find], Awaitable[Json]]


async def _agent(step: Step, ctx: Context, find: Find) -> Json:
    return await ctx.delegate(_given(step.agent), render(_or_none(step.input), find), timeout=_timeout(step))


async def _function(step: Step, ctx: Context, find: Find) -> Json:
    return await ctx.call(_given(step.function), _mapping(step.arguments, find))


async def _ask(step: Step, ctx: Context, find: Find) -> Json:
    choices = [render_text(choice, find) for choice in _or_none(step.choices) or ()]
    message = render_text(_given(step.ask), find)
    return await ctx.ask(message, choices=choices, schema=_or_none(step.schema), timeout=_timeout(step))


async def _wait(step: Step, ctx: Context, find: Find) -> Json:
    return await ctx.wait_for_event(_given(step.wait), match=_mapping(step.match, find), timeout=_timeout(step))


async def _output(step: Step, ctx: Context, find: Find) -> Json:
    return await ctx.output(_given(step.output), _mapping(step.arguments, find))


async def _sleep(step: Step, ctx: Context, find: Find) -> Json:
    await ctx.sleep(float(_given(step.sleep)))
    return None


async def _value(step: Step, ctx: Context, find: Find) -> Json:
    return render(_given(step.set), find)


ACTIONS: Final[dict[str, Action]] = {
    "agent": Action(takes=("input", "timeout"), perform=_agent),
    "function": Action(takes=("arguments",), perform=_function),
    "ask": Action(takes=("choices", "schema", "timeout"), perform=_ask),
    "wait": Action(takes=("match", "timeout"), perform=_wait),
    "output": Action(takes=("arguments",), perform=_output),
    "sleep": Action(perform=_sleep),
    "set": Action(perform=_value),
}
"""Every action but `together`, which is made of other steps."""


def _given(value: T | UnsetType) -> T:
    assert not isinstance(value, UnsetType)
    return value


def _or_none(value: T | UnsetType) -> T | None:
    return None if isinstance(value, UnsetType) else value


def _timeout(step: Step) -> float | None:
    return None if isinstance(step.timeout, UnsetType) else float(step.timeout)


def _mapping(value: JsonObject | UnsetType, find: Find) -> JsonObject:
    return {} if isinstance(value, UnsetType) else {key: render(item, find) for key, item in value.items()}
