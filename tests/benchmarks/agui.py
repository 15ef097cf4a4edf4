"""What the AG-UI route costs: a run, its first event, a long thread, reconnecting, watchers and idle streams."""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from load import Connection, Process, floor, transom

PATH = "/v1/agui/agents"
Row = Callable[[str, str, str, bool], None]


def body_of(thread: str, run: str, messages: Sequence[dict[str, Any]]) -> bytes:
    """A request as the stock client of 1.0 sends it."""
    return json.dumps(
        {
            "threadId": thread,
            "runId": run,
            "protocolVersion": "1.0",
            "messages": list(messages),
            "tools": [],
            "context": [],
            "state": {},
            "forwardedProps": {},
        }
    ).encode()


def said(n: int, text: str = "one two three four five") -> dict[str, str]:
    return {"id": f"u{n}", "role": "user", "content": text}


async def turn(connection: Connection, agent: str, body: bytes, **headers: str) -> tuple[float, float, list[bytes]]:
    """One run; seconds to the first event and to the end, and what it sent."""
    began = time.perf_counter()
    connection.send("POST", f"{PATH}/{agent}", body, "application/json", **headers)
    status, _ = await connection.head()
    assert status == 200, status
    first, chunks = 0.0, []
    async for chunk in connection.chunks():
        first = first or time.perf_counter() - began
        chunks.append(chunk)
    return first, time.perf_counter() - began, chunks


class Load:
    """Clients that keep a server busy, each run on a thread of its own."""

    def __init__(self, process: Process, token: str) -> None:
        self.process, self.token, self.count = process, token, 0

    async def spend(self, clients: int, seconds: float) -> tuple[float, list[float]]:
        """CPU milliseconds a run, and the seconds to the first event of each."""
        until, firsts = time.perf_counter() + seconds, list[float]()

        async def one() -> None:
            async with Connection(self.process, self.token) as connection:
                while time.perf_counter() < until:
                    self.count += 1
                    first, _, _ = await turn(connection, "echo", body_of(f"t{self.count}", "r", [said(1)]))
                    firsts.append(first)

        before = self.process.cpu
        await asyncio.gather(*[one() for _ in range(clients)])
        return (self.process.cpu - before) / len(firsts) * 1000, firsts


async def cost(folder: Path, row: Row) -> None:
    """CPU of a durable 5-delta run against the floor, which writes the same bytes; the first event."""
    product = transom(folder / "cost")
    token = product.said["tokens"]["key"]
    async with Connection(product, token) as connection:
        _, _, chunks = await turn(connection, "echo", body_of("recorded", "r", [said(1)]))
    (folder / "started.json").write_bytes(b"{}")
    (folder / "events.sse").write_bytes(b"".join(chunks))
    bare = floor(folder)
    try:
        mine, theirs = Load(product, token), Load(bare, "")
        await mine.spend(4, 1.0)
        await theirs.spend(4, 1.0)
        for clients, bound in ((1, 4.0), (16, 2.5)):
            rounds = [(await mine.spend(clients, 2.0), await theirs.spend(clients, 2.0)) for _ in range(3)]
            own, least = min(each[0][0] for each in rounds), min(each[1][0] for each in rounds)
            figure = f"{own:.2f} ms, floor {least:.2f} ms: {own / least:.1f} times"
            row(f"CPU of a durable 5-delta AG-UI run, {clients} client(s)", figure, f"{bound} times", own / least <= bound)
            if clients == 1:
                p50 = statistics.median([first for each in rounds for first in each[0][1]]) * 1000
                row("AG-UI: first event after the request, p50", f"{p50:.2f} ms", "1.5 ms", p50 <= 1.5)
    finally:
        product.stop()
        bare.stop()


async def long_thread(folder: Path, row: Row) -> None:
    """Turn 300 against turn 1, the client's whole history in the body, with an agent that reads none."""
    process = transom(folder / "thread")
    token = process.said["tokens"]["anna"]
    work = json.dumps({"steps": 0, "seconds": 0})

    class Thread:
        def __init__(self, name: str) -> None:
            self.name, self.messages, self.turns = name, list[dict[str, str]](), 0

        async def turn(self, connection: Connection) -> float:
            self.turns += 1
            self.messages.append(said(self.turns, work))
            body = body_of(self.name, f"r{self.turns}", self.messages)
            _, whole, chunks = await turn(connection, "sleeper", body)
            events = [json.loads(line[6:]) for line in b"".join(chunks).split(b"\n") if line.startswith(b"data: ")]
            texts: dict[str, str] = {}
            for event in events:
                if event["type"] == "TEXT_MESSAGE_CONTENT":
                    texts[event["messageId"]] = texts.get(event["messageId"], "") + event["delta"]
            assert events[-1]["type"] == "RUN_FINISHED", events[-1]
            self.messages += [{"id": id, "role": "assistant", "content": text} for id, text in texts.items()]
            return whole

    try:
        async with Connection(process, token) as connection:
            long = Thread("long")
            for _ in range(280):
                await long.turn(connection)
            first, last = [], []
            for n in range(40):  # side by side, so that both see the same store
                last.append(await long.turn(connection))
                first.append(await Thread(f"new{n}").turn(connection))
        early, late = statistics.median(first) * 1000, statistics.median(last) * 1000
        figure = f"{late:.2f} ms, first {early:.2f} ms: {late / early:.2f} times"
        row("turn 300 against turn 1, through AG-UI, whole history", figure, "1.3 times", late / early <= 1.3)
    finally:
        process.stop()


async def reconnect(folder: Path, row: Row) -> None:
    """Going on in the middle of 20,000 events; what others wait for meanwhile."""
    process = transom(folder / "reconnect", TRANSOM_LIMITS__TEXT_FLUSH="0")
    token = process.said["tokens"]["key"]
    body = body_of("long", "r", [said(1, json.dumps({"deltas": 20_000, "bytes": 20, "delay_ms": 0}))])
    try:
        async with Connection(process, token) as connection:
            _, _, chunks = await turn(connection, "streamer", body)
        ids = [line[4:].decode() for line in b"".join(chunks).split(b"\n") if line.startswith(b"id: ")]
        middle = ids[len(ids) // 2]
        other = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("other.py")), process.host, process.port],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        firsts = []
        for _ in range(7):
            async with Connection(process, token) as connection:
                first, _, rest = await turn(connection, "streamer", body, **{"Last-Event-ID": middle})
                firsts.append(first)
                assert sum(chunk.count(b"\nid: ") + chunk.startswith(b"id: ") for chunk in rest) > 9_000
        worst, usual = json.loads(other.communicate()[0])
        first = statistics.median(firsts) * 1000
        row("reconnect into the middle of 20,000 events, first event", f"{first:.0f} ms", "50 ms", first < 50)
        row("others' latency meanwhile, p99", f"{usual:.0f} ms, worst {worst:.0f} ms", "20 ms", usual < 20)
    finally:
        process.stop()


async def watchers(folder: Path, row: Row) -> None:
    """One event reaches 1,000 watchers; then 2,000 idle streams, and what they hold."""
    process = transom(folder / "watchers")
    token = process.said["tokens"]["omar"]
    body = body_of("watched", "r", [said(1)])
    try:
        async with Connection(process, token) as connection:
            _, _, chunks = await turn(connection, "helper", body)
        assert b'"interrupt"' in b"".join(chunks)
        _, answer = await _call(process, token, "GET", "/v1/jobs?limit=1")
        job = json.loads(answer)["jobs"][0]["id"]
        idle, resident = await _follow(process, token, job, 200), process.resident
        idle += await _follow(process, token, job, 1_800)
        each = (process.resident - resident) / 1_800 * 1024
        row("idle streams, memory of each (2,000 open)", f"{each:.1f} KiB", "25 KiB", each <= 25)
        watching = idle[:1_000]
        for connection in idle[1_000:]:
            connection.writer.close()
        await asyncio.sleep(1)
        _, answer = await _call(process, token, "GET", f"/v1/approvals?job={job}")
        (wait,) = json.loads(answer)["approvals"]
        arrivals = [asyncio.create_task(_next(connection)) for connection in watching]
        began = time.perf_counter()
        await _call(process, token, "POST", f"/v1/approvals/{wait['id']}/deny", b"{}")
        last = max(await asyncio.gather(*arrivals)) - began
        row("an event, until the last of 1,000 watchers has it", f"{last * 1000:.0f} ms", "60 ms", last <= 0.060)
        for connection in watching:
            connection.writer.close()
    finally:
        process.stop()


async def _call(process: Process, token: str, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    async with Connection(process, token) as connection:
        return await connection.call(method, path, body, "application/json")


async def _follow(process: Process, token: str, job: str, count: int) -> list[Connection]:
    """Streams that have sent all there is by now."""
    opened = []
    for _ in range(count):
        connection = await Connection(process, token).__aenter__()
        connection.send("GET", f"/v1/jobs/{job}/events")
        await connection.head()
        data = b""
        while b"tree.waiting" not in data:
            size = int(await connection.reader.readline(), 16)
            data += await connection.reader.readexactly(size)
            await connection.reader.readexactly(2)
        opened.append(connection)
    return opened


async def _next(connection: Connection) -> float:
    await connection.reader.readline()
    return time.perf_counter()


async def all_of(folder: Path, row: Row) -> None:
    """Every figure of the route."""
    for part in (cost, long_thread, reconnect, watchers):
        await part(folder, row)
