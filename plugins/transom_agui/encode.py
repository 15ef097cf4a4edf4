"""The encoder: a turn's log, entry by entry, becomes AG-UI events with IDs. No clock, no request, no HTTP.

The same log, view and facts give the same bytes, so that whoever names the last event it has (`<seq>.<n>`) gets exactly
what came after, from any process. It reads a tree's log from the beginning, and is silent until the run begins.

What a stock client kills a run for is kept here: whatever was opened is closed before the run ends.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from transom_hookspecs import (
    CallEnded,
    CallStarted,
    Entry,
    Event,
    JobEnded,
    JobStarted,
    Json,
    JsonObject,
    NotePinned,
    Text,
    TextCut,
    TextEnded,
    TreeRunning,
    TreeWaiting,
    WaitDecided,
    WaitEdited,
    WaitOpened,
    WaitVoted,
)

from .board import BoardState
from .interrupts import Waiting, interrupt, waiting_for
from .messages import kept, result_id
from .texts import Texts
from .view import Facts, Messages, View
from .wire import (
    PROTOCOL,
    CallArgs,
    CallEnd,
    CallResult,
    CallStart,
    Cancelled,
    Custom,
    Interrupted,
    MessagesSnapshot,
    RunError,
    RunFinished,
    RunStarted,
    StateDelta,
    StateSnapshot,
    StepFinished,
    StepStarted,
    Success,
    Wire,
    frame,
    text_of,
)

MOST_STEPS: Final = 32
"""Steps that are shown open at once."""

Place = tuple[int, int]
"""Where a protocol event stands: the log event it came of, and its number among those."""


class Revoked(Event, frozen=True, kw_only=True, tag="agui.revoked"):
    """The caller may no longer read the thread. It stands in no log: whoever follows puts it in."""


class TurnEncoder:
    """Encodes one run.

    Parameters:
        messages: the client's messages, when it must be told which of them it is to keep.
        since: the last event that the client has; nothing up to it is sent again.
    """

    def __init__(self, view: View, facts: Facts, *, messages: Messages = (), since: Place = (-1, -1)) -> None:
        self.ended = False
        self.known = since == (-1, -1)
        """Whether the event that the client has last was met."""
        self._view, self._facts, self._messages, self._since = view, facts, messages, since
        self._begun, self._seq = False, 0
        self._quiet = max(since[0], view.start)
        self._out: list[Wire] = []
        self._texts = Texts(view, self._out.append)
        self._board = BoardState(facts)
        self._steps: dict[str, bool] = {}
        self._calls: set[str] = set()
        self._waits: dict[str, Waiting] = {}
        self._waiting: tuple[str, ...] = ()
        self._handlers: Mapping[type, Callable[[Any, int], None]] = {
            JobStarted: self._job_started,
            JobEnded: self._job_ended,
            Text: self._text,
            TextEnded: self._text_ended,
            TextCut: self._text_cut,
            CallStarted: self._call,
            CallEnded: self._call_ended,
            NotePinned: self._note,
            WaitOpened: self._wait_opened,
            WaitVoted: self._wait_voted,
            WaitEdited: self._wait_edited,
            WaitDecided: self._wait_decided,
            TreeWaiting: self._tree_waiting,
            TreeRunning: self._tree_running,
            Revoked: self._revoked,
        }

    def on(self, entry: Entry) -> Sequence[bytes]:
        """The frames that an entry becomes."""
        if self.ended:
            return ()
        start, frames = self._view.start, []
        if not self._begun and entry.seq > start:
            frames = self._begin()
        if entry.seq != self._seq + 1:
            self._texts.gap(torn=self._seq < self._since[0] < entry.seq)
            self.known = self.known or self._seq < self._since[0] < entry.seq
        self._seq = entry.seq
        event = entry.event
        if type(event) is Text and entry.seq < self._quiet and self._texts.goes_on(event.message):
            return frames  # most of what a client that comes back has already: nothing is made of it
        handle = self._handlers.get(type(event))
        if handle is not None:
            handle(event, entry.at)
        if entry.seq > start:
            frames += self._frames(entry.seq)
        else:
            self._out.clear()
            if entry.seq == start:
                frames = self._begin()
        return frames

    def _frames(self, seq: int) -> list[bytes]:
        made = [frame(seq, n, event) for n, event in enumerate(self._out) if (seq, n) > self._since]
        self.known = self.known or (seq == self._since[0] and self._since[1] < len(self._out))
        self._out.clear()
        return made

    # -- beginning and end --------------------------------------------------------------------------------

    def _begin(self) -> list[bytes]:
        """The opening events: what a client must have before the first of the log's."""
        view = self._view
        self._begun = True
        self._texts.begin()
        self._say(RunStarted(thread_id=view.thread, run_id=view.run, protocol_version=PROTOCOL))
        if self._messages:
            self._say(MessagesSnapshot(messages=kept(self._messages, view, self._texts.seen, self._calls)))
        if view.board:
            self._say(StateSnapshot(snapshot=self._board.snapshot()))
        for each in view.resumed:
            value: JsonObject = {"interruptId": each.interrupt, "outcome": each.outcome}
            if each.approved is not None:
                value["approved"] = each.approved
            self._say(Custom(name="oz0.resume", value=value))
        for job, shown in self._steps.items():
            if shown:
                self._say(StepStarted(step_name=job))
        if self._waiting and all(each.outcome == "acknowledged" for each in view.resumed):
            self._stop(self._waiting)
        return self._frames(view.start)

    def _say(self, event: Wire) -> None:
        self._out.append(event)

    def _close(self) -> None:
        """End what is open; a client lets no run end before."""
        self._texts.close()
        for job, shown in self._steps.items():
            if shown:
                self._say(StepFinished(step_name=job))

    def _finish(self, outcome: Success | Cancelled | Interrupted, metadata: JsonObject | None = None) -> None:
        self._close()
        view = self._view
        self._say(RunFinished(thread_id=view.thread, run_id=view.run, outcome=outcome, metadata=metadata or {}))
        self.ended = self._begun

    def _fail(self, message: str, code: str, raw: JsonObject | None = None) -> None:
        self._close()
        self._say(RunError(message=message, code=code, raw_event={"oz0": raw} if raw else {}))
        self.ended = self._begun

    def _end_turn(self, event: JobEnded) -> None:
        if event.status == "completed":
            self._texts.answer(event.output)
            if event.card:
                self._say(Custom(name="oz0.card", value={"job": event.job, "card": event.output}))
            self._finish(Success())
        elif event.status == "cancelled" and self._view.protocol:
            self._finish(Cancelled())
        elif event.status == "cancelled":  # a client from before 1.0 does not know this outcome, and dies of it
            self._fail("the job was stopped", "cancelled")
        else:
            error = event.error
            words = error.message if error else "the job took longer than it may"
            spend = spend_type(error.details) if error else ""
            self._fail(words, spend or event.status, error.details if error and spend else None)

    # -- one handler an event -----------------------------------------------------------------------------

    def _job_started(self, event: JobStarted, at: int) -> None:
        if event.job == self._view.job:
            return
        shown = sum(self._steps.values()) < MOST_STEPS
        self._steps[event.job] = shown
        if shown:
            self._say(StepStarted(step_name=event.job))

    def _job_ended(self, event: JobEnded, at: int) -> None:
        if event.job == self._view.job:
            self._end_turn(event)
            return
        shown = self._steps.pop(event.job, False)
        if event.card and self._facts.sees(event.job):
            self._say(Custom(name="oz0.card", value={"job": event.job, "card": event.output}))
        if shown:
            self._say(StepFinished(step_name=event.job))

    def _text(self, event: Text, at: int) -> None:
        if event.job == self._view.job:
            self._texts.more(event.message, event.delta)

    def _text_ended(self, event: TextEnded, at: int) -> None:
        if event.job == self._view.job:
            self._texts.end(event.message, event.text)

    def _text_cut(self, event: TextCut, at: int) -> None:
        if event.job == self._view.job:
            self._texts.cut(event.message)

    def _call(self, event: CallStarted, at: int) -> None:
        if event.job != self._view.job:
            return
        call = event.call
        self._calls.add(call)
        parent = event.message or f"{event.job}:{call.removeprefix(event.job + ':')}"
        self._texts.seen.add(parent)
        self._say(CallStart(tool_call_id=call, tool_call_name=event.function, parent_message_id=parent))
        self._say(CallArgs(tool_call_id=call, delta=text_of(event.arguments)))
        self._say(CallEnd(tool_call_id=call))

    def _call_ended(self, event: CallEnded, at: int) -> None:
        if event.job != self._view.job or event.call not in self._calls:
            return
        content = event.error.message if event.error else text_of(event.content)
        message = result_id(event.job, event.call)
        self._texts.seen.add(message)
        self._say(CallResult(message_id=message, tool_call_id=event.call, content=content, role="tool"))

    def _note(self, event: NotePinned, at: int) -> None:
        patch = self._board.pin(event, at, own=event.job == self._view.job)
        if patch and self._view.board:
            self._say(StateDelta(delta=patch))

    def _wait_opened(self, event: WaitOpened, at: int) -> None:
        self._waits[event.wait] = Waiting(
            id=event.wait,
            job=event.job,
            kind=event.kind,
            token=event.token,
            expires=event.expires,
            opened=at,
            rule=event.rule,
            message=event.message,
            call=event.call,
            function=event.function,
            shown=event.shown,
            schema=event.schema,
            choices=event.choices,
        )

    def _wait_voted(self, event: WaitVoted, at: int) -> None:
        if wait := self._waits.get(event.wait):
            self._waits[event.wait] = msgspec.structs.replace(wait, voted=(*wait.voted, event.by))

    def _wait_edited(self, event: WaitEdited, at: int) -> None:
        if wait := self._waits.get(event.wait):
            self._waits[event.wait] = msgspec.structs.replace(wait, token=event.token, shown=event.shown, voted=())

    def _wait_decided(self, event: WaitDecided, at: int) -> None:
        self._waits.pop(event.wait, None)

    def _tree_waiting(self, event: TreeWaiting, at: int) -> None:
        self._waiting = event.waits
        if self._begun:
            self._stop(event.waits)

    def _tree_running(self, event: TreeRunning, at: int) -> None:
        self._waiting = ()

    def _stop(self, names: Sequence[str]) -> None:
        """Nothing goes on until a person decides: the caller, whose run then ends, or others, who are told of."""
        decided = self._view.decided
        waits = [wait for name, wait in self._waits.items() if name in names and name not in decided]
        mine = [wait for wait in waits if self._is_mine(wait)]
        others: list[Json] = [waiting_for(wait, self._view) for wait in waits if wait not in mine]
        if mine:
            shown = tuple(interrupt(wait, self._view, content=self._facts.sees(wait.job)) for wait in mine)
            self._finish(Interrupted(interrupts=shown), {"oz0/waiting-for-others": others} if others else None)
        elif others:
            self._say(Custom(name="oz0.waiting", value={"waiting": others}))

    def _is_mine(self, wait: Waiting) -> bool:
        view = self._view
        if not view.person:
            return True
        if any(each.wait == wait.id and each.outcome == "acknowledged" for each in view.resumed):
            return False
        return view.caller not in wait.voted and self._facts.answers(wait.id)

    def _revoked(self, event: Revoked, at: int) -> None:
        self._fail("you may no longer read this thread", "revoked")


def spend_type(details: Mapping[str, Any]) -> str:
    """The type of a spend refusal (a quota, a budget, a tree limit), or empty."""
    kind = details.get("type")
    return kind if isinstance(kind, str) and kind.startswith("oz0_") else ""


def refused(thread: str, run: str, message: str, code: str, *, raw: JsonObject | None = None, messages: Messages = ()) -> bytes:
    """A whole stream that refuses a run: it began, and ended so. `messages`: what the client is to have instead."""
    events: list[Wire] = [RunStarted(thread_id=thread, run_id=run, protocol_version=PROTOCOL)]
    if messages:
        events.append(MessagesSnapshot(messages=messages))
    events.append(RunError(message=message, code=code, raw_event={"oz0": raw} if raw else {}))
    return b"".join(frame(0, n, event) for n, event in enumerate(events))
