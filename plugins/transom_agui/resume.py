"""A resume: the answers to interrupts, each checked against what waits before any is decided.

Pure: what waits comes in as facts; decisions, or one refusal, come out. What a decision itself must meet (deciders, four
eyes, a typed value, the answer's schema) is the kernel's to say, and is told here in this protocol's codes.
"""

from collections.abc import Mapping, Sequence
from typing import Final, cast

import msgspec

from transom_hookspecs import DecideApproval, JsonObject, TransomError

from .inputs import Answer
from .interrupts import Waiting, wraps_answer
from .view import Resumed

CODES: Final[Mapping[str, str]] = {
    "interrupt_changed": "interrupt_changed",
    "interrupt_expired": "interrupt_expired",
    "not_a_decider": "not_a_decider",
}
"""Reasons of the kernel's refusals that have a code of their own here."""


class Refused(Exception):
    """A run is refused in its stream; nothing was decided or started.

    Parameters:
        raw: facts for programs.
    """

    def __init__(self, code: str, message: str, raw: JsonObject | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.raw = code, message, raw


class WaitFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A wait that an answer names, as it is now.

    Parameters:
        outcome: how it was decided; empty while it is open.
    """

    wait: Waiting
    outcome: str = ""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What the answers of a resume are about.

    Parameters:
        named: waits by the ID under which an answer names them.
        changed: IDs that were shown for waits which were changed since.
        open: every open wait of the caller's, oldest first.
    """

    named: Mapping[str, WaitFacts]
    changed: frozenset[str] = frozenset()
    open: tuple[Waiting, ...] = ()


class Plan(msgspec.Struct, kw_only=True):
    """What a resume decides.

    Parameters:
        edits: arguments that are put in their place before a yes, by wait.
        answered: for each entry its ID, its wait, and how it is taken where that is known before anything is decided.
    """

    decisions: list[DecideApproval]
    edits: dict[str, JsonObject]
    answered: list[Resumed]


def plan(answers: Sequence[Answer], found: Found, now: int) -> Plan:
    """What the answers decide; an entry about a wait that is over, or that no answer ends, decides nothing.

    Parameters:
        now: milliseconds (Unix).

    Raises:
        Refused: an entry cannot be taken, or one that waits for the caller is not answered.
    """
    made = Plan(decisions=[], edits={}, answered=[])
    for answer in answers:
        facts = _named(answer, found)
        if any(each.wait == facts.wait.id for each in made.answered):
            raise _invalid(answer, "two entries answer the same interrupt")
        if answer.status == "resolved" and (facts.outcome == "expired" or (not facts.outcome and facts.wait.expires <= now)):
            raise Refused("interrupt_expired", "its deadline has passed; cancel it to go on", {"interruptId": answer.interrupt})
        over = bool(facts.outcome) or facts.wait.expires <= now
        outcome = "already_decided" if over else "acknowledged" if facts.wait.kind == "budget" else ""
        made.answered.append(Resumed(interrupt=answer.interrupt, wait=facts.wait.id, outcome=outcome))
        if not outcome:
            made.decisions.append(_decision(answer, facts.wait))
            edited = _edited(answer) if "editedArgs" in _fields(facts.wait) else None
            if edited is not None and answer.status == "resolved":
                made.edits[facts.wait.id] = edited
    if missing := [wait for wait in found.open if all(each.wait != wait.id for each in made.answered)]:
        raise LeftOut(missing)
    return made


class LeftOut(Refused):
    """A resume leaves out what waits for the caller."""

    def __init__(self, waits: Sequence[Waiting]) -> None:
        super().__init__("interrupts_open", "the resume leaves out what still waits for you: answer every interrupt at once")
        self.waits = waits


def _edited(answer: Answer) -> JsonObject | None:
    payload = answer.payload
    return cast("JsonObject | None", payload.get("editedArgs")) if isinstance(payload, dict) else None


def _named(answer: Answer, found: Found) -> WaitFacts:
    facts = found.named.get(answer.interrupt)
    if facts is not None:
        return facts
    if answer.interrupt in found.changed:
        raise Refused(
            "interrupt_changed", "what waits was changed since it was shown; look again", {"interruptId": answer.interrupt}
        )
    raise _invalid(answer, "this is no interrupt of this thread")


def _decision(answer: Answer, wait: Waiting) -> DecideApproval:
    if answer.status == "cancelled":
        return DecideApproval(wait=wait.id, approved=False, token=wait.token)
    payload = answer.payload
    if wait.kind == "question" and not wraps_answer(wait.schema):
        return DecideApproval(wait=wait.id, answer=payload, token=wait.token)
    if not isinstance(payload, dict):
        raise _invalid(answer, "payload: send an object that fits the interrupt's responseSchema")
    _check_fields(answer, payload, _fields(wait))
    comment = payload.get("comment") or ""
    if "answer" in payload and "approved" not in payload:
        value = payload if "result" in payload else payload["answer"]
        return DecideApproval(wait=wait.id, answer=value, comment=cast(str, comment), token=wait.token)
    return DecideApproval(
        wait=wait.id,
        approved=cast(bool, payload["approved"]),
        comment=cast(str, comment),
        confirm=cast(str, payload.get("confirm") or ""),
        token=wait.token,
    )


def _fields(wait: Waiting) -> dict[str, type | None]:
    """The fields that a payload may have, and their types; those without a type are the kernel's to check."""
    if wait.kind == "question":
        return {"answer": None}
    if wait.kind == "restart":
        return {"answer": None, "result": None, "comment": str}
    fields: dict[str, type | None] = {"approved": bool, "comment": str}
    if wait.rule.typed:
        fields["confirm"] = str
    if wait.rule.edit and wait.function:
        fields["editedArgs"] = dict
    return fields


def _check_fields(answer: Answer, payload: JsonObject, fields: Mapping[str, type | None]) -> None:
    first = next(iter(fields))
    if first not in payload:
        raise _invalid(answer, f"payload.{first} is missing")
    for name, value in payload.items():
        if name not in fields:
            raise _invalid(answer, f"payload.{name[:60]} is not asked for; there are {', '.join(fields)}")
        kind = fields[name]
        if kind is not None and not isinstance(value, kind):
            raise _invalid(answer, f"payload.{name} does not fit the interrupt's responseSchema")


def _invalid(answer: Answer, why: str) -> Refused:
    return Refused("invalid_resume", why, {"interruptId": answer.interrupt})


def told(error: TransomError, interrupts: Mapping[str, str]) -> Refused:
    """The kernel's refusal of a decision in this protocol's words.

    Parameters:
        interrupts: the client's ID of each wait.
    """
    reason = error.details.get("reason")
    wait = error.details.get("wait")
    raw = dict(error.details)
    if isinstance(wait, str) and wait in interrupts:
        raw["interruptId"] = interrupts[wait]
    code = CODES.get(reason, "") if isinstance(reason, str) else ""
    if not code:
        code = "invalid_resume" if error.code == "invalid_argument" else error.code
    return Refused(code, error.message, raw)
