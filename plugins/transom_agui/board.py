"""The board as AG-UI state: notes folded into `{"board": {"notes": […]}}`, and changes as JSON Patches (RFC 6902)."""

from transom_doors.answers import rfc3339
from transom_hookspecs import Json, JsonObject, NotePinned

from .view import Facts


class BoardState:
    """The notes that a client has, and those that it gets with the next write of the turn's own.

    Parameters:
        facts: whose notes the caller may read.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._shown: list[JsonObject] = []
        self._index: dict[int, int] = {}
        self._later: list[tuple[NotePinned, int]] = []

    def pin(self, note: NotePinned, at: int, *, own: bool) -> tuple[JsonObject, ...]:
        """Take a note; a write of the turn's own gives a patch of all that came since the last one.

        Parameters:
            at: when it was pinned, in milliseconds (Unix).
        """
        self._later.append((note, at))
        return self.flush() if own else ()

    def flush(self) -> tuple[JsonObject, ...]:
        """Show what is pinned and was not shown yet."""
        patch = tuple(self._operation(note, at) for note, at in self._later)
        self._later.clear()
        return patch

    def snapshot(self) -> JsonObject:
        """The whole state, with everything that is pinned."""
        self.flush()
        return {"board": {"notes": [*self._shown]}}

    def _operation(self, note: NotePinned, at: int) -> JsonObject:
        value = self._value(note, at)
        index = self._index.pop(note.supersedes, None)
        if index is None:
            self._index[note.id] = len(self._shown)
            self._shown.append(value)
            return {"op": "add", "path": "/board/notes/-", "value": value}
        self._index[note.id] = index
        self._shown[index] = value
        return {"op": "replace", "path": f"/board/notes/{index}", "value": value}

    def _value(self, note: NotePinned, at: int) -> JsonObject:
        facts: JsonObject = {
            "id": str(note.id),
            "kind": note.kind,
            "job": note.job,
            "agent": note.agent,
            "createdAt": rfc3339(at),
        }
        if not self._facts.sees(note.job):
            return {"redacted": True, "label": self._facts.hidden(note.job), **facts}
        if note.supersedes:
            facts["supersedes"] = str(note.supersedes)
        labels: list[Json] = list(note.labels)
        return {**facts, "tags": list(note.tags), "text": note.text, "tainted": note.tainted, "labels": labels}
