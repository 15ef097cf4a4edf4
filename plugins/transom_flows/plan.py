"""From a flow's document to its plan: everything that can be known to be wrong is found here, before anything runs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from transom_hookspecs import JsonObject, TransomError
from transom_hookspecs.declared import decode

from .actions import ACTIONS, Action
from .format import Declaration, Step
from .templates import only_path, paths

MAX_STEPS: Final = 1_000
"""How many steps a flow may have, with those inside `together`."""

_EXTRAS: Final = tuple(dict.fromkeys(name for action in ACTIONS.values() for name in action.takes))
_TEMPLATED: Final = ("input", "arguments", "ask", "choices", "match", "set")


class PlannedStep(Struct, frozen=True, kw_only=True):
    """A step that is known to be sound.

    Parameters:
        action: what it does; None for `together`.
        when, for_each: their paths, or empty.
        inner: the steps that run together.
    """

    id: str
    step: Step
    action: Action | None
    when: str = ""
    for_each: str = ""
    inner: "tuple[PlannedStep, ...]" = ()

    @property
    def ids(self) -> Iterator[str]:
        """Its id, and those of all the steps in it."""
        yield self.id
        for step in self.inner:
            yield from step.ids


class Plan(Struct, frozen=True, kw_only=True):
    """A flow that is known to be sound."""

    declared: Declaration
    steps: tuple[PlannedStep, ...]
    uses: tuple[str, ...]


def plan(name: str, body: JsonObject) -> Plan:
    """Read a flow's document.

    Raises:
        TransomError: invalid_argument, naming the step and field, what is wrong and the remedy.
    """
    what = f"flow {name!r}"
    declared = decode(what, body, Declaration)
    steps = _steps(what, declared.steps)
    ids = _ids(what, steps)
    known = _check_steps(what, steps, frozenset(), ids)
    if declared.result is not UNSET:
        with _about(f"{what}: `result`"):
            _check_paths(paths(declared.result), known, ids)
    return Plan(declared=declared, steps=steps, uses=tuple(dict.fromkeys(_uses(steps))))


def _ids(what: str, steps: Sequence[PlannedStep]) -> frozenset[str]:
    counted = Counter(id for step in steps for id in step.ids)
    if counted.total() > MAX_STEPS:
        problem = f"{counted.total()} steps are more than {MAX_STEPS}; move some to a flow of their own"
        raise TransomError("invalid_argument", f"{what}: `steps`: {problem}")
    [(id, count)] = counted.most_common(1)
    if count > 1:
        raise TransomError("invalid_argument", f"{what}: `id`: {count} steps have the id {id!r}; rename all but one")
    return frozenset(counted)


def _steps(what: str, bodies: Sequence[JsonObject]) -> tuple[PlannedStep, ...]:
    return tuple(_step(f"{what}: step {_called(body, number)}", body) for number, body in enumerate(bodies, 1))


def _called(body: JsonObject, number: int) -> str:
    id = body.get("id")
    return repr(id) if isinstance(id, str) and len(id) <= 63 else str(number)


def _step(what: str, body: JsonObject) -> PlannedStep:
    step = decode(what, body, Step)
    action = _action(what, step)
    when, for_each = _path(f"{what}: `when`", step.when), _path(f"{what}: `for_each`", step.for_each)
    inner = _steps(what, step.together) if step.together is not UNSET else ()
    if for_each and inner:
        raise TransomError("invalid_argument", f"{what}: `for_each` does not go with `together`; move the steps to a flow")
    return PlannedStep(id=step.id, step=step, action=action, when=when, for_each=for_each, inner=inner)


def _path(what: str, text: str | UnsetType) -> str:
    if isinstance(text, UnsetType):
        return ""
    with _about(what):
        return only_path(text)


def _action(what: str, step: Step) -> Action | None:
    """The one action that a step has; None for `together`."""
    names = (*ACTIONS, "together")
    found = [name for name in names if getattr(step, name) is not UNSET]
    if len(found) != 1:
        has = f"has {' and '.join(f'`{name}`' for name in found)}" if found else "does nothing"
        raise TransomError("invalid_argument", f"{what}: it {has}; write exactly one of {', '.join(names)}")
    action = ACTIONS.get(found[0])
    takes = action.takes if action else ()
    for name in _EXTRAS:
        if getattr(step, name) is not UNSET and name not in takes:
            allowed = f"it takes {', '.join(takes)}" if takes else "it takes nothing more"
            raise TransomError("invalid_argument", f"{what}: `{name}` does not go with `{found[0]}`; {allowed}")
    return action


def _check_steps(what: str, steps: Sequence[PlannedStep], known: frozenset[str], ids: frozenset[str]) -> frozenset[str]:
    """Check what the steps' paths lead to; returns the ids known after them."""
    for step in steps:
        with _about(f"{what}: step {step.id!r}"):
            _check_paths(filter(None, (step.when, step.for_each)), known, ids)
            _check_paths(_paths(step.step), known, ids, more=("item",) if step.for_each else ())
        for inner in step.inner:  # they run at once, so none knows another
            _check_steps(what, [inner], known, ids)
        known = known.union(step.ids)
    return known


def _paths(step: Step) -> Iterator[str]:
    for name in _TEMPLATED:
        value = getattr(step, name)
        with _about(f"`{name}`"):
            yield from () if value is UNSET else paths(list(value) if isinstance(value, tuple) else value)


def _check_paths(found: Iterable[str], known: frozenset[str], ids: frozenset[str], more: tuple[str, ...] = ()) -> None:
    roots = ("trigger", "input", "steps", *more)
    for path in found:
        root, *rest = path.split(".")
        if root not in roots:
            problem = f"begins with none of {', '.join(roots)}"
        elif root != "steps" or (rest and rest[0] in known):
            continue
        elif not rest:
            problem = "names no step; write `steps.<id>`"
        elif rest[0] in ids:
            problem = f"uses step {rest[0]!r} before that is done; put that step first"
        else:
            problem = f"names no step; there are {', '.join(sorted(ids)[:20])}"
        raise TransomError("invalid_argument", f"`${{{{ {path} }}}}` {problem}")


def _uses(steps: Sequence[PlannedStep]) -> Iterator[str]:
    for step in steps:
        if step.step.agent is not UNSET:
            yield f"agent.{step.step.agent}"
        if step.step.function is not UNSET:
            yield step.step.function
        yield from _uses(step.inner)


@contextmanager
def _about(what: str) -> Iterator[None]:
    """Say where an error of `templates` is."""
    try:
        yield
    except TransomError as error:
        raise TransomError(error.code, f"{what}: {error.message}") from error
