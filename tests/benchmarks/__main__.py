"""What the product costs, beside a floor in the same run. `python tests/benchmarks [NAME …]` prints the table.

Each line compares a figure with its bound; the exit code is 1 when one is past it. Close other programs first.
"""

import asyncio
import json
import shutil
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import documents
from load import Connection, Process, floor, runs, transom

SECONDS = 4.0
ROWS: list[tuple[str, str, str, bool]] = []


def row(name: str, figure: str, bound: str, ok: bool) -> None:
    """Print and keep one line of the table."""
    ROWS.append((name, figure, bound, ok))
    print(f"{'ok  ' if ok else 'PAST'} {name:58} {figure:34} {bound}", flush=True)


async def record(process: Process, token: str, folder: Path) -> None:
    """Keep the bytes of one run, in the pieces in which it sent them, for the floor to write."""
    async with Connection(process, token) as connection:
        _, body = await connection.call("POST", "/v1/agents/echo/jobs", b"one two three four five")
        (folder / "started.json").write_bytes(body)
        connection.send("GET", f"/v1/jobs/{json.loads(body)['id']}/events")
        await connection.head()
        events = b"".join([chunk async for chunk in connection.chunks()])
        (folder / "events.sse").write_bytes(events)


async def start_and_memory(folder: Path) -> None:
    """Start to listening, and resident memory when idle."""
    times, process = [], None
    for i in range(5):
        process = transom(folder / f"start{i}")
        times.append(process.ready)
        resident = process.resident
        process.stop()
    best = min(times)
    row("start to listening", f"{best:.2f} s (best of 5)", "0.8 s", best <= 0.8)
    row("resident when idle", f"{resident:.0f} MB", "75 MB", resident <= 75)


async def cpu_of_a_run(folder: Path) -> None:
    """CPU of a durable 5-delta run over SSE against the floor, at 1 and 16 clients; the first event."""
    product = transom(folder / "data")
    token = product.said["tokens"]["key"]
    await record(product, token, folder)
    bare = floor(folder)
    try:
        for warm in (product, bare):
            await runs(warm, token, 4, 1.0)
        for clients, bound in ((1, 4.0), (16, 2.5)):
            mine, theirs, firsts = [], [], []
            for _ in range(3):
                count, cpu, latencies = await runs(product, token, clients, SECONDS / 2)
                mine.append(cpu / count * 1000)
                firsts += latencies
                count, cpu, _ = await runs(bare, "", clients, SECONDS / 2)
                theirs.append(cpu / count * 1000)
            ratio = min(mine) / min(theirs)
            figure = f"{min(mine):.2f} ms, floor {min(theirs):.2f} ms: {ratio:.1f} times"
            row(f"CPU of a durable 5-delta run, {clients} client(s)", figure, f"{bound} times", ratio <= bound)
            if clients == 1:
                p50 = statistics.median(firsts) * 1000
                row("first event after the request, p50", f"{p50:.2f} ms", "1.5 ms", p50 <= 1.5)
    finally:
        product.stop()
        bare.stop()


async def deltas(folder: Path) -> None:
    """Model deltas a second, 100 runs of `streamer`: grouped, and each its own commit and event."""
    for name, environment, total, bound in (
        ("grouped", {}, 1000, 25_000),
        ("each its own commit and event", {"TRANSOM_LIMITS__TEXT_FLUSH": "0"}, 200, 8_000),
    ):
        process = transom(folder / name.partition(" ")[0], **environment)
        token = process.said["tokens"]["key"]
        body = json.dumps({"deltas": total, "bytes": 50, "delay_ms": 0}).encode()

        async def one(process: Process, token: str, body: bytes) -> None:
            async with Connection(process, token) as connection:
                await connection.run("streamer", body, "application/json")

        try:
            await one(process, token, body)
            began = time.perf_counter()
            await asyncio.gather(*[one(process, token, body) for _ in range(100)])
            rate = 100 * total / (time.perf_counter() - began)
            row(f"deltas/s of 50 bytes, 100 runs, {name}", f"{rate:,.0f}/s", f"{bound:,}/s", rate >= bound)
        finally:
            process.stop()


async def many_jobs(folder: Path) -> None:
    """A job list and a start with 100,000 stored jobs against an empty store."""
    figures: dict[int, tuple[float, float]] = {}
    for stored in (0, 100_000):
        data = folder / f"stored{stored}"
        process = transom(data)
        token = process.said["tokens"]["key"]
        async with Connection(process, token) as connection:
            for _ in range(60):
                await connection.run()
        if stored:
            process.stop()
            multiply(data / "transom.db", stored)
            process = transom(data)
        try:
            async with Connection(process, token) as connection:
                for _ in range(20):
                    await connection.run()
                lists = [await timed(lambda: connection.call("GET", "/v1/jobs?limit=50")) for _ in range(100)]
                starts = [await timed(connection.run) for _ in range(200)]
            figures[stored] = statistics.median(lists), statistics.median(starts)
        finally:
            process.stop()
    for i, name in enumerate(("a list of 50 jobs", "a start, to its end")):
        few, many = figures[0][i] * 1000, figures[100_000][i] * 1000
        figure = f"{many:.2f} ms, empty {few:.2f} ms: {many / few:.2f} times"
        row(f"{name}, 100,000 stored jobs", figure, "1.2 times", many / few <= 1.2)


def multiply(database: Path, total: int) -> None:
    """Fill a store with copies of its ended jobs, under other IDs and earlier times."""
    connection = sqlite3.connect(database)
    columns = {
        table: [r[1] for r in connection.execute(f"PRAGMA table_info({table})")]
        for table in ("job", "job_input", "job_output", "tree", "step", "cost")
    }
    names = {
        "job": ("id", "tree"),
        "job_input": ("job",),
        "job_output": ("job",),
        "tree": ("id",),
        "step": ("job",),
        "cost": ("tree", "job"),
    }
    (have,) = connection.execute("SELECT count(*) FROM job").fetchone()
    for copy in range(1, total // have + 1):
        for table, fields in columns.items():
            chosen = [
                f"{f} || '~{copy}'" if f in names[table] else f"{f} - {copy * 60_000}" if f == "created_at" else f'"{f}"'
                for f in fields
            ]
            source = f"SELECT {', '.join(chosen)} FROM {table} WHERE instr({names[table][0]}, '~') = 0"
            connection.execute(f"INSERT INTO {table} ({', '.join(fields)}) {source}")
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


async def timed(call: Callable[[], Awaitable[object]]) -> float:
    """Seconds that a call takes."""
    began = time.perf_counter()
    await call()
    return time.perf_counter() - began


async def long_conversation(folder: Path) -> None:
    """Turn 300 of a conversation against turn 1, with an agent that reads no history."""
    process = transom(folder / "data")
    token = process.said["tokens"]["key"]

    async def turn(connection: Connection, conversation: str) -> None:
        path = f"/v1/agents/sleeper/jobs?conversation={conversation}"
        _, answer = await connection.call("POST", path, b'{"steps": 0, "seconds": 0}', "application/json")
        connection.send("GET", f"/v1/jobs/{json.loads(answer)['id']}/events")
        await connection.head()
        async for _ in connection.chunks():
            pass

    try:
        async with Connection(process, token) as connection:
            for _ in range(280):
                await turn(connection, "long")
            first, last = [], []
            for i in range(40):  # side by side, so that both see the same store
                last.append(await timed(lambda: turn(connection, "long")))
                first.append(await timed(lambda i=i: turn(connection, f"new{i}")))
        early, late = statistics.median(first) * 1000, statistics.median(last) * 1000
        figure = f"{late:.2f} ms, first {early:.2f} ms: {late / early:.2f} times"
        row("turn 300 against turn 1, through REST", figure, "1.1 times", late / early <= 1.1)
    finally:
        process.stop()


QUOTAS = (("caller", "jobs"), ("caller", "tokens"), ("agent", "usd"), ("tenant", "usd"))


async def quotas(folder: Path) -> None:
    """A start and its model call under four quotas: 100,000 past jobs and as many counters of past windows against 10."""
    few, many = [await capped(folder / f"stored{stored}", stored) for stored in (10, 100_000)]
    tokens = [process.said["tokens"]["key"] for process in (few, many)]
    try:
        async with Connection(few, tokens[0]) as first, Connection(many, tokens[1]) as second:
            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(220):  # side by side, so that both see the same machine
                times[0].append(await timed(first.run))
                times[1].append(await timed(second.run))
        least, most = (statistics.median(each[20:]) * 1000 for each in times)
        figure = f"{most:.2f} ms, 10: {least:.2f} ms: {most / least:.2f} times"
        row("a start, to its end, four quotas, 100,000 past jobs", figure, "1.2 times", most / least <= 1.2)
    finally:
        few.stop()
        many.stop()


async def capped(data: Path, stored: int) -> Process:
    """A server with quotas on a store with so many past jobs."""
    process = transom(data)
    async with Connection(process, process.said["tokens"]["ada"]) as admin:
        for kind, what in QUOTAS:
            quota = {"kind": kind, "name": "*", "what": what, "window": "day", "limit": 1_000_000_000}
            status, answer = await admin.operation("SetQuota", quota)
            assert status == 200, answer
    async with Connection(process, process.said["tokens"]["key"]) as connection:
        for _ in range(min(stored, 500)):
            await connection.run()
    if stored > 500:
        process.stop()
        multiply(data / "transom.db", stored)
        age(data / "transom.db", stored)
        process = transom(data)
    return process


def age(database: Path, total: int) -> None:
    """Fill a store with its counters as they would have been in so many windows before."""
    connection = sqlite3.connect(database)
    fields = [r[1] for r in connection.execute("PRAGMA table_info(counter)")]
    chosen = [f"{f} - 86400000 * n" if f in ("start", "ends_at") else f'"{f}"' for f in fields]
    counters = ", ".join(f'"{f}"' for f in fields)
    (have,) = connection.execute("SELECT count(*) FROM counter").fetchone()
    connection.execute(
        f"WITH RECURSIVE past(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM past WHERE n < {total // have}) "
        f"INSERT INTO counter ({counters}) SELECT {', '.join(chosen)} FROM counter, past"
    )
    connection.commit()
    connection.close()


async def access(folder: Path) -> None:
    """Who calls, and what she may."""
    from access import GRANTS, MANY, microseconds

    cost = await microseconds(folder)
    name = f"authenticate and authorize, {MANY:,} keys and people, {GRANTS:,} grants"
    row(name, f"{cost:.0f} µs of CPU", "60 µs", cost <= 60)


async def agui(folder: Path) -> None:
    """The AG-UI route."""
    from agui import all_of

    await all_of(folder, row)


async def openapi(folder: Path) -> None:
    """The OpenAPI document of 10,000 agents, from its cache."""
    for line in await documents.measured(folder):
        row(*line)


BENCHMARKS = {
    "agui": agui,
    "access": access,
    "start": start_and_memory,
    "run": cpu_of_a_run,
    "deltas": deltas,
    "jobs": many_jobs,
    "quota": quotas,
    "conversation": long_conversation,
    "openapi": openapi,
}


def main(names: list[str]) -> int:
    """Run benchmarks by name, or all."""
    for name in names or BENCHMARKS:
        folder = Path(tempfile.mkdtemp(prefix="transom-benchmark-"))
        try:
            asyncio.run(BENCHMARKS[name](folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(ok for *_, ok in ROWS) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
