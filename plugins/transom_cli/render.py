"""Log entries to what a person reads: a pure state machine, without terminal, colour or clock.

The text of the job that is watched stands at the margin, what it delegated is indented below a line that names the
job. Several jobs may speak at once: whoever goes on after another is named again.
"""

import json
from collections import Counter
from functools import singledispatchmethod
from typing import Literal

import msgspec

from transom_hookspecs import (
    CallEnded,
    CallStarted,
    Entry,
    ErrorInfo,
    Event,
    JobEnded,
    JobStarted,
    Json,
    NotePinned,
    OutputQueued,
    Text,
    TextCut,
    TextEnded,
    Usage,
    WaitDecided,
    WaitEdited,
    WaitOpened,
    WaitVoted,
)

from .safe import safe, safe_line

Style = Literal["text", "head", "dim", "good", "bad", "warn"]
SHOWN = 240
"""Characters of a call's arguments or result that are shown; `--json` has all."""

_DECIDED: dict[str, tuple[Style, str]] = {
    "approved": ("good", "✓ approved"),
    "denied": ("bad", "✗ denied"),
    "answered": ("good", "✓ answered"),
    "expired": ("warn", "✗ expired"),
    "cancelled": ("dim", "✗ cancelled"),
}


class Span(msgspec.Struct, frozen=True):
    """A piece of output, safe for a terminal; line ends are part of the text."""

    text: str
    style: Style = "text"


class _Branch(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the transcript names it."""

    label: str
    depth: int


class Renderer:
    """Feed it the log's entries in order, from the start of a job.

    Parameters:
        root: the job that is watched.
        asks: what waits is shown where it is asked for, not here.
    """

    def __init__(self, root: str, *, asks: bool = False) -> None:
        self._root = root
        self._asks = asks
        self._jobs: dict[str, _Branch] = {}
        self._agents: Counter[str] = Counter()
        self._calls: dict[tuple[str, str], str] = {}
        self._shown: Counter[str] = Counter()  # characters shown of messages that are not whole
        self._answer = ""  # the root's last whole message
        self._voice = root  # whose line was the last
        self._message = ""  # which message the open line belongs to
        self._at_margin = True
        self._began = 0
        self._now = 0
        self._tokens = 0
        self._usd = 0.0

    def on(self, entry: Entry) -> list[Span]:
        """What one entry adds to the transcript."""
        self._now = entry.at
        self._began = self._began or entry.at
        return self._event(entry.event)

    def close(self) -> list[Span]:
        """End a line that is open, before something else is written."""
        if self._at_margin:
            return []
        self._at_margin = True
        return [Span("\n")]

    # who speaks, and where

    def _branch(self, job: str) -> _Branch:
        return self._jobs.get(job) or _Branch(label="", depth=0 if job == self._root else 1)

    def _speak(self, job: str) -> list[Span]:
        """Begin a line of the job's, below its name when another job spoke last."""
        spans = self.close()
        if job not in (self._voice, self._root):
            branch = self._branch(job)
            spans.append(Span(f"{'  ' * (branch.depth - 1)}▸ {branch.label or safe_line(job)}\n", "head"))
        self._voice = job
        return spans

    def _line(self, job: str, text: str, style: Style) -> list[Span]:
        """A line of its own; further lines of the text are indented below it."""
        spans = self._speak(job)
        indent = "  " * self._branch(job).depth
        spans.append(Span(indent + safe(text).replace("\n", f"\n{indent}  ") + "\n", style))
        return spans

    def _stream(self, job: str, message: str, text: str) -> list[Span]:
        """More of a message, on its open line when that is still open."""
        spans = self._speak(job) if (job, message) != (self._voice, self._message) else []
        self._message = message
        indent, out = "  " * self._branch(job).depth, []
        for line in safe(text).splitlines(keepends=True):
            out.append(indent + line if self._at_margin and line != "\n" else line)
            self._at_margin = line.endswith("\n")
        return [*spans, Span("".join(out))] if out else spans

    # events

    @singledispatchmethod
    def _event(self, _event: Event) -> list[Span]:
        """An event that adds nothing to read."""
        return []

    @_event.register
    def _job_started(self, event: JobStarted) -> list[Span]:
        self._agents[event.agent] += 1
        count = self._agents[event.agent]
        name = safe_line(event.agent) + (f"#{count}" if count > 1 else "")
        depth = 0 if event.job == self._root else self._branch(event.parent).depth + 1
        self._jobs[event.job] = _Branch(label=name, depth=depth)
        spans = self.close()
        self._voice = event.job
        spans.append(Span(f"{'  ' * max(depth - 1, 0)}▸ {name} · job {safe_line(event.job)}\n", "head"))
        return spans

    @_event.register
    def _text(self, event: Text) -> list[Span]:
        self._shown[event.message] += len(event.delta)
        return self._stream(event.job, event.message, event.delta)

    @_event.register
    def _text_ended(self, event: TextEnded) -> list[Span]:
        """Show what was not: after a while the log keeps whole messages only."""
        rest = event.text[self._shown.pop(event.message, 0) :]
        if event.job == self._root:
            self._answer = event.text
        spans = self._stream(event.job, event.message, rest) if rest else []
        return spans + self.close()

    @_event.register
    def _text_cut(self, event: TextCut) -> list[Span]:
        self._shown.pop(event.message, None)
        return self._line(event.job, "✂ the text above was cut off; it does not count", "warn")

    @_event.register
    def _call(self, event: CallStarted) -> list[Span]:
        self._calls[event.job, event.call] = event.function
        return self._line(event.job, f"→ {safe_line(event.function)} {brief(event.arguments)}", "dim")

    @_event.register
    def _call_ended(self, event: CallEnded) -> list[Span]:
        name = safe_line(self._calls.pop((event.job, event.call), "") or "call")
        if event.error is not None:
            return self._line(event.job, f"✗ {name}: {told(event.error)}", "bad")
        return self._line(event.job, f"← {name} {brief(event.content)}", "dim")

    @_event.register
    def _note(self, event: NotePinned) -> list[Span]:
        replaced = f", replaces {event.supersedes}" if event.supersedes else ""
        return self._line(event.job, f"• note {event.id} ({safe_line(event.kind)}{replaced}): {event.text}", "head")

    @_event.register
    def _wait_opened(self, event: WaitOpened) -> list[Span]:
        if self._asks:
            return []
        what = f"{safe_line(event.function)} {brief(event.shown)}" if event.function else event.message
        return self._line(event.job, f"? {event.kind} {safe_line(event.wait)}: {what}", "warn")

    @_event.register
    def _wait_voted(self, event: WaitVoted) -> list[Span]:
        return self._line(event.job, f"? {safe_line(event.by)} voted {'yes' if event.approved else 'no'}", "dim")

    @_event.register
    def _wait_edited(self, event: WaitEdited) -> list[Span]:
        return self._line(event.job, f"? {safe_line(event.by)} changed the arguments: {brief(event.shown)}", "warn")

    @_event.register
    def _wait_decided(self, event: WaitDecided) -> list[Span]:
        style, word = _DECIDED.get(event.outcome, ("dim", event.outcome))
        comment = f": {event.comment}" if event.comment else ""
        return self._line(event.job, f"{word} by {safe_line(event.by)}{comment}", style)

    @_event.register
    def _output(self, event: OutputQueued) -> list[Span]:
        return self._line(event.job, f"⇢ output {safe_line(event.output)} {event.number}: {safe_line(event.state)}", "dim")

    @_event.register
    def _usage(self, event: Usage) -> list[Span]:
        self._tokens += event.input_tokens + event.output_tokens
        self._usd += event.usd
        return []

    @_event.register
    def _job_ended(self, event: JobEnded) -> list[Span]:
        good = event.status == "completed"
        why = f": {told(event.error)}" if event.error else ""
        style: Style = "good" if good else "bad"
        line = f"{'✓' if good else '✗'} {self._branch(event.job).label} {event.status.replace('_', ' ')}"
        if event.job != self._root:
            return self._line(event.job, line + why, style)
        output = self._output_lines(event.output) if good else []
        return [*output, *self._line(event.job, line + self._figures() + why, style)]

    def _output_lines(self, output: Json) -> list[Span]:
        """The root's output, unless its last message already said it."""
        if output is None or same(self._answer, output):
            return []
        return [*self._speak(self._root), Span(safe(pretty(output)).rstrip("\n") + "\n")]

    def _figures(self) -> str:
        figures = [f"{(self._now - self._began) / 1000:.1f} s"]
        if self._tokens:
            figures.append(f"{self._tokens} tokens")
        if self._usd:
            figures.append(f"${self._usd:.4f}")
        return f" · {', '.join(figures)}"


def brief(value: Json) -> str:
    """A value in one line, cut when it is long."""
    return safe_line(value if isinstance(value, str) else compact(value), SHOWN)


def compact(value: Json) -> str:
    """A value as JSON in one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def pretty(value: Json) -> str:
    """Text as it is, all else as indented JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def told(error: ErrorInfo) -> str:
    """An error in words."""
    return f"{error.message} ({error.code})"


def same(text: str, output: Json) -> bool:
    """Whether a message's text and an output say the same: the text, or its JSON."""
    if isinstance(output, str):
        return text.strip() == output.strip()
    try:
        return bool(text) and msgspec.json.decode(text) == output
    except msgspec.DecodeError:
        return False
