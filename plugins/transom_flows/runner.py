"""How a flow runs: its steps in order, each through the Context, so that a replay makes the same calls."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec import UNSET

from transom_hookspecs import RUNTIME_ERRORS, Context, Json, TransomError

from .plan import Plan, PlannedStep
from .templates import render, resolve

MAX_ITEMS: Final = 100
"""How long the list of a `for_each` may be."""

Results = dict[str, Json]
"""Results by step id."""


class Runner:
    """The run of one flow; holds nothing of a job."""

    def __init__(self, flow: Plan) -> None:
        self._flow = flow

    async def run(self, ctx: Context, input: Json) -> Json:
        """Run all steps and return the flow's result.

        Raises:
            TransomError: a step's own error, its message naming the step, which is also in the details (`step`).
        """
        scope = _Scope(input)
        for step in self._flow.steps:
            scope = scope.after(await _results(step, scope, ctx))
        if self._flow.declared.result is UNSET:
            return scope.steps[self._flow.steps[-1].id]
        try:
            return render(self._flow.declared.result, scope.find)
        except TransomError as error:
            raise TransomError(error.code, f"`result`: {error.message}", error.details) from error


class _Scope:
    """What paths can lead to at one point of a run."""

    def __init__(self, input: Json, steps: Results | None = None, **more: Json) -> None:
        self.steps = steps or {}
        trigger = input.get("trigger") if isinstance(input, dict) else None
        self._root: dict[str, Json] = {"trigger": trigger, "input": input, "steps": self.steps, **more}

    def after(self, results: Results) -> "_Scope":
        return _Scope(self._root["input"], {**self.steps, **results})

    def with_item(self, item: Json) -> "_Scope":
        return _Scope(self._root["input"], self.steps, item=item)

    def find(self, path: str) -> Json:
        return resolve(self._root, path)


async def _results(step: PlannedStep, scope: _Scope, ctx: Context) -> Results:
    """A step's result, and those of the steps in it."""
    nothing: Results = dict.fromkeys(step.ids)
    try:
        if step.when and not scope.find(step.when):
            return nothing
        keyed = ctx.named(step.id)
        if step.inner:
            return await _together(step, scope, keyed)
        return {step.id: await _performed(step, scope, keyed)}
    except TransomError as error:
        if isinstance(error, RUNTIME_ERRORS):
            raise
        if step.step.on_error == "continue":
            return {**nothing, step.id: {"error": msgspec.to_builtins(error.info())}}
        details = {**error.details, "step": step.id}
        raise TransomError(error.code, f"step {step.id!r}: {error.message}", details) from error


async def _together(step: PlannedStep, scope: _Scope, ctx: Context) -> Results:
    branches = [partial(_results, inner, scope) for inner in step.inner]
    found: Results = {}
    for results in await ctx.together(*branches):
        found.update(results)
    return {**found, step.id: {inner.id: found[inner.id] for inner in step.inner}}


async def _performed(step: PlannedStep, scope: _Scope, ctx: Context) -> Json:
    assert step.action is not None
    if not step.for_each:
        return await step.action.perform(step.step, ctx, scope.find)
    items = _items(scope.find(step.for_each), step.for_each)
    return [await step.action.perform(step.step, ctx, scope.with_item(item).find) for item in items]


def _items(value: Json, path: str) -> Sequence[Json]:
    if not isinstance(value, list):
        raise TransomError("failed_precondition", f"`for_each`: `{path}` is no list; name one")
    if len(value) > MAX_ITEMS:
        raise TransomError("resource_exhausted", f"`for_each`: {len(value)} items; at most {MAX_ITEMS} can be run through")
    return value
