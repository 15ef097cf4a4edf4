"""Waits as AG-UI shows them: interrupts for those who may answer, a short note of whom the turn waits for to all others."""

from collections.abc import Iterable, Mapping
from typing import Final, cast
from urllib.parse import quote, urlencode

import msgspec

from transom_doors.answers import rfc3339
from transom_hookspecs import Json, JsonObject, Rule, WaitKind

from .view import View
from .wire import Interrupt

DECIDE: Final = "Decide in OZ"
OLD_CLIENTS_MS: Final = 3_600_000
"""A client from before 1.0 cannot leave an interrupt whose deadline has passed, so it is shown one an hour away."""

_WHAT: Final[Mapping[WaitKind, str]] = {
    "approval": "an approval",
    "question": "a question",
    "outputs": "outputs of a routine",
    "escalation": "an escalation",
    "changeset": "a changeset",
    "restart": "a restart",
    "budget": "a budget",
}
_ROLES: Final = {"reader": "readers", "member": "members", "operator": "operators", "admin": "admins"}


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """An open wait as the log tells of it.

    Parameters:
        opened: when, in milliseconds (Unix).
        voted: who has voted so far (`person:anna`).
    """

    id: str
    job: str
    kind: WaitKind
    token: str
    expires: int
    opened: int
    rule: Rule
    message: str = ""
    call: str = ""
    function: str = ""
    shown: Json = None
    schema: JsonObject = {}
    choices: tuple[str, ...] = ()
    voted: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """AG-UI's word for its kind."""
        if self.kind == "question":
            return "input_required"
        return "tool_call" if self.kind == "approval" and self.call else "confirmation"

    @property
    def typed(self) -> bool:
        """Whether it is a question whose answer has fields of its own."""
        return self.kind == "question" and not wraps_answer(self.schema)


def wraps_answer(schema: JsonObject) -> bool:
    """Whether a schema asks for nothing but `answer`, so that what stands under it is the answer."""
    return set(cast(JsonObject, schema.get("properties") or {})) == {"answer"}


def interrupt(wait: Waiting, view: View, *, content: bool) -> Interrupt:
    """A wait for somebody who may answer it."""
    message = wait.message if content else ""
    if wait.kind == "question" and message:
        message = view.mark + message
    return Interrupt(
        id=wait.token,
        reason=wait.reason,
        response_schema=response_schema(wait),
        metadata=_metadata(wait, view, content=content),
        expires_at=rfc3339(_shown_deadline(wait, view)),
        message=message,
        tool_call_id=wait.call if wait.reason == "tool_call" else "",
    )


def response_schema(wait: Waiting) -> JsonObject:
    """What a payload must be. A budget wait's is empty: only an admin's budget decision ends it."""
    if wait.kind == "budget":
        return {}
    if wait.kind == "question":
        return wait.schema
    properties = dict(cast(JsonObject, wait.schema.get("properties") or {}))
    if wait.rule.edit and wait.function:
        properties["editedArgs"] = {"type": "object"}
    return {**wait.schema, "properties": properties, "additionalProperties": False}


def _shown_deadline(wait: Waiting, view: View) -> int:
    if view.protocol or view.wait_seconds * 1000 < OLD_CLIENTS_MS:
        return wait.expires
    return max(wait.expires, wait.opened + OLD_CLIENTS_MS)


def _metadata(wait: Waiting, view: View, *, content: bool) -> JsonObject:
    data: JsonObject = {
        "oz0/kind": wait.kind,
        "oz0/what": what(wait),
        "oz0/job": wait.job,
        "oz0/deciders": who(wait.rule, wait.kind),
    }
    if content and wait.shown is not None:
        data["oz0/details"] = wait.shown
    if content and wait.choices:
        data["oz0/choices"] = list(wait.choices)
    if wait.typed:
        data["oz0/typed"] = True
    if view.label:
        data["oz0/ai-label"] = view.label
    if link := console(view, wait.job):
        data["oz0/console"] = link
    return data


def waiting_for(wait: Waiting, view: View) -> JsonObject:
    """A wait for somebody who may not answer it."""
    told: JsonObject = {"job": wait.job, "what": what(wait), "who": who(wait.rule, wait.kind)}
    if link := console(view, wait.job):
        told["console"] = link
    return told


def console(view: View, job: str) -> JsonObject | None:
    """The job's page in the console, where the operator set a public address."""
    if not view.console:
        return None
    query = "" if view.tenant == "default" else "?" + urlencode({"tenant": view.tenant})
    return {"label": DECIDE, "url": f"{view.console.rstrip('/')}/jobs/{quote(job, safe='')}{query}"}


def what(wait: Waiting) -> str:
    """What waits, in words: the function's name for a call."""
    return wait.function or _WHAT[wait.kind]


def who(rule: Rule, kind: WaitKind = "approval") -> str:
    """Who decides, in words."""
    if rule.confirm:
        return "the person who started the job"
    people = _named(rule.deciders)
    if not people:
        if kind == "budget":
            people = "admins"
        else:
            people = "the person who started the job, operators and admins" if kind == "question" else "operators and admins"
    if rule.count > 1:
        people = f"{rule.count} of {people}"
    return f"{people}, but not the person who started the job" if rule.four_eyes else people


def _named(deciders: Iterable[str]) -> str:
    words = []
    for decider in deciders:
        kind, _, name = decider.partition(":")
        words.append(_ROLES.get(name, name) if kind == "role" else f"the team {name}" if kind == "team" else name)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
