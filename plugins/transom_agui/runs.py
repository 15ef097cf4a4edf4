"""Runs as they are kept: what a run record's view holds, and the encoder's view that it becomes."""

import hashlib
import hmac
import secrets
from collections.abc import Iterable

import msgspec

from transom_hookspecs import Caller, JsonObject, Run, TenantSettings

from .inputs import RunInput, Said
from .view import Resumed, View


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """A user message, so that the same one is known again without keeping it: a keyed digest of its words."""

    key: str
    digest: str

    @classmethod
    def of(cls, said: Said) -> "Words":
        """Take a message's words."""
        key = secrets.token_hex(16)
        return cls(key=key, digest=_digest(key, said.text))

    def are(self, said: Said) -> bool:
        """Whether a message has these words."""
        return hmac.compare_digest(self.digest, _digest(self.key, said.text))


def _digest(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run record keeps for its view.

    Parameters:
        principal: who asked for it.
        words: the newest user message of its request.
        key: the Idempotency-Key that it was resumed under.
        answers: its resume's entries; those without an outcome have it in the record's own outcomes.
        told: whether it is in the audit trail that notes' words were shown.
        again: whether its stream, when it was asked for last, began with the messages that the client is to keep.
        The others are as in `View`.
    """

    principal: str
    caller: str
    person: bool
    words: Words | None = None
    key: str = ""
    protocol: str = ""
    label: str = ""
    console: str = ""
    wait_seconds: int = 86_400
    board: bool = False
    decided: tuple[str, ...] = ()
    answers: tuple[Resumed, ...] = ()
    told: bool = False
    again: bool = False


def keep(
    asked: RunInput, caller: Caller, settings: TenantSettings, *, board: bool, answers: Iterable[Resumed] = (), key: str = ""
) -> Kept:
    """What a new run's record holds."""
    return Kept(
        principal=caller.principal,
        caller=f"{caller.kind}:{caller.id}",
        person=caller.is_person,
        words=Words.of(asked.said) if asked.said and not asked.answers else None,  # beside answers they are the next run's
        key=key,
        protocol=asked.protocol,
        label=settings.ai_label,
        console=settings.public_url,
        wait_seconds=settings.wait_seconds,
        board=board,
        answers=tuple(answers),
    )


def packed(kept: Kept) -> JsonObject:
    """As the record has it."""
    made: JsonObject = msgspec.to_builtins(kept)
    return made


def is_ours(run: Run) -> bool:
    """Whether this door made a run; other doors keep runs of a conversation beside them."""
    return "principal" in run.view


def kept_of(run: Run) -> Kept:
    """What a run's record holds."""
    return msgspec.convert(run.view, Kept)


def view_of(run: Run, kept: Kept, tenant: str) -> View:
    """A run's view."""
    return View(
        thread=run.conversation,
        run=run.run,
        job=run.job,
        start=run.start,
        tenant=tenant,
        caller=kept.caller,
        person=kept.person,
        protocol=kept.protocol,
        label=kept.label,
        console=kept.console,
        wait_seconds=kept.wait_seconds,
        board=kept.board,
        decided=kept.decided,
        resumed=tuple(_resumed(each, run.outcomes) for each in kept.answers),
    )


def _resumed(answer: Resumed, outcomes: JsonObject) -> Resumed:
    found = outcomes.get(answer.wait)
    if answer.outcome or not isinstance(found, dict):
        return answer
    result, outcome = str(found.get("result")), found.get("outcome")
    approved = outcome in ("approved", "answered") if result == "decided" else None
    return msgspec.structs.replace(answer, outcome=result, approved=approved)
