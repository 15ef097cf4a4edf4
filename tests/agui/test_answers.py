"""Resumes through the route: who may answer, all or nothing, once, and how the next message fares after each refusal."""

from unittest.mock import ANY

import anyio
import pytest
from agui_kit import frames_of

from transom_hookspecs import AuditRow, Job, Wait, WaitDecided

pytestmark = pytest.mark.anyio


async def waits(s):
    return await s.core.store.select("default", Wait, "open", {"open": True})


def error(client) -> tuple[str, dict]:
    """The code of the error that the run ended with, and its facts."""
    assert client.kinds()[0] == "RUN_STARTED"
    last = client.events[-1]
    assert last["type"] == "RUN_ERROR", client.kinds()
    return last["code"], last.get("rawEvent", {}).get("oz0", {})


@pytest.mark.req("AGUI-35", "AGUI-36")
async def test_a_resume_that_leaves_out_an_interrupt_is_refused_and_tells_which(server):
    async with server() as s:
        page = s.page("omar", agent="two_calls")
        await page.say("both")
        first, second = page.client.interrupts
        code, facts = error(await page.run(resume=[answer(first)]))
        assert code == "interrupts_open"
        assert [each["id"] for each in facts["interrupts"]] == [second["id"]]
        assert len(await waits(s)) == 2
        client = await page.run(resume=[answer(first), answer(second)])
        assert client.text() == "[AI] I greeted #design. I greeted #support."


def answer(interrupt, **payload) -> dict:
    return {"interruptId": interrupt["id"], "status": "resolved", "payload": payload or {"approved": True}}


@pytest.mark.req("AGUI-35")
async def test_a_new_message_is_refused_while_the_turn_waits_and_works_after(server):
    async with server() as s:
        page = s.page("omar", agent="helper")
        await page.say("greet them")
        (wait,) = page.client.interrupts
        code, facts = error(await page.say("and another thing"))
        assert code == "interrupts_pending"
        assert [each["id"] for each in facts["interrupts"]] == [wait["id"]]
        page.client.interrupts = [wait]
        await page.resume({"approved": True})
        page.agent = "echo"
        assert (await page.say("thanks")).text().endswith("[AI] thanks")


@pytest.mark.req("AGUI-19", "AGUI-28", "AGUI-29", "AGUI-35")
async def test_who_may_not_decide_waits_for_others_and_the_run_streams_on(server):
    async with server() as s:
        page = s.page("anna", agent="helper")
        got = None
        async with anyio.create_task_group() as tasks:

            async def run():
                nonlocal got
                got = await page.say("greet them")

            tasks.start_soon(run)
            while not (open_waits := await waits(s)):
                await anyio.sleep(0.01)
            other = s.page("anna", thread="t1")
            other.client.messages = [*page.client.messages, {"id": "late", "role": "user", "content": "hurry"}]
            code, facts = error(await other.run())
            assert code == "turn_waiting"
            assert facts["waiting"][0]["who"] == "operators and admins"
            token = open_waits[0].token
            assert (await s.rest("omar", "POST", f"/v1/approvals/{token}/approve", json={})).status_code == 200
        (told,) = got.of("oz0.waiting")
        assert told["waiting"] == [
            {"job": got.messages[-1]["id"].split(":")[0], "what": "team.greet", "who": "operators and admins"}
        ]
        assert got.kinds().count("RUN_FINISHED") == 1
        assert got.text() == "[AI] I greeted the team."


@pytest.mark.req("AGUI-28", "AGUI-36")
async def test_nobody_says_yes_in_the_own_job_under_four_eyes(server):
    async with server() as s:
        page = s.page("omar", agent="pair")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(page.say, "announce it")
            while not (open_waits := await waits(s)):
                await anyio.sleep(0.01)
            wait = {"id": open_waits[0].token}
            own = s.page("omar")
            own.client.messages = list(page.client.messages)
            assert error(await own.run(resume=[answer(wait)]))[0] == "not_a_decider"
            assert (await waits(s))[0].votes == ()
            other = s.page("ada", thread="t1")
            client = await other.run(resume=[answer(wait)], messages=[])
            assert client.of("oz0.resume")[0]["outcome"] == "decided"
            assert client.text() == "[AI] I made the announcement."
        assert page.client.text() == "[AI] I made the announcement."


@pytest.mark.req("AGUI-2", "AGUI-34", "AGUI-53")
async def test_only_a_person_resumes(server):
    async with server() as s:
        page = s.page("key", agent="helper")
        client = await page.say("greet them")
        (wait,) = client.interrupts
        with_place = {"Last-Event-ID": "3.0"}
        omar = s.page("omar")
        assert (await omar.post(omar.body(resume=[answer(wait)], messages=[]), **with_place)).status_code == 400
        assert len(await waits(s)) == 1
        refused = await page.post(page.body(resume=[answer(wait)]))
        assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")
        assert "only a person" in refused.json()["message"]
        assert (await omar.run(resume=[answer(wait)], messages=[])).text() == "[AI] I greeted the team."


@pytest.mark.req("AGUI-36")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"interruptId": "ozi1.forged"}, "invalid_resume"),
        ({"interruptId": "w" * 300}, "invalid_resume"),
        ({"payload": None}, "invalid_resume"),
        ({"payload": {"approved": "yes"}}, "invalid_resume"),
        ({"payload": {"comment": "yes"}}, "invalid_resume"),
        ({"payload": {"approved": True, "editedArgs": {"channel": "#all"}}}, "invalid_resume"),
    ],
    ids=["forged", "long", "none", "no boolean", "no word", "edit"],
)
async def test_an_answer_that_does_not_fit_decides_nothing(server, change, code):
    async with server() as s:
        page = s.page("omar", agent="two_calls")
        await page.say("both")
        first, second = page.client.interrupts
        assert error(await page.run(resume=[answer(first), {**answer(second), **change}]))[0] in (code, "interrupts_open")
        assert len(await waits(s)) == 2
        assert not [w for w in await waits(s) if w.votes]


@pytest.mark.req("AGUI-36")
async def test_an_interrupt_of_another_thread_is_none_of_this_one(server):
    async with server() as s:
        one, two = s.page("omar", agent="helper"), s.page("omar", agent="helper", thread="t2")
        await one.say("greet them")
        await two.say("greet them")
        assert error(await two.run(resume=[answer(one.client.interrupts[0])]))[0] == "invalid_resume"
        assert len(await waits(s)) == 2


@pytest.mark.req("AGUI-30", "AGUI-36")
async def test_a_typed_value_must_match(server):
    async with server() as s:
        page = s.page("omar", agent="typed")
        (wait,) = (await page.say("remove sam")).interrupts
        assert "confirm" in wait["responseSchema"]["properties"]
        code, facts = error(await page.run(resume=[answer(wait, approved=True, confirm="kim")]))
        assert (code, facts["interruptId"]) == ("failed_precondition", wait["id"])
        client = await page.run(resume=[answer(wait, approved=True, confirm="sam")])
        assert client.text() == "[AI] I removed sam."


@pytest.mark.req("AGUI-39")
async def test_the_same_resume_again_decides_once_and_tells_it_as_made(server):
    async with server() as s:
        page = s.page("omar", agent="helper")
        await page.say("greet them")
        body = page.body(resume=[answer(page.client.interrupts[0])])
        first = (await page.post(body)).content
        again = page.client.take((await page.post(body)).content)
        assert again.text() == "[AI] I greeted the team."
        assert again.of("oz0.resume") == [{"interruptId": ANY, "outcome": "decided", "approved": True}]
        assert (await page.post(body, **{"Last-Event-ID": "0.0"})).status_code == 400
        places = [f"{seq}.{n}" for (seq, n), _ in frames_of(first)]
        assert (await page.post(body, **{"Last-Event-ID": places[-1]})).content == b""
        decided = [e for e in await s.core.store.audit("default", limit=200) if e.entry.action == "approval.decide"]
        assert len(decided) == 1


@pytest.mark.req("AGUI-39")
@pytest.mark.parametrize("key", ["", "k-1"])
async def test_a_resume_sent_again_under_a_new_run_streams_on_from_where_it_waited(server, key):
    async with server() as s:
        page = s.page("omar", agent="helper")
        await page.say("greet them")
        (wait,) = page.client.interrupts
        history = [dict(m) for m in page.client.messages]
        headers = {"Idempotency-Key": key} if key else {}
        await page.post(page.body(resume=[answer(wait)]), **headers)
        late = s.page("omar")
        late.client.messages = history
        late.client.take((await late.post(late.body(resume=[answer(wait)]), **headers)).content)
        told = {"interruptId": wait["id"], "outcome": "decided" if key else "already_decided"}
        assert late.client.of("oz0.resume") == [{**told, "approved": True} if key else told]
        assert late.client.text() == "[AI] I greeted the team."
        assert late.client.of("TOOL_CALL_RESULT")


@pytest.mark.req("AGUI-7")
async def test_some_clients_resume_under_the_interrupted_runs_own_id(server):
    async with server() as s:
        page = s.page("omar", agent="helper")
        body = page.body()
        page.client.messages.append({"id": "m1", "role": "user", "content": "greet them"})
        (wait,) = (await page.run(body)).interrupts
        client = await page.run({**body, "messages": page.client.messages, "resume": [answer(wait)]})
        assert client.text() == "[AI] I greeted the team."


@pytest.mark.req("AGUI-36")
async def test_an_expired_question_is_refused_resolved_and_taken_cancelled(server, clock):
    async with server(clock=clock) as s:
        page = s.page("anna", agent="asker")
        (wait,) = (await page.say("ask me")).interrupts
        clock.forward(86_500)
        assert error(await page.run(resume=[answer(wait, answer="red")]))[0] == "interrupt_expired"
        page.client.interrupts = [wait]
        client = await page.resume(None)
        assert client.of("oz0.resume") == [{"interruptId": wait["id"], "outcome": "already_decided"}]
        assert client.text() == "[AI] You chose nothing."
        page.agent = "echo"
        assert (await page.say("on")).text().endswith("[AI] on")


@pytest.mark.req("AGUI-40", "AGUI-46")
async def test_the_audit_trail_names_the_door_and_the_person(server):
    async with server() as s:
        page = s.page("omar", agent="helper")
        await page.say("greet them")
        await page.resume({"approved": True})
        rows: list[AuditRow] = await s.core.store.audit("default", limit=200)
        start, decide = (next(r.entry for r in rows if r.entry.action == a) for a in ("run.start", "approval.decide"))
        assert (start.door, start.caller, start.details["taint"]) == ("agui", "person:omar", ["agui"])
        assert (decide.door, decide.caller, decide.details["outcome"]) == ("agui", "person:omar", "approved")


@pytest.mark.req("AGUI-36")
async def test_of_two_racing_resumes_one_decides(server):
    async with server() as s:
        page = s.page("omar", agent="helper")
        await page.say("greet them")
        (wait,) = page.client.interrupts
        told = []

        async def try_it(who, yes):
            racer = s.page(who, thread="t1")
            client = await racer.run(resume=[answer(wait, approved=yes)], messages=[])
            told.append(client.of("oz0.resume")[0]["outcome"])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(try_it, "omar", True)
            tasks.start_soon(try_it, "ada", False)
        assert sorted(told) == ["already_decided", "decided"]
        (job,) = await s.core.store.select("default", Job, "recent", {"top": True})
        log = await s.core.store.read("default", job.id)
        assert len([e for e in log if isinstance(e.event, WaitDecided)]) == 1


@pytest.mark.req("AGUI-37", "AGUI-39")
async def test_the_same_resume_from_many_connections_at_once_decides_once(server):
    async with server() as s:
        page = s.page("omar", agent="two_calls")
        await page.say("both")
        body = page.body(resume=[answer(each) for each in page.client.interrupts], messages=[])
        told = []

        async def post():
            told.append((await page.post(body)).content)

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(post)
        assert len(set(told)) == 1
        client = page.client.take(told[0])
        assert [e["outcome"] for e in client.of("oz0.resume")] == ["decided", "decided"]
        rows = await s.core.store.audit("default", limit=200)
        assert len([r for r in rows if r.entry.action == "approval.decide"]) == 2


@pytest.mark.req("AGUI-37")
async def test_what_another_decides_in_between_stays_and_the_rest_is_decided(server):
    async with server() as s:
        page = s.page("omar", agent="two_calls")
        first, second = (await page.say("both")).interrupts
        assert (await s.rest("ada", "POST", f"/v1/approvals/{first['id']}/deny", json={})).status_code == 200
        client = await page.run(resume=[answer(first), answer(second)])
        assert [e["outcome"] for e in client.of("oz0.resume")] == ["already_decided", "decided"]
        assert client.text() == "[AI] I did not greet #design. I greeted #support."


@pytest.mark.req("AGUI-7")
async def test_a_new_message_under_a_resumes_id_is_a_conflict(server):
    async with server() as s:
        page = s.page("omar", agent="helper")
        (wait,) = (await page.say("greet")).interrupts
        entry = {"interruptId": wait["id"], "status": "resolved", "payload": {"approved": True}}
        await page.run(page.body("resumed", messages=[], resume=[entry]))
        again = await page.post(page.body("resumed"))
        assert again.status_code == 200, "the same turn, followed"
        page.client.messages.append({"id": "new", "role": "user", "content": "and another"})
        assert (await page.post(page.body("resumed"))).status_code == 409
        assert (await page.post(page.body())).status_code == 200, "under an ID of its own it is the next turn"
