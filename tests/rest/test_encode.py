"""The encoder of a job's stream: the same log gives the same bytes, from wherever a client goes on."""

import typing

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transom_hookspecs import (
    AnyEvent,
    CallEnded,
    Caller,
    CallStarted,
    CostView,
    Entry,
    ErrorInfo,
    JobEnded,
    JobStarted,
    JobView,
    NotePinned,
    OutputQueued,
    Rule,
    Text,
    TextCut,
    TextEnded,
    TransomError,
    TreeRunning,
    TreeWaiting,
    Usage,
    WaitDecided,
    WaitEdited,
    WaitOpened,
    WaitVoted,
)
from transom_rest.encode import JobEncoder, parse_event_id
from transom_testing.streaming import SseParser

ANNA = Caller(kind="person", id="anna", tenant="default")
NOON = 1_772_366_400_250


def entry(seq, event):
    return Entry(seq, NOON + seq, event)


def job(id="j1", tree=""):
    return JobView(id=id, agent="echo", status="running", started_at=NOON, tree=tree or id, token="t-1", cost=CostView())


def encode(log, view, since=0):
    """All bytes of a stream that goes on after `since`, and whether it ended."""
    encoder = JobEncoder(view, since)
    frames = [frame for e in log if e.seq > encoder.after for frame in encoder.on(e)]
    return frames, encoder.ended


EVENTS = (
    JobStarted(job="j1", agent="echo", caller=ANNA, parent="j0", step="1", label="l", flow=True),
    Text(job="j1", message="j1:1", delta="a\r\ndata: x\u2028\0ü😀"),
    TextEnded(job="j1", message="j1:1", text="whole"),
    TextCut(job="j1", message="j1:1"),
    CallStarted(job="j1", call="c", function="team.greet", arguments={"snake_case": "\n"}),
    CallEnded(job="j1", call="c", content={"snake_case": [1]}),
    CallEnded(job="j1", call="c", error=ErrorInfo(code="internal", message="no")),
    NotePinned(job="j1", id=1, kind="note", text="n", agent="echo", tags=("t",)),
    WaitOpened(
        job="j1",
        wait="w",
        kind="approval",
        token="ozi1.x",
        expires=NOON,
        message="m",
        shown={"snake_case": 1},
        rule=Rule(four_eyes=True),
    ),
    WaitVoted(job="j1", wait="w", by="person:omar", approved=True),
    WaitEdited(job="j1", wait="w", by="person:omar", token="ozi1.y", shown={"snake_case": 2}),
    WaitDecided(job="j1", wait="w", outcome="approved", by="person:omar", comment="fine"),
    TreeWaiting(job="j1", waits=("w",)),
    TreeRunning(job="j1"),
    OutputQueued(job="j1", output="comment", number=0, state="pending"),
    Usage(job="j1", model="m", step="1", input_tokens=3, output_tokens=4, cached_tokens=1, usd=0.5, estimated=True),
    JobEnded(job="j1", status="completed", output={"snake_case": None}),
)


def test_the_examples_are_every_event_of_the_log():
    assert {type(e) for e in EVENTS} == set(typing.get_args(AnyEvent))


@pytest.mark.req("REST-5")
@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_an_event_is_one_frame_with_id_type_and_one_line_of_json(event):
    (frame,), _ = encode([entry(7, event)], job())
    head, data = frame.decode().split("\ndata: ")
    assert head == f"id: 7-t-1\nevent: {event.__struct_config__.tag}"
    assert data.endswith("\n\n")
    assert data[:-2].isprintable() or "\u2028" in data
    assert not set("\r\n\0") & set(data[:-2])
    value = msgspec.json.decode(data)
    assert (value["seq"], value["at"], value["type"], value["job"]) == (
        7,
        "2026-03-01T12:00:00.257Z",
        event.__struct_config__.tag,
        "j1",
    )
    (parsed,) = SseParser().feed(frame)
    assert (parsed.id, parsed.event, parsed.data) == ("7-t-1", value["type"], data[:-2])


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: type(e).__name__)
def test_the_wires_own_names_are_camel_case_and_what_agents_named_stays(event):
    (frame,), _ = encode([entry(1, event)], job())
    value = msgspec.json.decode(frame.decode().split("\ndata: ")[1])
    for key in ("arguments", "content", "shown", "output"):
        assert value.pop(key, None) in (None, getattr(event, key, None))
    names = set(value) | set(value.get("rule", ()))
    assert not [name for name in names if "_" in name]


def test_times_and_usage_in_this_wires_words():
    (opened,), _ = encode([entry(1, EVENTS[8])], job())
    (usage,), _ = encode([entry(2, EVENTS[15])], job())
    assert msgspec.json.decode(opened.decode().split("\ndata: ")[1]) == {
        "seq": 1,
        "at": "2026-03-01T12:00:00.251Z",
        "type": "wait.opened",
        "job": "j1",
        "wait": "w",
        "kind": "approval",
        "token": "ozi1.x",
        "rule": {"count": 1, "fourEyes": True, "veto": True},
        "expires": "2026-03-01T12:00:00.250Z",
        "message": "m",
        "shown": {"snake_case": 1},
    }
    assert b'"inputTokens":3,"outputTokens":4,"cachedTokens":1,"usd":0.5,"estimated":true' in usage


def test_a_jobs_own_end_ends_its_stream_and_another_jobs_does_not():
    log = [
        entry(1, JobStarted(job="r", agent="a", caller=ANNA)),
        entry(2, JobStarted(job="c", agent="a", caller=ANNA, parent="r")),
        entry(3, JobEnded(job="c", status="completed")),
        entry(4, JobEnded(job="r", status="completed")),
        entry(5, OutputQueued(job="r", output="o", number=0, state="applied")),
    ]
    assert [f.split(b"-")[0] for f in encode(log, job("r"))[0]] == [b"id: 1", b"id: 2", b"id: 3", b"id: 4"]
    assert encode(log, job("r"), 4) == ([], True)
    assert [f.split(b"-")[0] for f in encode(log, job("c", "r"))[0]] == [b"id: 2", b"id: 3"]
    assert encode(log, job("c", "r"), 3) == ([], True)


@st.composite
def logs(draw):
    """A tree's log: jobs start under jobs that run, do things, and end; the root last, and then some more."""
    parents, running, log = {"r": ""}, ["r"], [JobStarted(job="r", agent="a", caller=ANNA)]
    for step in draw(st.lists(st.integers(0, 5), max_size=25)):
        if not running:
            break
        who = draw(st.sampled_from(running))
        if step == 0:
            child = f"c{len(parents)}"
            parents[child] = who
            running.append(child)
            log.append(JobStarted(job=child, agent="a", caller=ANNA, parent=who))
        elif step == 1 and who != "r":
            running.remove(who)
            log.append(JobEnded(job=who, status="completed"))
        elif step == 2:
            log.append(draw(st.sampled_from([TreeWaiting(job=who, waits=("w",)), TreeRunning(job="r")])))
        else:
            log.append(Text(job=who, message=f"{who}:1", delta=draw(st.text(max_size=5))))
    log += [JobEnded(job=who, status="cancelled") for who in reversed(running)]
    log.append(OutputQueued(job="r", output="o", number=0, state="applied"))
    return parents, [entry(i, e) for i, e in enumerate(log, 1)]


def expected(parents, log, who):
    """The seqs of a job's stream, said another way: by the whole tree, seen from its end."""
    family = {j for j in parents if who in ancestry(parents, j)}
    seqs = [e.seq for e in log if who == "r" or e.event.job in family or isinstance(e.event, TreeWaiting | TreeRunning)]
    end = next(e.seq for e in log if isinstance(e.event, JobEnded) and e.event.job == who)
    return [seq for seq in seqs if seq <= end]


def ancestry(parents, job):
    while job:
        yield job
        job = parents[job]


@pytest.mark.req("RT-18")
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(logs(), st.data())
def test_a_stream_resumed_at_any_of_its_ids_gives_the_bytes_that_came_after(tree, data):
    parents, log = tree
    who = data.draw(st.sampled_from(sorted(parents)))
    view = job(who, "r")
    frames, ended = encode(log, view)
    assert ended
    assert [int(f.split(b"-")[0][4:]) for f in frames] == expected(parents, log, who)
    for at, frame in enumerate(frames):
        since, token = parse_event_id(frame.split(b"\n")[0][4:].decode())
        assert token == "t-1"
        assert encode(log, view, since) == (frames[at + 1 :], True)


@pytest.mark.req("REST-5")
@pytest.mark.parametrize(
    "id",
    [
        "",
        "5",
        "-1",
        "abc",
        "999999",
        "0-t",
        "05-t",
        "5-",
        "-t",
        "5 -t",
        "5-t t",
        "5-t\n",
        "+5-t",
        "\u0665-t",
        "5_0-t",
        "1e2-t",
        "9" * 16 + "-t",
        "5-" + "t" * 201,
    ],
)
def test_an_event_id_that_is_none_of_ours_is_refused(id):
    with pytest.raises(TransomError) as refused:
        parse_event_id(id)
    assert refused.value.code == "invalid_argument"


@given(st.integers(1, 10**15 - 1), st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=200))
@settings(max_examples=50)
def test_an_event_id_is_read_as_it_was_written(seq, token):
    assert parse_event_id(f"{seq}-{token}") == (seq, token)
