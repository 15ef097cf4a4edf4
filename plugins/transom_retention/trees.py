"""Removing a job tree, slice by slice; each slice is a function for one transaction.

What belongs to the tree goes first, its jobs last: whoever stops in between finds the tree again, and until the last
slice its ID stays taken by the job that had it.
"""

from collections.abc import Iterable, Iterator, Sequence

from transom_hookspecs import NEVER, Conversation, Item, Job, Record, Reply, Tree, Tx

BUDGET = 100
"""Records and events that one transaction removes at most, so that nobody waits long for the store."""


def remove_slice(tx: Tx, records: Sequence[Record], tree: str, before: int) -> int | None:
    """Remove a part of a tree all of whose jobs ended before a time.

    Returns how many jobs it had when this was the last part, None when there is more, and 0 when it is gone, or stays
    because not all of it is that old.

    Parameters:
        before: a time in milliseconds (Unix).
    """
    members = tx.select(Job, "tree", {"tree": tree}, limit=NEVER)
    if not members or not all(is_old(member, before) for member in members):
        return 0
    left = BUDGET
    for record in records:
        for where in _places(record, members):
            left -= tx.clear(record.type, where, left)
            if left <= 0:
                return None
    if tx.drop(tree, left) == left:
        return None
    for name in {member.conversation for member in members if member.conversation}:
        _leave(tx, name, tree)
    tx.clear(Job, {"tree": tree}, NEVER)
    tx.delete(Tree, tree)
    tx.touch(f"dropped/{tx.tenant}/{tree}")
    return len(members)


def is_old(job: Job, before: int) -> bool:
    """Whether a job ended before a time."""
    return job.ended and job.ended_at < before


def _places(record: Record, members: Iterable[Job]) -> Iterator[dict[str, str]]:
    """Where a record's rows of the tree stand; see `Record.belongs`."""
    seen = set()
    for member in members if record.belongs else ():
        where = {name: member.id if name == "job" else str(getattr(member, name)) for name in record.belongs}
        if all(where.values()) and (place := tuple(where.values())) not in seen:
            seen.add(place)
            yield where


def _leave(tx: Tx, name: str, job: str) -> None:
    """Forget a removed turn in its conversation; the counter of turns and the owner stay, an empty one has no title."""
    conversation = tx.get(Conversation, name)
    if conversation is None:
        return
    if conversation.job == job:
        conversation = tx.update(conversation, job="")
    if conversation.title and not tx.count(Item, "latest", {"conversation": name}, limit=1):
        tx.update(conversation, title="")


def remove_replies(tx: Tx, before: int) -> int:
    """Remove what was answered under Idempotency-Keys before a time; returns how many."""
    old = [reply for reply in tx.select(Reply, "age", limit=BUDGET) if reply.at < before]
    for reply in old:
        tx.delete(Reply, reply.principal, reply.key)
    return len(old)
