"""The three ways to show a job: a transcript for people, JSON lines for programs, or its answer alone."""

from collections.abc import Sequence
from typing import Protocol

from transom_hookspecs import Entry, JobEnded, JobView, Json, TransomError

from . import wire
from .client import Target
from .render import Renderer, Span, pretty, told
from .safe import safe, safe_line
from .screen import print_json, say, write
from .session import Ending, View
from .waits import explain


class JobDisplay(View, Protocol):
    """A session's view that also tells how it came out."""

    def ended(self, ending: Ending) -> None:
        """The session is over."""


class Transcript:
    """Everything that happens, as it happens.

    Parameters:
        asks: whoever reads it is asked for what waits, which shows that.
    """

    def __init__(self, job: JobView, where: Target, *, asks: bool = False) -> None:
        self._job = job
        self._where = where
        self._renderer = Renderer(job.id, asks=asks)

    def entries(self, batch: Sequence[Entry]) -> None:
        """Print what they add."""
        write([span for entry in batch for span in self._renderer.on(entry)])

    def refused(self, error: TransomError) -> None:
        """Say why not."""
        say(safe(error.message), "bad", err=True)

    def ended(self, ending: Ending) -> None:
        """Say what waits or how to follow, when it did not end."""
        write(self._renderer.close())
        tell_rest(self._job, self._where, ending)


class JsonLines:
    """One JSON object a line: each event, and at last `{"type": "result", …}`."""

    def __init__(self, job: JobView) -> None:
        self._job = job
        self._end: JobEnded | None = None

    def entries(self, batch: Sequence[Entry]) -> None:
        """Print them."""
        for entry in batch:
            print_json(wire.entry_json(entry))
            self._end = _end_of(self._job, entry) or self._end

    def refused(self, error: TransomError) -> None:
        """Print it as a line of its own."""
        print_json({"type": "refused", "code": error.code, "message": error.message, "details": error.details})

    def ended(self, ending: Ending) -> None:
        """Print the result."""
        result: dict[str, Json] = {"type": "result", "job": self._job.id, "outcome": ending.outcome, "exit": ending.code}
        if self._end is not None:
            result["output"] = self._end.output
            result["error"] = wire.encode(self._end.error) if self._end.error else None
        if ending.waits:
            result["approvals"] = [wire.encode(wait) for wait in ending.waits]
        print_json(result)


class AnswerOnly:
    """Nothing but the job's output; why there is none goes to stderr."""

    def __init__(self, job: JobView, where: Target) -> None:
        self._job = job
        self._where = where
        self._end: JobEnded | None = None

    def entries(self, batch: Sequence[Entry]) -> None:
        """Look for the end."""
        for entry in batch:
            self._end = _end_of(self._job, entry) or self._end

    def refused(self, error: TransomError) -> None:
        """Say why not."""
        say(safe(error.message), "bad", err=True)

    def ended(self, ending: Ending) -> None:
        """Print the output."""
        if self._end is not None and self._end.status == "completed":
            if self._end.output is not None:
                write((Span(safe(pretty(self._end.output)).removesuffix("\n") + "\n"),))
        elif self._end is not None:
            why = f": {told(self._end.error)}" if self._end.error else ""
            say(safe(f"{self._job.agent} {self._end.status.replace('_', ' ')}{why}"), "bad", err=True)
        tell_rest(self._job, self._where, ending)


def tell_rest(job: JobView, where: Target, ending: Ending) -> None:
    """Tell, on stderr, of a job that goes on: what it waits for and how to decide that, or how to follow it."""
    if ending.outcome == "waiting":
        say(f"Job {safe_line(job.id)} waits for a person.", "warn", err=True)
        for line in explain(ending.waits, where):
            say(f"  {line}", err=True)
    if ending.outcome == "waiting" and not where.remote:
        say(where.goes_on, "dim", err=True)
    if ending.outcome == "abandoned":
        say(f"Nobody goes on with job {safe_line(job.id)}: no server runs on this data folder.", "warn", err=True)
        say(where.goes_on, err=True)
    if ending.outcome == "interrupted":
        say(f"Left job {safe_line(job.id)}. To follow it: {where.command('job', 'watch', job.id)}", "dim", err=True)


def _end_of(job: JobView, entry: Entry) -> JobEnded | None:
    event = entry.event
    return event if isinstance(event, JobEnded) and event.job == job.id else None
