"""A job's log as Server-Sent Events: entries in, bytes out; no clock, no request, no HTTP.

The same log gives the same bytes, so a client that names the last event it has (`<seq>-<token>`) gets exactly
what came after, from any process.
"""

import re
from collections.abc import Sequence
from typing import Final

from transom_doors.answers import rfc3339
from transom_hookspecs import (
    AnyEvent,
    Entry,
    JobEnded,
    JobStarted,
    JobView,
    TransomError,
    TreeRunning,
    TreeWaiting,
    Usage,
    WaitOpened,
)

from .wire import encode, to_wire

_EVENT_ID = re.compile(r"([1-9][0-9]{0,14})-([\x21-\x7e]{1,200})")

_TREE: Final = (TreeWaiting, TreeRunning)
_RENAMED: Final = (Usage, WaitOpened)
"""Events whose own names or times are not this wire's."""


def parse_event_id(value: str) -> tuple[int, str]:
    """The seq and the token of a Last-Event-ID.

    Raises:
        TransomError: invalid_argument when it is none of ours.
    """
    match = _EVENT_ID.fullmatch(value)
    if match is None:
        raise TransomError(
            "invalid_argument",
            "Last-Event-ID: this is no event ID of a job's stream; send the last `id:` that this job's stream gave, or none",
        )
    return int(match[1]), match[2]


class JobEncoder:
    """Encodes one job's stream: the job and all that it delegated to, and what the whole tree does.

    What belongs to a job that was itself delegated is learned from the log (`job.started` names the parent), so such
    a stream reads the log from its beginning, and is silent until `since`.

    Parameters:
        job: as the caller sees it; its token goes into every event's id.
        since: the seq of the last event that the client has, or 0.
    """

    ended = False
    """Whether the job's end has passed: nothing comes after it."""

    def __init__(self, job: JobView, since: int = 0) -> None:
        self._job, self._since = job.id, since
        self._token = job.token.encode()
        self._family: set[str] | None = None if job.tree == job.id else {job.id}

    @property
    def after(self) -> int:
        """The seq to read the log after. The client's last event is read again: the job may have ended with it."""
        return 0 if self._family is not None else max(self._since - 1, 0)

    def on(self, entry: Entry) -> Sequence[bytes]:
        """The frame that an entry becomes, or nothing."""
        event = entry.event
        if self.ended or not self._concerns(event):
            return ()
        if type(event) is JobEnded and event.job == self._job:
            self.ended = True
        if entry.seq <= self._since:
            return ()
        return (_frame(entry.seq, entry.at, event, self._token),)

    def _concerns(self, event: AnyEvent) -> bool:
        family = self._family
        if family is None or event.job in family or isinstance(event, _TREE):
            return True
        if type(event) is JobStarted and event.parent in family:
            family.add(event.job)
            return True
        return False


def _frame(seq: int, at: int, event: AnyEvent, token: bytes) -> bytes:
    data = encode(to_wire(event) if isinstance(event, _RENAMED) else event)
    kind = str(event.__struct_config__.tag)
    return b'id: %d-%b\nevent: %b\ndata: {"seq":%d,"at":"%b",%b\n\n' % (
        seq,
        token,
        kind.encode(),
        seq,
        rfc3339(at).encode(),
        data[1:],
    )
