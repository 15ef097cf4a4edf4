"""The encoder, event by event: what a log becomes, and what becomes of it when the log is not whole."""

import pytest
from agui_kit import AT, Client, Says, encode, frames_of, log, read, started, view

from transom_agui.encode import Revoked
from transom_agui.interrupts import who
from transom_agui.view import Resumed
from transom_hookspecs import (
    CallEnded,
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
    TreeWaiting,
    WaitDecided,
    WaitEdited,
    WaitOpened,
    WaitVoted,
)

FAR = 1_900_000_000_000


def text(delta: str, message: str = "j:1", job: str = "j") -> Text:
    return Text(job=job, message=message, delta=delta)


def whole(words: str, message: str = "j:1", job: str = "j") -> TextEnded:
    return TextEnded(job=job, message=message, text=words)


def ended(status: str = "completed", job: str = "j", **changes) -> JobEnded:
    return JobEnded(job=job, status=status, **changes)


def child(name: str) -> JobStarted:
    return started(job=name, agent="worker", parent="j", step="1")


def opened(wait: str = "w1", **changes) -> WaitOpened:
    facts = {"job": "j", "kind": "approval", "token": f"ozi1.{wait}", "expires": FAR, "rule": Rule(), "shown": {"a": 1}}
    return WaitOpened(**{**facts, "wait": wait, "call": "c1", "function": "team.greet", **changes})


def waiting(*waits: str) -> TreeWaiting:
    return TreeWaiting(job="j", waits=waits or ("w1",))


@pytest.mark.req("AGUI-10", "AGUI-12")
def test_frames_have_ids_lf_and_one_event_each():
    entries = log(started(), text("Hi\r\n\r\n"), whole("Hi\r\n\r\n"), ended(output="x"))
    stream = encode(entries, view())
    assert b"\r" not in stream
    assert stream.startswith(b'id: 0.0\ndata: {"type":"RUN_STARTED","threadId":"t","runId":"r","protocolVersion":"1.0"}\n\n')
    assert [place for place, _ in frames_of(stream)] == [(0, 0), (0, 1), (2, 0), (2, 1), (3, 0), (4, 0)]


@pytest.mark.req("AGUI-12")
def test_each_message_begins_with_the_label_and_none_is_empty():
    entries = log(
        started(), text("a"), text(""), text("b"), whole("ab"), whole("", "j:2"), whole("said", "j:3"), ended(output="said")
    )
    client = read(entries, view())
    assert client.text() == "[AI] ab\n[AI] said"
    assert read(entries, view(label="")).text() == "ab\nsaid"


@pytest.mark.req("AGUI-12")
def test_a_cut_message_ends_and_the_next_attempt_is_another():
    entries = log(
        started(), text("half of"), TextCut(job="j", message="j:1"), text("all of it", "j:1~2"), whole("all", "j:1~2")
    )
    client = read(entries, view())
    assert [m["id"] for m in client.messages] == ["j:1", "j:1~2"]


@pytest.mark.req("AGUI-13")
def test_a_call_has_its_message_its_arguments_and_its_result():
    call = CallStarted(job="j", call="c1", function="team.greet", arguments={"é": ["\n"]}, message="j:1")
    own = CallStarted(job="j", call="j:4", function="demo.nap", arguments={})
    failed = CallEnded(job="j", call="j:4", error=ErrorInfo(code="internal", message="it broke"))
    entries = log(started(), text("x"), whole("x"), call, CallEnded(job="j", call="c1", content={"ok": 1}), own, failed)
    client = read(entries, view())
    assert [m["id"] for m in client.messages] == ["j:1", "j:c1:result", "j:4", "j:4:result"]
    assert client.messages[0]["toolCalls"][0]["function"] == {"name": "team.greet", "arguments": '{"é":["\\n"]}'}
    assert [m["content"] for m in client.messages if m["role"] == "tool"] == ['{"ok":1}', "it broke"]


@pytest.mark.req("AGUI-16", "AGUI-17")
def test_at_most_32_steps_are_open_and_one_past_that_only_shows_its_card():
    names = [f"s{i}" for i in range(40)]
    ends = [ended(job=name, output={"title": name}, card=True) for name in names]
    client = read(log(started(), *map(child, names), *ends, ended()), view())
    assert [e["stepName"] for e in client.of("STEP_STARTED")] == names[:32]
    assert [e["job"] for e in client.of("oz0.card")] == names
    kinds = client.kinds()
    assert kinds[kinds.index("oz0.card") + 1] == "STEP_FINISHED"


@pytest.mark.req("AGUI-16")
def test_a_run_that_ends_closes_its_steps_first_and_the_next_opens_them_again():
    entries = log(
        started(),
        child("s1"),
        opened(job="s1"),
        waiting(),
        WaitDecided(job="s1", wait="w1", outcome="approved", by="person:anna", run="r2"),
        TreeRunning(job="j"),
        ended(job="s1", output={"title": "x"}, card=True),
        ended(),
    )
    client = read(entries, view())
    assert client.kinds()[-3:] == ["STEP_STARTED", "STEP_FINISHED", "RUN_FINISHED"]
    assert client.of("oz0.card") == []
    decided = Resumed(interrupt="ozi1.w1", wait="w1", outcome="decided", approved=True)
    client = read(entries, view(start=4, run="r2", resumed=(decided,)))
    assert client.kinds() == [
        *("RUN_STARTED", "STATE_SNAPSHOT", "oz0.resume", "STEP_STARTED"),
        *("oz0.card", "STEP_FINISHED", "RUN_FINISHED"),
    ]


@pytest.mark.req("AGUI-17")
def test_a_card_behind_a_wall_is_not_sent():
    entries = log(started(), child("s1"), ended(job="s1", output={"x": 1}, card=True), ended())
    assert read(entries, view(), Says(blind=["s1"])).of("oz0.card") == []
    assert read(entries, view()).of("oz0.card") == [{"job": "s1", "card": {"x": 1}}]


@pytest.mark.req("AGUI-20", "AGUI-22", "AGUI-23")
@pytest.mark.parametrize(
    ("end", "protocol", "expected"),
    [
        (ended(output="x"), "1.0", {"outcome": {"type": "success"}}),
        (ended("cancelled"), "1.0", {"outcome": {"type": "cancelled"}}),
        (ended("cancelled"), "", {"code": "cancelled"}),
        (ended("failed", error=ErrorInfo(code="internal", message="no")), "1.0", {"code": "failed", "message": "no"}),
        (ended("timed_out"), "1.0", {"code": "timed_out", "message": "the job took longer than it may"}),
        (
            ended(
                "failed", error=ErrorInfo(code="resource_exhausted", message="no", details={"type": "oz0_tree_limit", "x": 1})
            ),
            "1.0",
            {"code": "oz0_tree_limit", "rawEvent": {"oz0": {"type": "oz0_tree_limit", "x": 1}}},
        ),
        (ended("failed", error=ErrorInfo(code="internal", message="no", details={"type": "other"})), "1.0", {"code": "failed"}),
    ],
    ids=["completed", "cancelled", "cancelled, old", "failed", "timed out", "limit", "other"],
)
def test_how_a_run_ends(end, protocol, expected):
    last = read(log(started(), text("open"), child("s1"), end), view(protocol=protocol)).events[-1]
    assert expected.items() <= last.items()
    assert ("rawEvent" in last) == ("rawEvent" in expected)


def test_nothing_comes_after_the_end():
    entries = log(started(), ended(), text("late"), started())
    assert read(entries, view()).kinds()[-1] == "RUN_FINISHED"


@pytest.mark.req("AGUI-18", "AGUI-28", "AGUI-29")
def test_what_others_decide_stands_beside_the_interrupts():
    entries = log(started(), opened("w1"), opened("w2", rule=Rule(deciders=("team:law", "person:ada"))), waiting("w1", "w2"))
    last = read(entries, view(console="https://oz.example/"), Says(not_mine=["w2"])).events[-1]
    assert [each["id"] for each in last["outcome"]["interrupts"]] == ["ozi1.w1"]
    assert last["metadata"]["oz0/waiting-for-others"] == [
        {
            "job": "j",
            "what": "team.greet",
            "who": "the team law and ada",
            "console": {"label": "Decide in OZ", "url": "https://oz.example/jobs/j"},
        }
    ]
    key = view(person=False, caller="key:k")
    assert len(read(entries, key, Says(not_mine=["w1", "w2"])).interrupts) == 2


@pytest.mark.req("AGUI-28")
def test_who_has_voted_waits_for_the_others():
    vote = WaitVoted(job="j", wait="w1", by="person:anna", approved=True)
    entries = log(started(), opened(rule=Rule(count=2)), vote, waiting())
    assert read(entries, view()).of("oz0.waiting")[0]["waiting"][0]["who"] == "2 of operators and admins"
    edited = WaitEdited(job="j", wait="w1", by="person:ada", token="ozi1.new", shown={"a": 2})
    client = read(log(started(), opened(rule=Rule(count=2)), vote, edited, waiting()), view())
    assert [(w["id"], w["metadata"]["oz0/details"]) for w in client.interrupts] == [("ozi1.new", {"a": 2})]


@pytest.mark.req("AGUI-19", "AGUI-39")
def test_after_what_was_only_acknowledged_the_run_waits_on():
    entries = log(started(), opened(kind="budget", call="", function=""), waiting())
    said = Resumed(interrupt="ozi1.w1", wait="w1", outcome="acknowledged")
    client = read(entries, view(start=3, resumed=(said,)))
    assert client.of("oz0.resume") == [{"interruptId": "ozi1.w1", "outcome": "acknowledged"}]
    assert client.kinds()[-1] == "oz0.waiting"
    assert client.running


def test_a_stop_for_waits_that_were_decided_before_the_run_ends_nothing():
    entries = log(
        started(),
        opened(),
        waiting(),
        WaitDecided(job="j", wait="w1", outcome="approved", by="x"),
        TreeRunning(job="j"),
        ended(),
    )
    assert read(entries, view()).interrupts
    assert read(entries, view(decided=("w1",))).kinds() == ["RUN_STARTED", "STATE_SNAPSHOT", "RUN_FINISHED"]


@pytest.mark.req("AGUI-21")
def test_what_delegated_jobs_say_and_call_stays_inside_and_their_waits_name_them():
    entries = log(
        started(),
        child("s1"),
        text("inside", "s1:1", "s1"),
        whole("inside", "s1:1", "s1"),
        CallStarted(job="s1", call="c1", function="team.greet", arguments={}),
        opened(job="s1"),
        waiting(),
    )
    client = read(entries, view())
    assert client.messages == []
    assert client.interrupts[0]["metadata"]["oz0/job"] == "s1"
    assert "subagentRunId" not in client.interrupts[0]


@pytest.mark.req("AGUI-31", "AGUI-32")
@pytest.mark.parametrize(
    ("changes", "reason", "schema"),
    [
        ({"schema": {"type": "object", "properties": {"approved": {}}}}, "tool_call", {"approved"}),
        ({"rule": Rule(edit=True)}, "tool_call", {"editedArgs"}),
        ({"kind": "question", "schema": {"properties": {"answer": {"enum": ["a"]}}}}, "input_required", {"answer"}),
        ({"kind": "question", "schema": {"properties": {"name": {}, "age": {}}}}, "input_required", {"name", "age"}),
        ({"kind": "escalation"}, "confirmation", set()),
        (
            {"kind": "changeset", "schema": {"properties": {"approved": {}, "comment": {}}}},
            "confirmation",
            {"approved", "comment"},
        ),
        ({"kind": "restart", "schema": {"properties": {"answer": {}}}}, "confirmation", {"answer"}),
        ({"kind": "outputs"}, "confirmation", set()),
        ({"kind": "approval", "call": "", "function": ""}, "confirmation", set()),
    ],
    ids=["call", "edit", "question", "typed", "escalation", "changeset", "restart", "outputs", "agent"],
)
def test_what_each_kind_of_wait_asks(changes, reason, schema):
    (wait,) = read(log(started(), opened(**changes), waiting()), view()).interrupts
    assert wait["reason"] == reason
    assert set(wait["responseSchema"].get("properties", {})) == schema
    assert wait["metadata"].get("oz0/typed", False) == (schema == {"name", "age"})
    assert ("toolCallId" in wait) == (reason == "tool_call")


@pytest.mark.req("AGUI-32")
def test_a_budget_wait_asks_for_nothing():
    (wait,) = read(log(started(), opened(kind="budget", call="", function=""), waiting()), view()).interrupts
    assert (wait["reason"], wait["responseSchema"]) == ("confirmation", {})


@pytest.mark.req("AGUI-33")
def test_what_waits_is_told_without_its_words_to_who_may_not_read_content():
    asked = opened(kind="question", message="Which?", choices=("a",), call="", schema={"properties": {"answer": {}}})
    (wait,) = read(log(started(), asked, waiting()), view()).interrupts
    assert (wait["message"], wait["metadata"]["oz0/choices"], wait["metadata"]["oz0/details"]) == (
        "[AI] Which?",
        ["a"],
        {"a": 1},
    )
    (wait,) = read(log(started(), asked, waiting()), view(), Says(blind=["j"])).interrupts
    assert "message" not in wait
    assert not {"oz0/choices", "oz0/details"} & set(wait["metadata"])


@pytest.mark.req("AGUI-33")
def test_a_client_from_before_1_0_is_shown_a_deadline_an_hour_away_where_the_tenant_allows():
    entries = log(started(), opened(expires=AT + 60_000), waiting())
    shown = {
        "1.0": view(),
        "old": view(protocol=""),
        "old, short": view(protocol="", wait_seconds=60),
    }
    times = {name: read(entries, made).interrupts[0]["expiresAt"] for name, made in shown.items()}
    assert times == {
        "1.0": "2026-03-01T12:01:00.000Z",
        "old": "2026-03-01T13:00:00.002Z",
        "old, short": "2026-03-01T12:01:00.000Z",
    }


@pytest.mark.req("AGUI-33")
@pytest.mark.parametrize(
    ("rule", "kind", "words"),
    [
        (Rule(), "approval", "operators and admins"),
        (Rule(), "question", "the person who started the job, operators and admins"),
        (Rule(), "budget", "admins"),
        (Rule(four_eyes=True), "approval", "operators and admins, but not the person who started the job"),
        (Rule(confirm=True), "approval", "the person who started the job"),
        (Rule(deciders=("role:admin",), count=2), "approval", "2 of admins"),
        (Rule(deciders=("role:operator", "team:law", "person:kim")), "outputs", "operators, the team law and kim"),
    ],
)
def test_deciders_in_words(rule, kind, words):
    assert who(rule, kind) == words


def note(number: int, job: str = "j", **changes) -> NotePinned:
    return NotePinned(**{"job": job, "id": number, "kind": "note", "text": f"n{number}", "agent": "a", **changes})


@pytest.mark.req("AGUI-11", "AGUI-15", "AGUI-44")
def test_notes_of_others_come_with_the_next_of_the_turns_own():
    call = CallStarted(job="j", call="c1", function="oz.board_write", arguments={}, message="j:1")
    entries = log(
        started(),
        child("s1"),
        note(1, "s1", tags=("t",)),
        call,
        CallEnded(job="j", call="c1", content={"note": 2}),
        note(2, call="c1", supersedes=1, tainted=True, labels=("l",)),
        note(3, "s1"),
    )
    client = read(entries, view())
    kinds = client.kinds()
    assert kinds[kinds.index("TOOL_CALL_RESULT") + 1] == "STATE_DELTA"
    (delta,) = client.of("STATE_DELTA")
    assert [(op["op"], op["path"]) for op in delta["delta"]] == [("add", "/board/notes/-"), ("replace", "/board/notes/0")]
    (shown,) = client.state["board"]["notes"]
    assert shown.pop("createdAt").endswith("Z")
    facts = {"id": "2", "kind": "note", "tags": [], "text": "n2", "job": "j", "agent": "a"}
    assert shown == {**facts, "supersedes": "1", "tainted": True, "labels": ["l"]}
    later = read([*entries, *log(waiting(), after=len(entries))], view(start=8, resumed=()))
    assert [n["id"] for n in later.of("STATE_SNAPSHOT")[0]["snapshot"]["board"]["notes"]] == ["2", "3"]


@pytest.mark.req("AGUI-45")
def test_who_may_not_read_the_tree_gets_no_state():
    kinds = read(log(started(), note(1), ended()), view(board=False)).kinds()
    assert not {"STATE_SNAPSHOT", "STATE_DELTA"} & set(kinds)


@pytest.mark.req("AGUI-26")
def test_when_part_is_gone_the_open_message_ends_and_the_answer_comes_whole():
    entries = log(started(), text("one "), text("two "), text("three"), whole("one two three"), ended(output="x"))
    client = read([*entries[:2], *entries[3:-1], Entry(6, AT, ended(output="one two three"))], view())
    assert client.text() == "[AI] one \n[AI] one two three"
    assert client.messages[-1]["id"] == "j:answer"
    assert client.kinds()[-2:] == ["TEXT_MESSAGE_END", "RUN_FINISHED"]


@pytest.mark.req("AGUI-26")
def test_a_log_whose_deltas_were_trimmed_says_each_message_once_and_whole():
    entries = log(started(), text("a"), text("b"), whole("ab"), text("c", "j:2"), whole("c", "j:2"), ended(output="c"))
    trimmed = [e for e in entries if not isinstance(e.event, Text)]
    client = read(trimmed, view())
    assert client.text() == "[AI] ab\n[AI] c"
    assert [m["id"] for m in client.messages] == ["j:1", "j:2"]


@pytest.mark.req("AGUI-24", "AGUI-26")
def test_a_client_that_comes_back_after_its_place_was_trimmed_keeps_its_part_and_gets_the_answer():
    entries = log(started(), text("a"), text("b"), text("c"), whole("abc"), ended(output="abc"))
    stream = encode(entries, view())
    held = stream[: stream.index(b"id: 4.0")]
    trimmed = [e for e in entries if not isinstance(e.event, Text)]
    client = Client().take(held)
    client.take(encode(trimmed, view(), since=(3, 0)))
    assert client.text() == "[AI] ab\n[AI] abc"
    assert client.finished


@pytest.mark.req("AGUI-48")
def test_a_right_that_ended_ends_the_run():
    client = read([*log(started(), text("secret")), Entry(3, AT, Revoked(job="j")), *log(text("more"), after=3)], view())
    assert client.events[-1]["code"] == "revoked"
    assert "more" not in str(client.events)
