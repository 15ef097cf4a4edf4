"""Following a job that waits: when it is asked, decided, left or given up."""

import anyio
import pytest
from cli_fakes import JOB, NOW, make_wait

from transom_cli.session import Manner, Session
from transom_hookspecs import DecideApproval, Decided, Entry, JobEnded, JobView, Text, TransomError, TreeRunning, TreeWaiting

pytestmark = pytest.mark.anyio
VIEW = JobView(id=JOB, agent="helper", status="running", started_at=NOW, tree=JOB, token="")
WAITING, RUNNING = TreeWaiting(job=JOB, waits=("wait-1",)), TreeRunning(job=JOB)
END = JobEnded(job=JOB, status="completed")


class FakeClient:
    """Gives batches, one at first and one a decision; answers `waits` and `decide` from lists, the last again and again."""

    def __init__(self, *batches, waits=(), decisions=(), all_at_once=False, attended=(), ends=False) -> None:
        self.batches, self.open, self.decisions = list(batches), list(waits), list(decisions)
        self.all_at_once, self.ends = all_at_once, ends
        self.servers = list(attended)
        self.decided: list[DecideApproval] = []
        self.asked_for_waits = 0
        self.moved = anyio.Event()

    async def events(self, job):
        seq = 0
        for number, batch in enumerate(self.batches):
            if number and not self.all_at_once:
                await self.moved.wait()
                self.moved = anyio.Event()
            yield [Entry(seq := seq + 1, NOW, event) for event in batch]
        if not self.ends:
            await anyio.sleep_forever()

    async def attended(self, job):
        return self.servers.pop(0)

    async def waits(self, job, *, tree):
        assert (job, tree) == (JOB, True)
        self.asked_for_waits += 1
        found = self.open[0] if len(self.open) == 1 else self.open.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def decide(self, request):
        self.decided.append(request)
        outcome = self.decisions.pop(0) if self.decisions else "decided"
        if isinstance(outcome, Exception):
            self.moved.set()
            raise outcome
        if outcome == "decided":
            self.moved.set()
        return Decided(wait=request.wait, job=JOB, result=outcome)

    async def cancel(self, id, reason):
        raise AssertionError("nobody interrupts here")


class Seen:
    """A view that keeps what it is shown."""

    def __init__(self) -> None:
        self.events, self.refusals = [], []

    def entries(self, batch):
        self.events.extend(entry.event for entry in batch)

    def refused(self, error):
        self.refusals.append(error.code)


def yes(wait):
    return DecideApproval(wait=wait.id, token=wait.token, approved=True)


async def follow(client, **manner):
    seen = Seen()
    with anyio.fail_after(5):
        ending = await Session(client, VIEW, seen, Manner(**manner)).follow()
    return ending, seen


def asker(*answers):
    """Asks a person who gives these answers; keeps what was asked."""
    left, asked = list(answers), []

    async def ask(wait):
        asked.append(wait.token)
        return left.pop(0)(wait)

    return ask, asked


async def test_what_is_decided_goes_on():
    client = FakeClient([WAITING], [RUNNING, END], waits=[[make_wait()]])
    ending, seen = await follow(client, standing=yes)
    assert (ending.outcome, ending.code, len(client.decided), len(seen.events)) == ("completed", 0, 1, 3)


async def test_a_wait_that_was_decided_while_the_log_was_read_is_not_asked_again():
    ask, asked = asker()
    client = FakeClient([WAITING], [RUNNING, END], waits=[[]])
    client.moved.set()
    ending, _ = await follow(client, ask=ask)
    assert (ending.outcome, asked) == ("completed", [])


async def test_what_has_come_is_shown_before_anybody_is_asked():
    client = FakeClient(
        [WAITING], [RUNNING, Text(job=JOB, message="m", delta="x"), END], waits=[[make_wait()]], all_at_once=True
    )
    ending, _ = await follow(client, standing=yes)
    assert (ending.outcome, client.decided) == ("completed", [])


async def test_a_decision_that_somebody_else_made_first_goes_on():
    error = TransomError("aborted", "already over", {"reason": "already_decided"})
    client = FakeClient([WAITING], [RUNNING, END], waits=[[make_wait()]], decisions=[error])
    ending, seen = await follow(client, standing=yes)
    assert (ending.outcome, seen.refusals) == ("completed", [])


async def test_a_standing_answer_that_is_refused_is_told_once_and_left():
    client = FakeClient([WAITING], waits=[[make_wait()]], decisions=[TransomError("failed_precondition", "no")])
    ending, seen = await follow(client, standing=yes)
    assert (ending.outcome, ending.code, seen.refusals, len(client.decided)) == ("waiting", 4, ["failed_precondition"], 1)
    assert [wait.id for wait in ending.waits] == ["wait-1"]


async def test_a_person_whose_answer_does_not_fit_is_asked_again():
    ask, asked = asker(yes, yes)
    client = FakeClient([WAITING], [RUNNING, END], waits=[[make_wait()]], decisions=[TransomError("invalid_argument", "no")])
    client.moved = anyio.Event()
    ending, seen = await follow(client, ask=ask)
    assert (ending.outcome, seen.refusals, len(asked)) == ("completed", ["invalid_argument"], 2)


async def test_a_person_who_may_not_is_told_and_it_is_left():
    ask, asked = asker(yes)
    client = FakeClient([WAITING], waits=[[make_wait()]], decisions=[TransomError("permission_denied", "four eyes")])
    ending, _ = await follow(client, ask=ask)
    assert (ending.outcome, len(asked)) == ("waiting", 1)


async def test_a_vote_leaves_it_waiting_for_others():
    client = FakeClient([WAITING], waits=[[make_wait()]], decisions=["acknowledged"])
    assert (await follow(client, standing=yes))[0].outcome == "waiting"


async def test_what_was_left_is_not_asked_again_unless_it_changed():
    first, changed = make_wait("a"), make_wait("b")
    edited = make_wait("a", shown="other")
    edited = type(edited)(**{**{f: getattr(edited, f) for f in edited.__struct_fields__}, "token": "ozi1.new"})
    ask, asked = asker(lambda wait: None, yes, lambda wait: None)
    client = FakeClient([WAITING], [RUNNING, WAITING], waits=[[first, changed], [first, edited]])
    ending, _ = await follow(client, ask=ask)
    assert ending.outcome == "waiting"
    assert asked == ["ozi1.a", "ozi1.b", "ozi1.new"]


async def test_one_who_may_not_see_what_waits_is_told_that_it_waits():
    client = FakeClient([WAITING], waits=[TransomError("permission_denied", "no")])
    ending, seen = await follow(client, standing=yes)
    assert (ending.outcome, ending.waits, seen.refusals) == ("waiting", (), ["permission_denied"])


async def test_a_server_that_is_gone_ends_it_with_its_error():
    client = FakeClient([WAITING], waits=[[make_wait()]], decisions=[TransomError("unavailable", "gone")])
    with pytest.raises(BaseExceptionGroup) as caught:
        await follow(client, standing=yes)
    assert caught.group_contains(TransomError, match="gone")


async def test_who_only_watches_decides_nothing_and_stays():
    client = FakeClient([WAITING], [RUNNING, END], all_at_once=True)
    ending, _ = await follow(client, only_watch=True)
    assert (ending.outcome, client.asked_for_waits) == ("completed", 0)


async def test_the_end_of_a_child_is_not_the_end():
    client = FakeClient([JobEnded(job="child", status="failed")], [END], all_at_once=True)
    assert (await follow(client))[0].outcome == "completed"


async def test_a_question_is_taken_back_when_something_happens():
    taken_back = []

    async def ask(wait):
        client.moved.set()
        try:
            await anyio.sleep_forever()
        finally:
            taken_back.append(wait.id)

    client = FakeClient([WAITING], [RUNNING, END], waits=[[make_wait()]])
    ending, _ = await follow(client, ask=ask)
    assert (ending.outcome, taken_back, client.decided) == ("completed", ["wait-1"], [])


async def test_a_log_that_ends_before_the_job_says_that_nobody_goes_on_with_it():
    ending, seen = await follow(FakeClient([Text(job=JOB, message="m", delta="Hi")], ends=True), only_watch=True)
    assert (ending.outcome, ending.code, len(seen.events)) == ("abandoned", 6, 1)


async def test_and_when_it_waits_for_a_person_for_what():
    client = FakeClient([WAITING], waits=[[make_wait()]], ends=True)
    ending, _ = await follow(client, only_watch=True)
    assert (ending.outcome, ending.code, [wait.id for wait in ending.waits]) == ("waiting", 4, ["wait-1"])


async def test_who_only_watches_notices_when_the_one_who_goes_on_is_gone(monkeypatch):
    monkeypatch.setattr("transom_cli.session.LOOK_AGAIN", 0.01)
    client = FakeClient([Text(job=JOB, message="m", delta="Hi")], attended=[True, True, False])
    ending, _ = await follow(client, only_watch=True)
    assert (ending.outcome, client.servers) == ("abandoned", [])


async def test_an_end_is_an_end_although_nobody_is_left():
    ending, _ = await follow(FakeClient([END], ends=True), only_watch=True)
    assert ending.code == 0
