"""The REST wire, read and written."""

import msgspec
import pytest
from cli_fakes import NOW, make_wait
from hypothesis import given
from hypothesis import strategies as st

from transom_cli import wire
from transom_hookspecs import (
    BranchCost,
    Caller,
    CallStarted,
    CostView,
    Entry,
    ErrorInfo,
    JobEnded,
    JobStarted,
    JobView,
    NotePinned,
    Rule,
    StartJob,
    Text,
    TransomError,
    TreeWaiting,
    Usage,
    Vote,
    WaitDecided,
    WaitOpened,
)

KEYS = {"snake_key": {"camelKey": 1, "started_at": "a word"}}
EVENTS = [
    JobStarted(job="j", agent="a", caller=Caller(kind="person", id="anna", via="app:desk")),
    Text(job="j", message="j:1", delta="…"),
    CallStarted(job="j", call="c", function="t.f", arguments=KEYS),
    NotePinned(job="j", id=3, kind="plan", text="x", agent="a", tags=("t",), supersedes=1),
    WaitOpened(job="j", wait="w", kind="approval", token="ozi1.x", expires=NOW, shown=KEYS, rule=Rule(four_eyes=True, count=2)),
    WaitDecided(job="j", wait="w", outcome="denied", by="person:omar"),
    TreeWaiting(job="j", waits=("w",)),
    Usage(job="j", model="m", step="1", input_tokens=3, output_tokens=4),
    JobEnded(job="j", status="failed", error=ErrorInfo(code="internal", message="m", details=KEYS)),
]
JOB = JobView(
    id="j",
    agent="a",
    status="waiting",
    started_at=NOW,
    tree="j",
    token="t",
    output=KEYS,
    approvals=(make_wait(shown=KEYS, votes=(Vote(by="person:x", approved=True, at=NOW),)),),
    cost=CostView(usd=0.5, input_tokens=3, branches=(BranchCost(job="j", agent="a", cached_tokens=2),)),
)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__struct_config__.tag)
def test_an_event_comes_back_as_it_was(event):
    entry = Entry(7, NOW, event)
    assert wire.entry(msgspec.json.encode(wire.entry_json(entry)).decode()) == entry


def test_names_are_camel_case_and_times_rfc_3339_but_what_people_wrote_keeps_its_keys():
    body = wire.encode(JOB)
    assert body["startedAt"] == "2026-02-25T06:13:20.000Z"
    assert "closedAt" not in body
    assert body["output"] == KEYS
    assert body["approvals"][0]["canDecide"] is True
    assert body["approvals"][0]["shown"] == KEYS
    assert body["cost"]["branches"][0]["cachedTokens"] == 2
    assert wire.decode(JobView, body) == JOB


def test_what_the_wire_leaves_out_is_filled_in():
    job = wire.decode(JobView, {"id": "j", "agent": "a", "status": "queued", "later": "a newer field", "error": None})
    assert (job.tree, job.started_at, job.closed_at) == ("", 0, 0)
    assert wire.decode(Rule, {"count": 1}).veto is False


def test_an_event_of_a_type_that_is_not_known_is_passed_over():
    assert wire.entry('{"type": "newer", "seq": 1, "at": "2026-01-01T00:00:00Z"}') is None


@pytest.mark.parametrize(
    "data",
    [
        "",
        "{",
        "no JSON",
        '{"type": "text"}',
        '{"type": "text", "job": 1}',
        '{"type": "text", "job": "j", "message": "m", "delta": "d"}',
        '{"type": "tree.running", "job": "j", "seq": 1, "at": "yesterday"}',
    ],
)
def test_an_event_without_its_shape_is_an_error_with_a_word(data):
    with pytest.raises(TransomError, match="different versions") as caught:
        wire.entry(data)
    assert caught.value.code == "data_loss"


@pytest.mark.parametrize(
    "answer",
    [
        {"id": "j", "agent": "a", "status": "running", "retried": True},
        {"job": {"id": "j", "agent": "a", "status": "running"}, "retried": True},
    ],
)
def test_a_start_is_read_in_either_shape(answer):
    started = wire.started(answer)
    assert (started.job.id, started.retried) == ("j", True)


def test_a_start_sends_what_is_set():
    assert wire.start_query(StartJob(agent="a")) == {}
    request = StartJob(agent="a", id="j", timeout=5400.5, tags=("x", "y"), conversation="c", team="t")
    assert wire.start_query(request) == {"id": "j", "timeout": "5400.5s", "tags": "x,y", "conversation": "c", "team": "t"}
    assert wire.start_query(StartJob(agent="a", timeout=900.0)) == {"timeout": "900s"}


@pytest.mark.parametrize(
    ("status", "body", "code", "says"),
    [
        pytest.param(404, b'{"code":"not_found","message":"no agent","details":{"a":1}}', "not_found", "no agent", id="ours"),
        pytest.param(502, b"<html>bad gateway</html>", "unavailable", "HTTP 502", id="a proxy's page"),
        pytest.param(401, b"", "unauthenticated", "HTTP 401", id="nothing"),
        pytest.param(418, b'{"code":"tea","message":"short and stout"}', "unknown", "short and stout", id="a code of its own"),
        pytest.param(400, b'["message"]', "invalid_argument", "HTTP 400", id="no object"),
        pytest.param(503, b"[" * 100_000, "unavailable", "HTTP 503", id="too deep"),
    ],
)
def test_an_error_is_read_from_any_answer(status, body, code, says):
    error = wire.error(status, body)
    assert (error.code, says in error.message) == (code, True)


@given(st.text(min_size=1))
def test_a_path_has_as_many_parts_as_were_given(part):
    assert wire.path("jobs", part.encode(errors="replace").decode(), "events").count("/") == 4
