"""Runs that are asked for again: by the same request, from the middle, by a fresh page, by many at once, by somebody else."""

import asyncio
import gc
import json

import anyio
import pytest
from agui_kit import frames_of

from transom_agui.encode import TurnEncoder
from transom_hookspecs import Access, Job, Run, Verdict, Wait, hookimpl

pytestmark = pytest.mark.anyio


class Walls:
    """Denies reading content where a test says so."""

    spec = "1.0"
    name = "walls"
    blind: set[tuple[str, str]]

    def __init__(self, config: object = None) -> None:
        Walls.blind = self.blind = set()

    @hookimpl
    def authorize(self, access: Access) -> Verdict | None:
        agent = access.job.agent if access.job is not None else ""
        if access.permission == "content.read" and (access.caller.id, agent) in self.blind:
            return Verdict(ruling="deny", reason="behind a wall", label="patients")
        return None


async def jobs(s):
    return await s.core.store.select("default", Job, "recent", {"top": True})


def message(identity: str, text: str) -> dict:
    return {"id": identity, "role": "user", "content": text}


@pytest.mark.req("AGUI-7", "AGUI-27")
async def test_the_same_run_again_follows_the_same_turn_from_its_start(server):
    async with server() as s:
        page = s.page()
        body = page.body(messages=[message("m1", "hello you")])
        first, again = await page.post(body), await page.post(body)
        assert first.content == again.content
        assert len(await jobs(s)) == 1


@pytest.mark.req("AGUI-7", "AGUI-53")
async def test_another_message_under_the_same_run_is_a_conflict(server):
    async with server() as s:
        page = s.page()
        body = page.body(messages=[message("m1", "hello")])
        await page.post(body)
        refused = await page.post({**body, "messages": [message("m1", "another")]})
        assert (refused.status_code, refused.json()["code"]) == (409, "already_exists")
        assert refused.json()["details"]["reason"] == "oz0_id_conflict"
        for who, status in (("ada", 409), ("omar", 403)):  # an admin may read the thread, and it still is not her run
            assert (await s.page(who).post(body)).status_code == status
        assert len(await jobs(s)) == 1


@pytest.mark.req("AGUI-24", "AGUI-7")
async def test_a_stream_goes_on_exactly_after_each_of_its_events(server):
    async with server() as s:
        page = s.page("omar", agent="planner")
        body = page.body(messages=[message("m1", "plan it")])
        whole = (await page.post(body)).content
        rest = whole
        for (seq, n), _ in frames_of(whole):
            rest = rest[rest.index(b"\n\n") + 2 :]
            assert (await page.post(body, **{"Last-Event-ID": f"{seq}.{n}"})).content == rest


@pytest.mark.req("AGUI-24")
async def test_a_dropped_stream_goes_on_while_the_job_runs(server):
    async with server() as s:
        page = s.page(agent="streamer")
        body = page.body(messages=[message("m1", '{"deltas": 40, "bytes": 20, "delay_ms": 5}')])
        whole = b""
        for _ in range(1_000):
            headers = {"Last-Event-ID": "{}.{}".format(*frames_of(whole)[-1][0])} if whole else {}
            got = await cut_after(page, body, headers, frames=4)
            whole += got
            if b"RUN_FINISHED" in got:
                break
        assert whole == (await page.post(body)).content
        assert len(await jobs(s)) == 1


async def cut_after(page, body: dict, headers: dict, *, frames: int) -> bytes:
    """Read some whole frames of a stream, and leave."""
    got = b""
    sent = {"Content-Type": "application/json", **page.headers, **headers}
    url = f"/v1/agui/agents/{page.agent}"
    async with page.http.stream("POST", url, content=json.dumps(body).encode(), headers=sent) as answer:
        assert answer.status_code == 200
        async for chunk in answer.aiter_bytes():
            got += chunk
            if got.count(b"\n\n") >= frames:
                break
    return b"".join(part + b"\n\n" for part in got.split(b"\n\n")[: min(frames, got.count(b"\n\n"))])


@pytest.mark.req("AGUI-53")
@pytest.mark.parametrize("place", ["", "1", "x.y", "-1.0", "1.00", "999.0", "0.9", "1.0.0", "1e3.0", "\x001.0"])
async def test_a_last_event_id_that_the_run_never_gave_is_refused(server, place):
    async with server() as s:
        page = s.page()
        body = page.body(messages=[message("m1", "hello")])
        await page.post(body)
        refused = await page.post(body, **{"Last-Event-ID": place})
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_argument")
        fresh = await page.post(page.body(messages=[message("m1", "hello")]), **{"Last-Event-ID": "1.0"})
        assert fresh.status_code == 400
        assert len(await jobs(s)) == 1


@pytest.mark.req("AGUI-7")
async def test_one_run_from_twenty_connections_at_once_is_one_turn(server):
    async with server() as s:
        page = s.page()
        body = page.body(messages=[message("m1", "hello all of you")])
        answers = []

        async def post():
            answers.append(await page.post(body))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(post)
        assert {a.status_code for a in answers} == {200}
        assert len({a.content for a in answers}) == 1
        assert len(await jobs(s)) == 1


@pytest.mark.req("AGUI-27", "AGUI-42", "AGUI-54")
async def test_a_page_loaded_afresh_follows_the_latest_turn(server):
    async with server() as s:
        page = s.page()
        await page.say("one")
        await page.say("two")
        fresh = s.page()
        fresh.client.messages = [dict(m) for m in page.client.messages]
        client = await fresh.run()
        assert "MESSAGES_SNAPSHOT" in client.kinds()
        assert client.text() == "[AI] one\n[AI] two"
        by_id = s.page()
        job = (await jobs(s))[0].id
        by_id.client.messages = [*page.client.messages[:2], message(f"{job}:in", "as it was loaded")]
        assert (await by_id.run()).text() == "[AI] one\n[AI] two"
        assert len(await jobs(s)) == 2


@pytest.mark.req("AGUI-27")
async def test_whoever_follows_from_the_start_is_not_stopped_by_what_was_decided_since(server):
    async with server() as s:
        page = s.page("omar", agent="helper")
        body = page.body(messages=[message("m1", "greet them")])
        page.client.take((await page.post(body)).content)
        await page.resume({"approved": True})
        fresh = s.page("omar").client.take((await page.post(body)).content)
        assert fresh.interrupts == []
        assert fresh.text() == "[AI] I greeted the team."
        assert fresh.kinds().count("TOOL_CALL_START") == 1


@pytest.mark.req("AGUI-54")
async def test_a_run_that_is_sent_again_with_its_own_messages_appends_to_none_of_them(server):
    async with server() as s:
        page = s.page()
        body = page.body(messages=[message("m1", "hello you")])
        page.client.messages = [message("m1", "hello you")]
        await page.run(body)
        await page.run({**body, "messages": page.client.messages})
        assert page.client.text() == "[AI] hello you"


@pytest.mark.req("AGUI-6", "AGUI-48")
async def test_somebody_elses_thread_is_refused_whatever_is_asked(server):
    async with server() as s:
        anna, omar = s.page("anna"), s.page("omar")
        await anna.say("private")
        for changes in (
            {},
            {"messages": [message("m1", "private")]},
            {"resume": [{"interruptId": "x", "status": "cancelled"}]},
        ):
            refused = await omar.post(omar.body(**changes))
            assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")


@pytest.mark.req("AGUI-5")
async def test_a_thread_of_a_key_belongs_to_its_tenant_and_no_person(server):
    async with server() as s:
        key = s.page("key")
        await key.say("one")
        anna = s.page("anna")
        anna.client.messages = list(key.client.messages)
        assert (await anna.say("two")).text() == "[AI] one\n[AI] two"


@pytest.mark.req("AGUI-25")
async def test_a_stream_ends_after_its_time_and_goes_on_where_it_was(server):
    async with server(config={"agui": {"stream": 0.3, "ping": 0.1}}) as s:
        page = s.page(agent="streamer")
        body = page.body(messages=[message("m1", '{"deltas": 30, "bytes": 10, "delay_ms": 40}')])
        whole, parts = b"", 0
        while b"RUN_FINISHED" not in whole:
            headers = {"Last-Event-ID": "{}.{}".format(*frames_of(whole)[-1][0])} if frames_of(whole) else {}
            whole += (await page.post(body, **headers)).content
            parts += 1
        assert parts > 1
        page.client.take(whole)
        assert page.client.finished


@pytest.mark.req("AGUI-24")
async def test_clients_that_leave_before_the_first_byte_leave_nothing_behind(server):
    async with server() as s:
        page = s.page("omar", agent="helper")
        body = page.body(messages=[message("m1", "greet them")])
        await page.post(body)
        tasks = len(asyncio.all_tasks())
        for i in range(300):
            with anyio.move_on_after((i % 30) / 10_000):
                await page.post(body)
        client = page.client.take((await page.post(body)).content)
        assert len(client.interrupts) == 1
        plugin = next(p for p in s.core.instances.values() if hasattr(p, "rights"))
        assert len(plugin.streams) == 0
        assert len(asyncio.all_tasks()) <= tasks
        gc.collect()
        assert not [each for each in gc.get_objects() if isinstance(each, TurnEncoder)]
        assert len(await s.core.store.select("default", Run, "job", {"job": (await jobs(s))[0].id})) == 1


@pytest.mark.req("AGUI-48")
async def test_whoever_may_read_no_longer_gets_an_error_and_nothing_more(server):
    async with server(plugins=[Walls]) as s:
        page = s.page(agent="streamer")
        body = page.body(messages=[message("m1", '{"deltas": 200, "bytes": 10, "delay_ms": 20}')])
        got = b""
        sent = {"Content-Type": "application/json", **page.headers}
        url = "/v1/agui/agents/streamer"
        async with page.http.stream("POST", url, content=json.dumps(body).encode(), headers=sent) as answer:
            async for chunk in answer.aiter_bytes():
                got += chunk
                if not Walls.blind and got.count(b"\n\n") > 4:
                    Walls.blind.add(("anna", "streamer"))
                    await s.core.store.transact("default", lambda tx: tx.touch("policy"))
        client = page.client.take(got)
        assert client.events[-1]["code"] == "revoked"
        last = "{}.{}".format(*frames_of(got)[-2][0])
        assert (await page.post(body, **{"Last-Event-ID": last})).status_code == 403


@pytest.mark.req("AGUI-48")
async def test_a_stream_that_is_silent_is_told_as_well(server):
    async with server(plugins=[Walls]) as s:
        page, got = s.page("anna", agent="helper"), []

        async def run():
            got.append(await page.say("greet them"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            while not await s.core.store.select("default", Wait, "open", {"open": True}):
                await anyio.sleep(0.01)
            await anyio.sleep(0.05)
            Walls.blind.add(("anna", "helper"))
            await s.core.store.transact("default", lambda tx: tx.touch("policy"))
        assert got[0].kinds()[-2:] == ["oz0.waiting", "RUN_ERROR"]
        assert got[0].events[-1]["code"] == "revoked"


@pytest.mark.req("AGUI-45", "AGUI-17")
async def test_a_note_and_a_card_behind_a_wall_are_told_of_without_their_words(server):
    async with server(plugins=[Walls]) as s:
        Walls.blind.add(("anna", "worker"))
        page = s.page("anna", agent="planner")
        client = await page.say("plan it")
        notes = client.state["board"]["notes"]
        hidden = [note for note in notes if note.get("redacted")]
        assert len(hidden) == 2
        assert all(set(n) == {"redacted", "label", "id", "kind", "job", "agent", "createdAt"} for n in hidden)
        assert hidden[0]["label"] == "patients"
        fresh = s.page("anna")
        fresh.client.messages = client.messages[:1]
        again = await fresh.run()
        assert not {"STATE_SNAPSHOT", "STATE_DELTA"} & set(again.kinds())


@pytest.mark.req("AGUI-45")
async def test_showing_notes_is_audited_once_a_run(server):
    async with server() as s:
        page = s.page("anna", agent="planner")
        body = page.body(messages=[message("m1", "plan it")])
        await page.post(body)
        await page.post(body)
        rows = await s.core.store.audit("default", limit=200)
        assert [r.entry.action for r in rows].count("job.board.read") == 1
        assert next(r.entry for r in rows if r.entry.action == "job.board.read").door == "agui"
