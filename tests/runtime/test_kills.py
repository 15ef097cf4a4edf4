"""What a kill in the middle of a step leaves: text that is cut and begun anew, and sends that a person decides on."""

import json
from pathlib import Path

import anyio
import pytest
from servers import Server, ended, follow

from transom_testing.streaming import sse

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


async def started(server: Server, agent: str, value: object, **query: str) -> str:
    async with server.client("anna") as client:
        answer = await client.post(f"/v1/agents/{agent}/jobs", json=value, params=query)
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]


@pytest.mark.req("RT-36", "RT-18")
async def test_a_model_stream_cut_by_a_kill_is_ended_and_told_anew_and_only_that_is_remembered(tmp_path) -> None:
    server = await Server(tmp_path / "data").start()
    try:
        job = await started(server, "streamer", {"deltas": 40, "bytes": 20, "delay_ms": 50}, conversation="c1")
        seen: list = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow, server, job, seen, "anna")
            with anyio.fail_after(10):
                while sum(event["type"] == "text" for _, event in seen) < 5:
                    await anyio.sleep(0.02)
            server.kill()
            await server.start()
        assert [event["seq"] for _, event in seen] == list(range(1, len(seen) + 1))
        events = [event for _, event in seen]
        (cut,) = [event for event in events if event["type"] == "text.cut"]
        first, second = dict.fromkeys(event["message"] for event in events if event["type"] == "text")
        assert cut["message"] == first
        assert second == f"{first}~2"
        kinds = [(event["type"], event["message"]) for event in events if event["type"].startswith("text")]
        at = kinds.index(("text.cut", first))
        assert set(kinds[:at]) == {("text", first)}
        assert set(kinds[at + 1 : -1]) == {("text", second)}
        assert kinds[-1] == ("text.ended", second)
        whole = "".join(event["delta"] for event in events if event["type"] == "text" and event["message"] == second)
        assert len(whole) == 800
        async with server.client("anna") as client:
            view = await ended(client, job)
            assert (view["status"], view["output"]) == ("completed", whole)
            trace = (await client.get(f"/v1/jobs/{job}/trace")).json()["steps"]
            assert [(step["kind"], step["attempt"], step["state"]) for step in trace] == [("model", 2, "done")]
        # what the next turn is given: the second text, whole, and nothing of the first
        async with server.client("anna") as client:
            again = await client.post("/v1/agents/echo/jobs", json="next", params={"conversation": "c1"})
            assert (await ended(client, again.json()["id"]))["turn"] == 2
        server.stop()
        assert await remembered(tmp_path / "data") == [("user", f"{job}:in"), ("assistant", second)]
    finally:
        if server.process.poll() is None:
            server.stop()


async def remembered(data: Path) -> list[tuple[str, str]]:
    """The first turn's items of the conversation c1, from the store."""
    from transom import Transom
    from transom_hookspecs import Item

    async with Transom(data=str(data), dev=True) as transom:
        items = await transom.kernel.store.select("default", Item, "latest", {"conversation": "c1"})
    return [(item.role, item.id) for item in reversed(items) if item.turn == 1]


ANSWERS = {
    "done": ("done", "completed", ["1", "3"]),
    "done, with its result": ({"answer": "done", "result": "Sent after 1 s."}, "completed", ["1", "3"]),
    "again": ("again", "completed", ["1", "2", "3"]),
    "fail": ("fail", "failed", ["1"]),
}


@pytest.mark.req("RT-36", "RT-24")
@pytest.mark.parametrize(("answer", "status", "sends"), ANSWERS.values(), ids=ANSWERS)
async def test_a_send_in_flight_at_a_kill_waits_for_a_person_and_is_made_as_they_say(tmp_path, answer, status, sends) -> None:
    ledger = tmp_path / "ledger"
    server = await Server(tmp_path / "data", TRANSOM_DEMO_LEDGER=str(ledger)).start()
    try:
        job = await started(server, "sender", {"steps": 3, "seconds": 1.0})
        with anyio.fail_after(10):
            while not ledger.exists() or not ledger.read_text():
                await anyio.sleep(0.02)
        await anyio.sleep(0.4)
        server.kill()  # the second is in flight
        await server.start()
        async with server.client("omar") as client:
            with anyio.fail_after(20):
                while not (waits := (await client.get("/v1/approvals")).json()["approvals"]):
                    await anyio.sleep(0.05)
            (wait,) = waits
            assert (wait["kind"], wait["function"], wait["job"], wait["canDecide"]) == ("restart", "demo.send", job, True)
            why = (await client.get(f"/v1/jobs/{job}/wait")).json()
            assert why["steps"][0]["waitsFor"] == wait["id"]
            await anyio.sleep(1.2)
            assert [line.split()[1].partition(".")[0] for line in ledger.read_text().splitlines()] == ["1"], (
                "it was sent without asking"
            )
            bad = await client.post(f"/v1/approvals/{wait['id']}/answer", json={"answer": "maybe"})
            assert (bad.status_code, bad.json()["code"]) == (400, "invalid_argument")
            if isinstance(answer, dict):
                wrong = await client.post(
                    f"/v1/approvals/{wait['id']}/answer", json={"answer": {"answer": "done", "result": 7}}
                )
                assert wrong.status_code == 400, "the result misses the function's output schema"
            async with server.client("anna") as starter:
                assert (await starter.post(f"/v1/approvals/{wait['id']}/answer", json={"answer": "again"})).status_code == 403
            said = await client.post(f"/v1/approvals/{wait['id']}/answer", json={"answer": answer})
            assert said.status_code == 200, said.text
            view = await ended(client, job)
        assert view["status"] == status, view
        assert [line.split()[1].partition(".")[0] for line in ledger.read_text().splitlines()] == sends
        if status == "failed":
            assert "demo.send" in view["error"]["message"]
        else:
            assert view["output"] == "slept 3"
    finally:
        server.stop()


@pytest.mark.req("RT-36")
async def test_an_answer_and_a_wait_outlive_a_kill_and_nothing_recorded_is_made_again(tmp_path) -> None:
    server = await Server(tmp_path / "data").start()
    try:
        job = await started(server, "two_calls", "hello")
        async with server.client("omar") as client:
            with anyio.fail_after(10):
                while len(waits := (await client.get("/v1/approvals")).json()["approvals"]) < 2:
                    await anyio.sleep(0.02)
            assert (await client.post(f"/v1/approvals/{waits[0]['id']}/approve", json={})).status_code == 200
        server.kill()
        await server.start()
        async with server.client("omar") as client:
            open_waits = (await client.get("/v1/approvals")).json()["approvals"]
            for wait in open_waits:
                if wait["kind"] == "restart":  # the approved call was in flight at the kill
                    answer = {"answer": "again"}
                    assert (await client.post(f"/v1/approvals/{wait['id']}/answer", json=answer)).status_code == 200
            (left,) = [wait for wait in open_waits if wait["kind"] == "approval"]
            assert left == waits[1], "the wait is another after the kill"
            again = await client.post(f"/v1/approvals/{waits[0]['id']}/approve", json={})
            assert (again.status_code, again.json()["result"]) == (200, "already_decided")
            assert (await client.post(f"/v1/approvals/{left['token']}/approve", json={})).status_code == 200
            view = await ended(client, job)
            assert view["status"] == "completed"
            assert view["cost"]["calls"] == 2, "a recorded model call was made again"
    finally:
        server.stop()


@pytest.mark.req("RT-36")
async def test_a_timer_and_a_deadline_run_on_over_a_kill(tmp_path) -> None:
    server = await Server(tmp_path / "data").start()
    try:
        late = await started(server, "asker", "x", timeout="3s")
        brief = await started(server, "brief", "x")
        await anyio.sleep(0.3)
        server.kill()
        await anyio.sleep(2)
        await server.start()
        async with server.client("anna") as client:
            assert (await ended(client, brief, 10))["output"] == "Nobody answered in time."
            assert (await ended(client, late, 10))["status"] == "timed_out"
    finally:
        server.stop()


@pytest.mark.req("RT-36", "REST-5")
async def test_sigterm_ends_streams_at_once_and_the_job_goes_on_after_the_restart(tmp_path) -> None:
    server = await Server(tmp_path / "data").start()
    try:
        job = await started(server, "sleeper", {"steps": 8, "seconds": 0.4})
        last = ""
        async with server.client("anna") as client, client.stream("GET", f"/v1/jobs/{job}/events") as answer:
            begun = None
            async for event in sse(answer):
                last = event.id
                if begun is None and json.loads(event.data)["type"] in ("call", "call.ended", "job.started"):
                    begun = anyio.current_time()
                    code = await anyio.to_thread.run_sync(server.stop)
            assert anyio.current_time() - begun < 4
        assert code == 0
        await server.start()
        seen = [(last, {"seq": int(last.partition("-")[0])})]
        await follow(server, job, seen, "anna")
        assert seen[-1][1]["status"] == "completed"
        numbers = [event["seq"] for _, event in seen]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    finally:
        if server.process.poll() is None:
            server.stop()
