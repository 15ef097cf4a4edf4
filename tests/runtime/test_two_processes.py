"""Two server processes on one data folder: what one accepted the other shows, decides, cancels, and takes over."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import httpx
import pytest
from servers import Server, ended, follow

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

LEDGER = "TRANSOM_DEMO_LEDGER"


@contextlib.asynccontextmanager
async def two(tmp_path: Path) -> AsyncIterator[tuple[Server, Server]]:
    """Two servers on one data folder."""
    environment = {LEDGER: str(tmp_path / "ledger")}
    one, other = Server(tmp_path / "data", **environment), Server(tmp_path / "data", **environment)
    try:
        await one.start()
        await other.start()
        yield one, other
    finally:
        for server in (one, other):
            if server.process is not None and server.process.poll() is None:
                server.stop()


async def started(server: Server, agent: str, value: object = "hello", **query: str) -> str:
    async with server.client() as client:
        answer = await client.post(f"/v1/agents/{agent}/jobs", json=value, params=query)
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]


async def waiting(server: Server, job: str, seconds: float = 20.0) -> dict:
    """The wait that a job is stopped by, seen from one server."""
    with anyio.fail_after(seconds):
        async with server.client() as client:
            while not (found := (await client.get("/v1/approvals", params={"job": job})).json()["approvals"]):
                await anyio.sleep(0.05)
            return found[0]


async def final(server: Server, job: str, seconds: float = 30.0) -> dict:
    async with server.client() as client:
        return await ended(client, job, seconds)


def lines(tmp_path: Path, job: str) -> list[str]:
    ledger = tmp_path / "ledger"
    return [
        line.split()[1].partition(".")[0]
        for line in (ledger.read_text().splitlines() if ledger.exists() else ())
        if line.split()[0] == job
    ]


@pytest.mark.req("RT-18", "RT-15", "RT-6", "KERN-9")
async def test_what_starts_on_one_is_followed_decided_and_cancelled_on_the_other(tmp_path) -> None:
    async with two(tmp_path) as (one, other):
        # follow on the other, live
        seen: list = []
        async with anyio.create_task_group() as tasks:
            job = await started(one, "streamer", {"deltas": 40, "bytes": 20, "delay_ms": 20})
            tasks.start_soon(follow, other, job, seen)
        here: list = []
        await follow(one, job, here)
        assert seen == here
        # go on from the middle on the other
        rest = seen[:5]
        await follow(other, job, rest)
        assert rest == seen
        # decide on the other
        job = await started(one, "helper")
        wait = await waiting(other, job)
        async with other.client("omar") as client:
            assert (await client.post(f"/v1/approvals/{wait['id']}/approve", json={})).status_code == 200
        assert (await final(one, job, 5))["output"] == "I greeted the team."
        # cancel on the other: what runs on the first stops
        job = await started(one, "sleeper", {"steps": 50, "seconds": 0.1})
        await anyio.sleep(0.5)
        async with other.client() as client:
            assert (await client.post(f"/v1/jobs/{job}/cancel", json={})).json()["status"] == "cancelled"
        await anyio.sleep(0.3)
        naps = len(lines(tmp_path, job))
        await anyio.sleep(0.5)
        assert len(lines(tmp_path, job)) == naps < 50
        assert (await final(one, job))["status"] == "cancelled"
        # the same start on the other is a retry, another is refused
        job = await started(one, "echo", "x", id="mine")
        async with other.client() as client:
            again = await client.post("/v1/agents/echo/jobs?id=mine", json="x")
            assert (again.status_code, again.json()["retried"]) == (200, True)
            assert (await client.post("/v1/agents/echo/jobs?id=mine", json="y")).status_code == 409


@pytest.mark.req("RT-12")
async def test_equal_starts_on_both_at_once_make_one_job(tmp_path) -> None:
    async with two(tmp_path) as servers:
        answers: list[httpx.Response] = []
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(server.client()) for server in servers]

            async def start(n: int) -> None:
                answers.append(await clients[n % 2].post("/v1/agents/sleeper/jobs?id=one", json={"steps": 1, "seconds": 0.2}))

            async with anyio.create_task_group() as tasks:
                for n in range(100):
                    tasks.start_soon(start, n)
        assert sorted(answer.status_code for answer in answers) == [200] * 99 + [201]
        await final(servers[0], "one")
        assert len(lines(tmp_path, "one")) == 1


async def test_decisions_on_both_at_once_decide_once(tmp_path) -> None:
    async with two(tmp_path) as servers, contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(server.client("omar")) for server in servers]
        for _ in range(3):
            job = await started(servers[0], "helper")
            wait = await waiting(servers[1], job)
            answers: list[tuple[str, httpx.Response]] = []

            async def decide(n: int, wait=wait, answers=answers) -> None:
                word = ("approve", "deny")[n // 2 % 2]
                answers.append((word, await clients[n % 2].post(f"/v1/approvals/{wait['id']}/{word}", json={})))

            async with anyio.create_task_group() as tasks:
                for n in range(24):
                    tasks.start_soon(decide, n)
            (won,) = [word for word, answer in answers if answer.json().get("result") == "decided"]
            assert {a.status_code for word, a in answers if word == won} == {200}
            assert {a.status_code for word, a in answers if word != won} == {409}
            expected = "I greeted the team." if won == "approve" else "I did not greet the team."
            assert (await final(servers[1], job))["output"] == expected


@pytest.mark.req("RT-36", "KERN-9")
@pytest.mark.parametrize("killed", [0, 1], ids=["the first", "the second"])
async def test_when_one_is_killed_the_other_takes_over_within_some_seconds(tmp_path, killed) -> None:
    async with two(tmp_path) as servers:
        dying, living = servers[killed], servers[1 - killed]
        naps = [await started(server, "sleeper", {"steps": 6, "seconds": 0.4}) for server in servers for _ in range(3)]
        asks = [await started(server, "helper") for server in servers]
        waits = [await waiting(living, job) for job in asks]
        seen: dict[str, list] = {job: [] for job in naps}
        await anyio.sleep(0.7)
        dying.kill()
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                for job in naps:
                    tasks.start_soon(follow, living, job, seen[job])
        for job in naps:
            assert seen[job][-1][1]["status"] == "completed"
            steps = lines(tmp_path, job)
            assert sorted(set(steps), key=int) == [str(n) for n in range(1, 7)]
            assert len(steps) <= 7, "more than the one step in flight was made again"
        async with living.client("omar") as client:
            for wait in waits:
                assert (await client.post(f"/v1/approvals/{wait['id']}/approve", json={})).status_code == 200
        for job in asks:
            assert (await final(living, job))["output"] == "I greeted the team."


async def embedded(tmp_path: Path, *arguments: str) -> asyncio.subprocess.Process:
    """`transom run` in a process of its own, on the servers' data folder."""
    environment = {**os.environ, LEDGER: str(tmp_path / "ledger"), "PYTHONWARNINGS": "ignore"}
    for name in ("TRANSOM_URL", "TRANSOM_TOKEN"):
        environment.pop(name, None)
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "transom", "run", *arguments, "--data", str(tmp_path / "data"))
    return await asyncio.create_subprocess_exec(
        *command, env=environment, cwd=tmp_path, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )


@pytest.mark.req("RT-36")
async def test_a_run_beside_a_server_and_the_server_leave_each_others_jobs_alone(tmp_path) -> None:
    server = await Server(tmp_path / "data", **{LEDGER: str(tmp_path / "ledger")}).start()
    try:
        theirs = [await started(server, "sleeper", {"steps": 8, "seconds": 0.3}) for _ in range(3)]
        process = await embedded(tmp_path, "sleeper", '{"steps": 8, "seconds": 0.3}', "--id", "mine", "--quiet")
        shown: dict = {}
        with anyio.fail_after(20):
            async with server.client() as client:
                while "status" not in shown:
                    await anyio.sleep(0.05)
                    shown = (await client.get("/v1/jobs/mine")).json()
        assert shown["status"] == "running", "the server sees what the run does"
        said, errors = await process.communicate()
        assert (process.returncode, said.decode().strip()) == (0, "slept 8"), errors.decode()
        for job in (*theirs, "mine"):
            assert (await final(server, job))["output"] == "slept 8"
            assert lines(tmp_path, job) == [str(n) for n in range(1, 9)], "two processes worked on one job"
    finally:
        server.stop()


@pytest.mark.req("RT-36")
async def test_when_the_server_is_killed_a_run_goes_on_with_its_own_job_only(tmp_path) -> None:
    server = await Server(tmp_path / "data", **{LEDGER: str(tmp_path / "ledger")}).start()
    job = await started(server, "sleeper", {"steps": 10, "seconds": 0.2})
    process = await embedded(tmp_path, "sleeper", '{"steps": 30, "seconds": 0.3}', "--id", "mine", "--quiet")
    await anyio.sleep(1.2)
    server.kill()
    await anyio.sleep(0.2)
    left = lines(tmp_path, job)
    said, errors = await process.communicate()
    assert (process.returncode, said.decode().strip()) == (0, "slept 30"), errors.decode()
    assert lines(tmp_path, job) == left, "the run took a job that it had not started"
    await server.start()
    try:
        assert (await final(server, job))["output"] == "slept 10"
    finally:
        server.stop()


@pytest.mark.req("RT-36")
async def test_a_killed_runs_job_is_taken_over_by_the_server(tmp_path) -> None:
    server = await Server(tmp_path / "data", **{LEDGER: str(tmp_path / "ledger")}).start()
    try:
        process = await embedded(tmp_path, "sleeper", '{"steps": 8, "seconds": 0.3}', "--id", "mine", "--quiet")
        with anyio.fail_after(20):
            while len(lines(tmp_path, "mine")) < 2:
                await anyio.sleep(0.05)
        process.kill()
        await process.communicate()
        assert (await final(server, "mine", 20))["output"] == "slept 8"
    finally:
        server.stop()
