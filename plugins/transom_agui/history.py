"""The history that a client sends: checked against the thread as it is held here, never taken.

Pure: what is known of the thread comes in as facts, and a verdict comes out.
"""

from collections.abc import Set as AbstractSet
from typing import Literal

import msgspec

from .inputs import RunInput

Course = Literal["new", "follow", "mismatch"]


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn of the thread. `sent`: whether it has a whole message or result that was sent."""

    job: str
    sent: bool


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a thread.

    Parameters:
        turns: how many it had; the counter outlives the turns.
        recent: the latest turns, newest first, back to one that sent something.
        refused: IDs of user messages that were refused before.
        same_words: whether the newest user message has the words of the latest turn's.
    """

    turns: int = 0
    recent: tuple[Turn, ...] = ()
    refused: AbstractSet[str] = frozenset()
    same_words: bool = False


def course(asked: RunInput, thread: Thread) -> Course:
    """What a run without answers does: begin a turn, follow the latest one, or nothing, because its history is another."""
    said = asked.said
    if said is None:
        return "mismatch"
    before = asked.messages[: said.at]
    count = 1 + sum(m["role"] == "user" and m["id"] not in thread.refused for m in before)
    answer = next((str(m["id"]) for m in reversed(before) if m["role"] == "assistant"), None)
    if count == thread.turns + 1:
        return "new" if _fits(answer, thread.recent) else "mismatch"
    if count == thread.turns and thread.recent and _fits(answer, thread.recent[1:]):
        latest = thread.recent[0].job
        return "follow" if said.id == f"{latest}:in" or thread.same_words else "mismatch"
    return "mismatch"


def _fits(answer: str | None, turns: tuple[Turn, ...]) -> bool:
    """Whether the last answer that the client has is of the last of these turns that sent any."""
    if answer is None:
        return True
    for turn in turns:
        if answer.startswith(f"{turn.job}:"):
            return True
        if turn.sent:
            return False
    return False
