"""Readers that are slow or leave: they cost themselves, nobody else, and leave nothing behind."""

import json
import socket
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import pytest
from servers import Server, ended, follow

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@pytest.fixture
async def server(tmp_path):
    running = await Server(tmp_path / "data").start()
    yield running
    running.stop()


def resident(server: Server) -> int:
    """Kilobytes of memory that the process has."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


def open_files(server: Server) -> int:
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


def raw(server: Server, path: str, method: str = "GET", body: bytes = b"") -> socket.socket:
    """A connection on which a request was sent and nothing is read."""
    url = httpx.URL(server.url)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((url.host, url.port))
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.tokens['anna']}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    connection.sendall(head.encode() + b"\r\n" + body)
    return connection


async def started(server: Server, agent: str, value: object) -> str:
    async with server.client("anna") as client:
        return (await client.post(f"/v1/agents/{agent}/jobs", json=value)).json()["id"]


@pytest.mark.req("FEED-6")
async def test_a_reader_that_stops_reading_holds_nobody_back_and_costs_bounded_memory(server) -> None:
    job = await started(server, "streamer", {"deltas": 400, "bytes": 10_000, "delay_ms": 2})
    stalled = [await anyio.to_thread.run_sync(raw, server, f"/v1/jobs/{job}/events") for _ in range(20)]
    try:
        await anyio.sleep(0.3)
        before = resident(server)
        seen: list = []
        with anyio.fail_after(60):
            await follow(server, job, seen, "anna")
        assert sum(len(event["delta"]) for _, event in seen if event["type"] == "text") == 4_000_000
        async with server.client("anna") as client:
            assert (await client.get("/healthz")).status_code == 200
            assert (await ended(client, await started(server, "echo", "quick"), 5))["output"] == "quick"
        assert resident(server) - before < 60_000, "20 stalled readers hold the whole stream in memory"
        whole = await anyio.to_thread.run_sync(read_all, stalled[0])
        assert whole.count(b"event: job.ended") == 1, "a slow reader is caught up from the log"
        assert sum(len(json.loads(line[6:])["delta"]) for line in text_lines(whole)) == 4_000_000
    finally:
        for connection in stalled:
            connection.close()


def read_all(connection: socket.socket) -> bytes:
    connection.settimeout(30)
    found = bytearray()
    while b"event: job.ended" not in found[-3000:] or not found.endswith(b"0\r\n\r\n"):
        if not (more := connection.recv(1 << 20)):
            break
        found += more
        if found.endswith(b"0\r\n\r\n"):
            break
    return dechunked(bytes(found).partition(b"\r\n\r\n")[2])


def dechunked(body: bytes) -> bytes:
    parts, at = [], 0
    while at < len(body):
        end = body.index(b"\r\n", at)
        size = int(body[at:end], 16)
        parts.append(body[end + 2 : end + 2 + size])
        at = end + 2 + size + 2
    return b"".join(parts)


def text_lines(stream: bytes) -> list[bytes]:
    return [line for line in stream.split(b"\n") if line.startswith(b"data: ") and b'"type":"text",' in line]


@pytest.mark.req("FEED-6", "REST-5")
async def test_500_clients_that_leave_before_the_first_byte_leave_nothing_behind(server) -> None:
    job = await started(server, "asker", "x")

    def leave() -> None:
        raw(server, f"/v1/jobs/{job}/events").close()

    async def wave() -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(anyio.to_thread.run_sync, leave)

    await wave()
    await anyio.sleep(1)
    files, memory = open_files(server), resident(server)
    for _ in range(5):
        await wave()
    async with server.client("anna") as client:
        assert (await client.get("/healthz")).json()["status"] == "ok"
        await anyio.sleep(1)
        assert open_files(server) <= files + 5
        assert resident(server) - memory < 10_000
        (wait,) = (await client.get("/v1/approvals")).json()["approvals"]
        await client.post(f"/v1/approvals/{wait['id']}/answer", json={"answer": "red"})
        assert (await ended(client, job, 5))["output"] == "You chose red."


async def test_clients_that_leave_in_the_middle_of_a_start_leave_a_whole_job_or_none(server) -> None:
    def half(n: int) -> None:
        body = json.dumps("x" * 5000).encode()
        if n % 2:
            url = httpx.URL(server.url)
            with socket.create_connection((url.host, url.port)) as connection:
                token = server.tokens["anna"]
                head = f"POST /v1/agents/echo/jobs?id=j{n} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
                connection.sendall(
                    f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body[:100]
                )
        else:
            raw(server, f"/v1/agents/echo/jobs?id=j{n}", "POST", body).close()

    for n in range(60):
        await anyio.to_thread.run_sync(half, n)
    await anyio.sleep(1)
    async with server.client("anna") as client:
        listed = (await client.get("/v1/jobs", params={"limit": "200"})).json()["jobs"]
        assert not [job["id"] for job in listed if int(job["id"][1:]) % 2], "a body that never came whole was started"
        for job in listed:
            assert (await ended(client, job["id"], 5))["status"] == "completed"
        for n in range(0, 60, 2):
            again = await client.post(f"/v1/agents/echo/jobs?id=j{n}", json="x" * 5000)
            assert again.status_code in (200, 201)
            assert (await ended(client, f"j{n}", 5))["output"] == "x" * 5000


@pytest.mark.req("REST-5", "RT-18")
async def test_a_client_that_leaves_does_not_stop_the_job(server) -> None:
    job = await started(server, "sleeper", {"steps": 3, "seconds": 0.3})
    connection = await anyio.to_thread.run_sync(raw, server, f"/v1/jobs/{job}/events")
    connection.close()
    async with server.client("anna") as client:
        assert (await ended(client, job, 10))["output"] == "slept 3"
