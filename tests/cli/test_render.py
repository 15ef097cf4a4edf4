"""The transcript: entries in, lines out."""

import re

from cli_fakes import NOW
from hypothesis import given, settings
from hypothesis import strategies as st

from transom_cli.render import Renderer, same
from transom_hookspecs import (
    CallEnded,
    Caller,
    CallStarted,
    Entry,
    ErrorInfo,
    JobEnded,
    JobStarted,
    NotePinned,
    Rule,
    Text,
    TextCut,
    TextEnded,
    TreeRunning,
    Usage,
    WaitDecided,
    WaitEdited,
    WaitOpened,
    WaitVoted,
)

ME = Caller(kind="operator", id="me")


def show(*events, root="r") -> str:
    renderer = Renderer(root)
    spans = [span for seq, event in enumerate(events, 1) for span in renderer.on(Entry(seq, NOW + seq * 1000, event))]
    return "".join(span.text for span in spans)


def started(job="r", agent="root", parent=""):
    return JobStarted(job=job, agent=agent, caller=ME, parent=parent)


def text(delta, job="r", message="r:1"):
    return Text(job=job, message=message, delta=delta)


def test_deltas_are_joined_and_the_message_is_ended_once():
    assert show(text("Hel"), text("lo"), TextEnded(job="r", message="r:1", text="Hello")) == "Hello\n"


def test_a_message_whose_deltas_are_gone_is_shown_whole():
    assert show(TextEnded(job="r", message="r:1", text="Hello")) == "Hello\n"


def test_the_rest_of_a_message_is_shown_when_the_last_deltas_are_gone():
    assert show(text("Hel"), TextEnded(job="r", message="r:1", text="Hello")) == "Hello\n"


def test_messages_begin_on_lines_of_their_own():
    assert show(text("one"), text("two", message="r:2")) == "one\ntwo"


def test_an_output_that_was_said_is_not_said_again():
    said = TextEnded(job="r", message="r:1", text='{"a": 1}')
    assert show(said, JobEnded(job="r", status="completed", output={"a": 1})).count("a") == 1
    other = show(said, JobEnded(job="r", status="completed", output={"a": 2}))
    assert '"a": 2' in other


def test_same_compares_what_is_said():
    assert same(" hi\n", "hi")
    assert same('{"a":1}', {"a": 1})
    assert not same("no json", {"a": 1})
    assert not same("", None)


def test_a_child_is_named_and_indented_also_line_by_line():
    shown = show(started(), started("c", "worker", "r"), text("a\nb\n\nc", job="c", message="c:1"), text("back"))
    assert shown == "▸ root · job r\n▸ worker · job c\n  a\n  b\n\n  c\nback"


def test_a_grandchild_stands_below_its_parent():
    shown = show(started(), started("c", "worker", "r"), started("g", "helper", "c"), text("deep", job="g", message="g:1"))
    assert shown.endswith("▸ worker · job c\n  ▸ helper · job g\n    deep")


def test_whoever_goes_on_after_another_is_named_again():
    shown = show(
        started("1", "worker", "r"),
        started("2", "worker", "r"),
        text("x", "1", "1:1"),
        text("y", "2", "2:1"),
        text("z", "1", "1:1"),
    )
    assert shown.splitlines()[2:] == ["▸ worker", "  x", "▸ worker#2", "  y", "▸ worker", "  z"]


def test_calls_are_shown_with_what_they_gave():
    shown = show(
        CallStarted(job="r", call="1", function="t.f", arguments={"a": "\n"}),
        CallStarted(job="r", call="2", function="t.g", arguments={}),
        CallEnded(job="r", call="2", content="line\nline"),
        CallEnded(job="r", call="1", error=ErrorInfo(code="unavailable", message="gone")),
    )
    assert shown.splitlines() == ['→ t.f {"a":"\\n"}', "→ t.g {}", "← t.g line line", "✗ t.f: gone (unavailable)"]


def test_long_arguments_are_cut():
    assert len(show(CallStarted(job="r", call="1", function="t.f", arguments={"a": "x" * 5000}))) < 300


def test_cut_text_is_said_to_be_cut_on_a_line_of_its_own():
    shown = show(text("Half a"), TextCut(job="r", message="r:1"), text("Whole", message="r:1~2"))
    first, cut, whole = shown.splitlines()
    assert (first, whole) == ("Half a", "Whole")
    assert "cut off" in cut


def test_waits_votes_and_decisions_are_told():
    shown = show(
        WaitOpened(job="r", wait="w", kind="approval", token="t", expires=1, function="t.f", shown={"a": 1}, rule=Rule()),
        WaitEdited(job="r", wait="w", by="person:x", token="u", shown={"a": 2}),
        WaitVoted(job="r", wait="w", by="person:y", approved=True),
        WaitDecided(job="r", wait="w", outcome="denied", by="person:z", comment="too late"),
    )
    assert shown.splitlines() == [
        '? approval w: t.f {"a":1}',
        '? person:x changed the arguments: {"a":2}',
        "? person:y voted yes",
        "✗ denied by person:z: too late",
    ]


def test_notes_tell_what_they_replace():
    assert (
        show(NotePinned(job="r", id=2, kind="plan", text="a\nb", agent="root", supersedes=1))
        == "• note 2 (plan, replaces 1): a\n  b\n"
    )


def test_the_end_tells_time_tokens_and_cost():
    shown = show(
        started(),
        Usage(job="r", model="m", step="1", input_tokens=10, output_tokens=5, usd=0.25),
        JobEnded(job="r", status="completed"),
    )
    assert shown.splitlines()[-1] == "✓ root completed · 2.0 s, 15 tokens, $0.2500"


def test_a_failed_job_says_why():
    assert "✗ root timed out" in show(started(), JobEnded(job="r", status="timed_out"))


words = st.text(alphabet=st.characters(), max_size=12)
jobs = st.sampled_from(["r", "a", "b"])
event = st.one_of(
    st.builds(text, words, jobs, st.sampled_from(["m1", "m2"])),
    st.builds(TextEnded, job=jobs, message=st.sampled_from(["m1", "m2"]), text=words),
    st.builds(TextCut, job=jobs, message=st.just("m1")),
    st.builds(started, jobs, words, st.sampled_from(["", "r", "a"])),
    st.builds(CallStarted, job=jobs, call=words, function=words, arguments=st.dictionaries(words, words, max_size=2)),
    st.builds(CallEnded, job=jobs, call=words, content=st.one_of(st.none(), words, st.lists(words, max_size=2))),
    st.builds(NotePinned, job=jobs, id=st.integers(1, 9), kind=words, text=words, agent=words),
    st.builds(WaitDecided, job=jobs, wait=words, outcome=st.just("approved"), by=words, comment=words),
    st.builds(TreeRunning, job=jobs),
    st.builds(JobEnded, job=jobs, status=st.just("completed"), output=st.one_of(st.none(), words)),
)


@settings(max_examples=300)
@given(st.lists(event, max_size=20))
def test_no_control_character_reaches_the_terminal_and_children_stay_indented(events):
    shown = show(*events)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", shown)


@given(st.lists(words, min_size=1, max_size=8))
def test_every_word_of_the_root_is_shown_in_order(deltas):
    from transom_cli.safe import safe

    whole = "".join(deltas)
    shown = show(*(text(delta) for delta in deltas), TextEnded(job="r", message="r:1", text=whole))
    assert shown.rstrip("\n") == safe(whole).rstrip("\n")
