"""Whatever a job tree does: its stream keeps the client's rules, is the same each time, and goes on from any event."""

import pytest
from agui_kit import ANNA, Client, Says, encode, frames_of, log, started, view
from hypothesis import given, settings
from hypothesis import strategies as st

from transom_agui.view import Resumed
from transom_hookspecs import (
    CallEnded,
    CallStarted,
    ErrorInfo,
    JobEnded,
    JobStarted,
    NotePinned,
    OutputQueued,
    Rule,
    Text,
    TextCut,
    TextEnded,
    TreeRunning,
    TreeWaiting,
    Usage,
    WaitDecided,
    WaitEdited,
    WaitOpened,
    WaitVoted,
)

DECIDED = (Resumed(interrupt="ozi1.x", wait="x", outcome="decided", approved=True),)
KINDS = ("approval", "question", "outputs", "escalation", "changeset", "restart", "budget")
WORDS = st.sampled_from(["a", "two words", "", "line\nbreak", "\r\n\r\n", "é🦀", '"quoted"', "data: x"])


class Tree:
    """A job tree that does as it is told, as far as a tree can."""

    def __init__(self):
        self.events = [started()]
        self.jobs, self.texts, self.calls, self.waits = ["j"], {}, {}, {}
        self.waiting = self.over = False
        self.count, self.notes = 0, 0

    def say(self, event):
        self.events.append(event)

    def name(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    def do(self, what, which, word):
        job = self.jobs[which % len(self.jobs)]
        if self.waiting and what not in ("decide", "vote", "edit", "end"):
            return
        getattr(self, what)(job, which, word)

    def text(self, job, which, word):
        message = self.texts.setdefault(job, [f"{job}:{self.name('')}", ""])
        if word:
            message[1] += word
            self.say(Text(job=job, message=message[0], delta=word))

    def text_end(self, job, which, word):
        if job in self.texts:
            message, text = self.texts.pop(job)
            self.say(TextCut(job=job, message=message) if which % 3 == 0 else TextEnded(job=job, message=message, text=text))

    def said(self, job, which, word):
        self.say(TextEnded(job=job, message=f"{job}:{self.name('')}", text=word))

    def call(self, job, which, word):
        call = self.name("call")
        self.calls[call] = job
        message = f"{job}:{which}" if which % 2 else ""
        self.say(CallStarted(job=job, call=call, function="team.greet", arguments={"word": word}, message=message))

    def call_end(self, job, which, word):
        if self.calls:
            call = list(self.calls)[which % len(self.calls)]
            error = ErrorInfo(code="internal", message=word or "no") if which % 2 else None
            self.say(CallEnded(job=self.calls.pop(call), call=call, content={"said": word}, error=error))

    def child(self, job, which, word):
        child = self.name("child")
        self.jobs.append(child)
        self.say(JobStarted(job=child, agent="worker", caller=ANNA, parent=job, step="1"))

    def child_end(self, job, which, word):
        if job != "j":
            self.leave(job, "completed" if which % 2 else "failed")

    def leave(self, job, status):
        self.jobs.remove(job)
        self.texts.pop(job, None)
        for wait in [w for w, owner in self.waits.items() if owner == job]:
            del self.waits[wait]
            self.say(WaitDecided(job=job, wait=wait, outcome="cancelled", by="system:end"))
        self.say(JobEnded(job=job, status=status, output={"title": "x"}, card=status == "completed"))

    def note(self, job, which, word):
        self.notes += 1
        old = which % self.notes
        self.say(NotePinned(job=job, id=self.notes, kind="note", text=word or "-", agent="worker", supersedes=old))

    def ask(self, job, which, word):
        wait = self.name("wait")
        self.waits[wait] = job
        self.say(
            WaitOpened(
                job=job,
                wait=wait,
                kind=KINDS[which % len(KINDS)],
                token=f"ozi1.{wait}",
                expires=1_900_000_000_000,
                message=word,
                call=self.name("asked") if which % 2 else "",
                function="team.greet" if which % 2 else "",
                shown={"word": word},
                rule=Rule(count=1 + which % 2, edit=True),
            )
        )

    def rest(self, job, which, word):
        if self.waits and not self.texts:
            self.waiting = True
            self.say(TreeWaiting(job="j", waits=tuple(self.waits)))

    def decide(self, job, which, word):
        if self.waits:
            wait = list(self.waits)[which % len(self.waits)]
            self.say(WaitDecided(job=self.waits.pop(wait), wait=wait, outcome="approved", by="person:omar"))
            if self.waiting:
                self.waiting = False
                self.say(TreeRunning(job="j"))

    def vote(self, job, which, word):
        if self.waits:
            wait = list(self.waits)[which % len(self.waits)]
            self.say(WaitVoted(job=self.waits[wait], wait=wait, by="person:anna", approved=True))

    def edit(self, job, which, word):
        if self.waits:
            wait = list(self.waits)[which % len(self.waits)]
            token = f"ozi1.{self.name('edited')}"
            self.say(WaitEdited(job=self.waits[wait], wait=wait, by="person:ada", token=token, shown={"word": "new"}))

    def noise(self, job, which, word):
        self.say(Usage(job=job, model="m", step="1") if which % 2 else OutputQueued(job=job, output="o", number=1, state="x"))

    def end(self, job, which, word):
        status = ("completed", "failed", "cancelled", "timed_out")[which % 4]
        for child in self.jobs[:0:-1]:
            self.leave(child, "cancelled")
        self.leave("j", status)
        self.over = True


MOVES = tuple(name for name in vars(Tree) if not name.startswith("_") and name not in ("say", "name", "do", "leave", "end"))


@st.composite
def trees(draw):
    """A tree's log."""
    tree = Tree()
    moves = draw(st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 50), WORDS), max_size=60))
    for what, which, word in moves:
        tree.do(what, which, word)
    if draw(st.booleans()):
        tree.do("end", draw(st.integers(0, 3)), "")
    return log(*tree.events)


@st.composite
def runs(draw):
    """A log, and a run of it: from the beginning, or from a place where the tree waited."""
    entries = draw(trees())
    stops = [e.seq for e in entries if isinstance(e.event, TreeWaiting)]
    waits = [e.event.wait for e in entries if isinstance(e.event, WaitOpened)]
    made = view(
        start=draw(st.sampled_from([0, *stops])),
        protocol=draw(st.sampled_from(["", "1.0"])),
        board=draw(st.booleans()),
        person=draw(st.booleans()),
        decided=tuple(draw(st.lists(st.sampled_from(waits), unique=True))) if waits else (),
    )
    jobs = [e.event.job for e in entries if isinstance(e.event, JobStarted)]
    facts = Says(draw(st.sets(st.sampled_from(jobs))), draw(st.sets(st.sampled_from(waits))) if waits else ())
    return entries, made, facts


@pytest.mark.req("AGUI-10", "AGUI-16", "AGUI-47")
@given(runs())
@settings(max_examples=300, deadline=None)
def test_every_stream_keeps_the_clients_rules(run):
    entries, view_of_it, facts = run
    client = Client().take(encode(entries, view_of_it, facts))
    assert client.events[0]["type"] == "RUN_STARTED"
    over = any(isinstance(e.event, JobEnded) and e.event.job == "j" for e in entries)
    assert (client.failed or client.finished) or not over


@pytest.mark.req("AGUI-24")
@given(runs())
@settings(max_examples=200, deadline=None)
def test_going_on_after_any_event_gives_exactly_what_came_after_it(run):
    entries, view_of_it, facts = run
    whole = encode(entries, view_of_it, facts)
    assert encode(entries, view_of_it, facts) == whole
    places = frames_of(whole)
    rest = whole
    for place, _ in places:
        rest = rest[rest.index(b"\n\n") + 2 :]
        assert encode(entries, view_of_it, facts, since=place) == rest


@pytest.mark.req("AGUI-24")
@given(runs(), st.data())
@settings(max_examples=100, deadline=None)
def test_a_stream_cut_at_any_byte_is_whole_with_what_comes_after_the_last_id(run, data):
    entries, view_of_it, facts = run
    whole = encode(entries, view_of_it, facts)
    cut = data.draw(st.integers(0, len(whole)))
    got = frames_of(whole[:cut])
    rest = encode(entries, view_of_it, facts, since=got[-1][0]) if got else whole
    held = sum(len(part) + 2 for part in whole[:cut].split(b"\n\n")[:-1])
    assert whole[:held] + rest == whole


@given(trees())
@settings(max_examples=100, deadline=None)
def test_run_after_run_a_client_has_every_message_once_and_the_board_as_it_is(entries):
    """It follows the turn, answers whatever ends a run, and goes on in a run of its own."""
    client, start = Client(), 0
    for _ in range(len(entries) + 1):
        client.take(encode(entries, view(start=start, resumed=DECIDED if start else ())))
        if not client.interrupts or client.running:
            break
        ended = [e.seq for e in entries if isinstance(e.event, TreeWaiting) and e.seq > start]
        start, client.interrupts = ended[0], []
    whole = [e.event for e in entries if isinstance(e.event, TextEnded) and e.event.job == "j" and e.event.text]
    said = [m["content"] for m in client.messages if m["role"] == "assistant" and m.get("content")]
    if not client.running:
        assert {f"[AI] {w.text}" for w in whole} <= set(said)
    shown = [n["id"] for n in client.state["board"]["notes"]]
    assert len(shown) == len(set(shown))
