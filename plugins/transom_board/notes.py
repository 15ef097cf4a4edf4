"""Notes and their rules: what may be pinned, and what it supersedes. Called by the kernel inside a transaction."""

import re

import msgspec

from transom_hookspecs import Job, NewNote, NotePinned, TransomError, Tree, Tx

WORD = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,64}")
"""A kind or a tag: 1 to 64 characters without control characters."""

MOST_TAGS = 16


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A note of a job tree's board.

    Parameters:
        number: counts from 1 in the tree.
        supersedes, superseded_by: numbers of notes of the same tree, or 0.
        job, agent: who pinned it; `labels` are the job's, and `tainted` says that it held outside input then.
        at: when, in milliseconds (Unix).
    """

    tree: str
    number: int
    job: str
    agent: str
    at: int
    kind: str
    text: str
    tags: tuple[str, ...] = ()
    supersedes: int = 0
    superseded_by: int = 0
    labels: tuple[str, ...] = ()
    tainted: bool = False


class NoteBoard:
    """The service Board, over records of this plugin and the tree's own counter.

    Parameters:
        note_bytes: the longest text, in bytes of UTF-8.
        notes_per_tree: how many notes a tree may have, superseded ones counted.
    """

    def __init__(self, *, note_bytes: int = 16_384, notes_per_tree: int = 1_000) -> None:
        self._note_bytes = note_bytes
        self._notes_per_tree = notes_per_tree

    def pin(self, tx: Tx, job: Job, note: NewNote, call: str = "") -> NotePinned:
        """Pin a note inside a transaction and return its event, which the caller appends.

        Raises:
            TransomError: invalid_argument for a note that is empty, too long, badly named, or supersedes none that
                is current; resource_exhausted when the board is full; not_found when there is no such tree.
        """
        self._check(note)
        number = self._next_number(tx, job.tree)
        if note.supersedes:
            tx.update(_superseded(tx, job.tree, note.supersedes, before=number), superseded_by=number)
        pinned = _note_of(job, note, number=number, at=tx.now)
        tx.put(pinned)
        return NotePinned(
            job=job.id,
            id=number,
            kind=pinned.kind,
            text=pinned.text,
            agent=pinned.agent,
            tags=pinned.tags,
            supersedes=pinned.supersedes,
            tainted=pinned.tainted,
            labels=pinned.labels,
            call=call,
        )

    def _check(self, note: NewNote) -> None:
        if not note.text.strip():
            raise TransomError("invalid_argument", "text: a note needs words; write some")
        try:
            size = len(note.text.encode())
        except UnicodeEncodeError as error:
            raise TransomError("invalid_argument", f"text: character {error.start} is half of a pair; leave it out") from error
        if size > self._note_bytes:
            raise TransomError(
                "invalid_argument", f"text: {size} bytes are too long for a note; write at most {self._note_bytes}"
            )
        if not WORD.fullmatch(note.kind):
            raise TransomError("invalid_argument", "kind: write 1 to 64 characters without control characters")
        if len(note.tags) > MOST_TAGS or not all(WORD.fullmatch(tag) for tag in note.tags):
            raise TransomError(
                "invalid_argument", f"tags: at most {MOST_TAGS}, each of 1 to 64 characters without control characters"
            )

    def _next_number(self, tx: Tx, tree_id: str) -> int:
        tree = tx.get(Tree, tree_id)
        if tree is None:
            raise TransomError("not_found", f"job tree {tree_id!r} does not exist")
        if tree.notes >= self._notes_per_tree:
            raise TransomError(
                "resource_exhausted",
                f"the board is full: a job tree has at most {self._notes_per_tree} notes; work with those that are there",
                {"reason": "board_full", "limit": self._notes_per_tree},
            )
        return tx.update(tree, notes=tree.notes + 1).notes


def _superseded(tx: Tx, tree: str, number: int, *, before: int) -> Note:
    """The note with this number, when no other has superseded it yet."""
    note = tx.get(Note, tree, number) if 0 < number < before else None
    if note is None:
        raise TransomError("invalid_argument", f"supersedes: the board has no note {number}; name the number of one it has")
    if note.superseded_by:
        raise TransomError(
            "invalid_argument", f"supersedes: note {number} was superseded by {note.superseded_by}; name the newest one"
        )
    return note


def _note_of(job: Job, note: NewNote, *, number: int, at: int) -> Note:
    return Note(
        tree=job.tree,
        number=number,
        job=job.id,
        agent=job.agent,
        at=at,
        kind=note.kind,
        text=note.text,
        tags=tuple(dict.fromkeys(note.tags)),
        supersedes=note.supersedes,
        labels=job.labels,
        tainted=bool(job.taint),
    )
