"""Turns: who goes on with a conversation, and when."""

import re
from typing import TYPE_CHECKING

import msgspec

from transom_hookspecs import Access, Caller, Conversation, Job, Origin, StartJob, TransomError, Tree, Tx

from .operations import authorize, refusal

if TYPE_CHECKING:
    from .core import Core

FORBIDDEN_IN_ID = re.compile(r'[/\\"\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
MAX_ID = 200


async def continued(core: "Core", request: StartJob, origin: Origin) -> tuple[str, str]:
    """The conversation that the job is a turn of, and its owner, who goes on with it, or someone who may."""
    name = request.conversation
    if request.continue_from:
        before = await core.store.get(origin.tenant, Job, request.continue_from)
        sight = Access(
            caller=origin.caller, tenant=origin.tenant, permission="jobs.read", object=request.continue_from, job=before
        )
        if (verdict := await authorize(core, sight)).ruling != "allow":
            raise refusal(sight, verdict)
        if before is None or not before.conversation:
            raise TransomError("not_found", f"continue_from: job {request.continue_from!r} is no turn of a conversation here")
        name = before.conversation
    if not name:
        return "", ""
    if len(name) > MAX_ID or FORBIDDEN_IN_ID.search(name):
        raise TransomError("invalid_argument", f"conversation: at most {MAX_ID} characters, without / and control characters")
    known = await core.store.get(origin.tenant, Conversation, name)
    if known is not None and (known.owner != owner_of(origin.caller) or not known.owner):
        access = Access(caller=origin.caller, tenant=origin.tenant, permission="conversations.continue", object=name)
        if not known.owner:  # the tenant's: for all who may read what was said in it
            latest = await core.store.get(origin.tenant, Job, known.job)
            access = msgspec.structs.replace(access, permission="content.read", object=known.job, job=latest)
        verdict = await authorize(core, access)
        if verdict.ruling != "allow":
            raise refusal(access, verdict)
    return name, known.owner if known is not None else owner_of(origin.caller)


def owner_of(caller: Caller) -> str:
    """Whose a conversation is: the person's, whatever app she used; what no person began is the tenant's (empty)."""
    return f"person:{caller.id}" if caller.is_person else ""


def check_turn(tx: Tx, conversation: Conversation) -> None:
    """A conversation has one turn at a time."""
    latest = tx.get(Job, conversation.job)
    if latest is None or latest.ended:
        return
    tree = tx.get(Tree, latest.tree)
    reason = "turn_waiting" if tree is not None and tree.waiting else "turn_running"
    remedy = "decide what it waits for, or cancel it" if reason == "turn_waiting" else "follow it, or cancel it"
    raise TransomError(
        "aborted",
        f"the conversation's latest turn, job {latest.id}, is not over; {remedy}",
        {"reason": reason, "job": latest.id},
    )
