"""Several processes on one SQLite store."""

import fcntl
import signal
import sqlite3
import statistics
import sys
import time
from contextlib import asynccontextmanager, closing
from pathlib import Path

import anyio
import pytest
from anyio.streams.text import TextReceiveStream

from transom_hookspecs import StoreUnavailable, Text, Tree
from transom_sqlite import changes as sqlite_changes
from transom_testing.store_contract import RECORDS
from transom_testing.store_kit import Thing, append, put, text

pytestmark = pytest.mark.anyio

SCRIPT = str(Path(__file__).with_name("sqlite_process.py"))


@pytest.fixture(autouse=True)
def no_blocking_call():
    """These tests look at files themselves; the contract's run under the detector of blocking calls."""


class Process:
    """A process of its own on the store, and the lines that it prints."""

    def __init__(self, process, worker: str, lines) -> None:
        self.process = process
        self.worker = worker
        self._lines = lines

    async def line(self) -> str:
        return await anext(self._lines)

    async def kill(self) -> list[str]:
        """Kill -9; returns the whole lines it had printed."""
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()
        return [line async for line in self._lines]


async def whole_lines(stream):
    rest = ""
    async for part in TextReceiveStream(stream):
        *lines, rest = (rest + part).split("\n")
        for line in lines:
            yield line


@asynccontextmanager
async def process(mode: str, data: Path, tree: str):
    async with await anyio.open_process([sys.executable, SCRIPT, mode, str(data), tree], stderr=None) as child:
        lines = whole_lines(child.stdout)
        yield Process(child, await anext(lines), lines)
        if child.returncode is None:
            child.kill()


def pairs(entries) -> dict[str, list[list[str]]]:
    """Each process's transactions as they stand in the log: message by message, the deltas."""
    found: dict[str, list[list[str]]] = {}
    for first, second in zip(entries[::2], entries[1::2], strict=True):
        assert isinstance(first.event, Text)
        found.setdefault(first.event.job, []).append([first.event.message, second.event.message])
    return found


@pytest.mark.req("RT-36")
async def test_kill_9_of_a_writer_loses_nothing_that_was_acknowledged(make, data):
    store = make()
    for attempt in range(3):
        async with process("append", data, f"p{attempt}") as child:
            acknowledged = [int(await child.line()) for _ in range(20 * attempt + 1)]
            acknowledged += [int(line) for line in await child.kill()]
        async with store.open(RECORDS):
            entries = await store.read("a", "t", limit=1_000_000)
            assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
            assert len(entries) >= acknowledged[-1]
            transactions = pairs(entries)[f"p{attempt}"]
            assert transactions == [[str(n)] * 2 for n in range(len(transactions))]
            rows = [await store.get("a", Tree, f"p{attempt}.{n}") for n in range(len(transactions) + 1)]
            assert [row is not None for row in rows] == [True] * len(transactions) + [False]
            assert not await store.alive(child.worker)


async def test_two_processes_append_to_one_log_without_a_gap_and_neither_starves(make, data):
    store = make()
    async with store.open(RECORDS), process("append", data, "other") as child:
        assert await store.alive(child.worker)
        for n in range(100):
            await append(store, "a", "t", *[Text(job="own", message=str(n), delta="x")] * 2)
        printed = await child.kill()
        entries = await store.read("a", "t", limit=10_000_000)
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        transactions = pairs(entries)
        assert len(transactions["own"]) == 100
        assert len(transactions["other"]) >= len(printed) >= 10


async def test_eight_processes_open_a_fresh_path_at_once(make, data):
    async with anyio.create_task_group() as group:

        async def start(n: int) -> None:
            async with process("once", data, f"p{n}") as child:
                for _ in range(5):
                    await child.line()
                assert await child.process.wait() == 0

        for n in range(8):
            group.start_soon(start, n)
    async with (store := make()).open(RECORDS):
        assert {job: len(found) for job, found in pairs(await store.read("a", "t")).items()} == {f"p{n}": 5 for n in range(8)}
        assert list((data / "workers").iterdir()) == [data / "workers" / f"{store.worker}.lock"]
    with closing(sqlite3.connect(data / "transom.db")) as tool:
        assert tool.execute("SELECT count(*) FROM schema").fetchone() == (len(RECORDS) + 1,)


async def test_a_killed_worker_is_dead_at_once_and_its_lock_file_goes(make, data):
    async with (store := make()).open(RECORDS), process("append", data, "p") as child:
        assert await store.alive(child.worker)
        child.process.send_signal(signal.SIGKILL)
        await child.process.wait()
        begun = time.perf_counter()
        assert not await store.alive(child.worker)
        assert time.perf_counter() - begun < 0.1
        assert not (data / "workers" / f"{child.worker}.lock").exists()


async def test_a_stale_lock_that_somebody_else_is_testing_is_not_alive(make, data):
    async with (store := make()).open(RECORDS):
        with (data / "workers" / "gone.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            assert not await store.alive("gone")


async def test_a_worker_name_is_never_a_path(make, data):
    async with (store := make()).open(RECORDS):
        (data / "outside.lock").touch()
        assert not await store.alive("../outside")
        assert (data / "outside.lock").exists()


async def test_changes_of_another_process_arrive_within_50_ms(make, data):
    async with (store := make()).open(RECORDS), process("touch", data, "policy") as child:
        changes, delays = store.changes(), []
        await child.process.stdin.send(b"\n")
        await child.line()
        await topics_until(changes, "policy")
        for _ in range(10):
            await child.process.stdin.send(b"\n")
            await topics_until(changes, "policy")
            arrived = time.time()
            delays.append(arrived - float(await child.line()))
        assert statistics.median(delays) < 0.05


async def topics_until(changes, last: str) -> list[str]:
    """The topics told until `last` is among them."""
    topics: list[str] = []
    with anyio.fail_after(5):
        while last not in topics:
            topics += [change.topic for change in await anext(changes)]
    return topics


async def test_each_worker_hears_of_each_change_once(make):
    first, second = make(), make()
    async with first.open(RECORDS):
        heard_by_first = first.changes()
        await append(first, "a", "t", text())
        async with second.open(RECORDS):
            heard_by_second = second.changes()
            for n in range(20):
                await append(first, "a", "t", text())
                await append(second, "a", "u", text())
                await first.transact("a", lambda tx, n=n: tx.touch(f"first/{n}"))
                await second.transact("a", lambda tx, n=n: tx.touch(f"second/{n}"))
            await first.transact("a", lambda tx: tx.touch("end/first"))
            await second.transact("a", lambda tx: tx.touch("end/second"))
            first_heard = await until_both(heard_by_first)
            second_heard = await until_both(heard_by_second)
    for heard in (first_heard, second_heard):
        assert [topic for topic in heard if topic.startswith("first/")] == [f"first/{n}" for n in range(20)]
        assert [topic for topic in heard if topic.startswith("second/")] == [f"second/{n}" for n in range(20)]


async def until_both(changes) -> list[str]:
    topics: list[str] = []
    with anyio.fail_after(5):
        while not {"end/first", "end/second"} <= set(topics):
            topics += [change.topic for change in await anext(changes)]
    return topics


async def test_a_change_made_right_after_the_other_opened_is_heard(make):
    first = make()
    async with first.open(RECORDS):
        await anyio.sleep(0.3)  # by now it knows that it is alone
        for n in range(5):
            async with (second := make()).open(RECORDS):
                heard = second.changes()
                await first.transact("a", lambda tx, n=n: tx.touch(f"now/{n}"))
                assert f"now/{n}" in await topics_until(heard, f"now/{n}")


async def test_who_was_pruned_past_is_told_that_anything_may_have_changed(make, monkeypatch):
    monkeypatch.setattr(sqlite_changes, "KEPT", 100)
    first, second = make(), make()
    async with first.open(RECORDS), second.open(RECORDS):
        heard = second.changes()
        await first.transact("a", lambda tx: [tx.touch(f"topic/{n}") for n in range(3000)] and None)
        assert "*" in await topics_until(heard, "*")


async def test_what_is_told_to_others_does_not_grow_without_end(make, data, monkeypatch):
    monkeypatch.setattr(sqlite_changes, "KEPT", 100)
    first, second = make(), make()
    async with first.open(RECORDS), second.open(RECORDS):
        for n in range(20):
            await first.transact("a", lambda tx, n=n: [tx.touch(f"topic/{n}/{i}") for i in range(200)] and None)
        await put(first, "a", Thing(id="x"))
    with closing(sqlite3.connect(data / "transom.db")) as tool:
        assert tool.execute("SELECT count(*) FROM change").fetchone()[0] < 1200


async def test_what_a_worker_told_others_itself_is_no_reason_to_start_over(make, monkeypatch):
    monkeypatch.setattr(sqlite_changes, "KEPT", 100)
    first, second = make(), make()
    async with first.open(RECORDS):
        heard = first.changes()
        async with second.open(RECORDS):
            await topics_until(heard, "worker")
            await first.transact("a", lambda tx: [tx.touch(f"topic/{n}") for n in range(3000)] and None)
            await second.transact("a", lambda tx: tx.touch("other"))
            assert "*" not in await topics_until(heard, "other")


async def test_a_group_that_could_not_be_kept_hides_no_change_of_others(make):
    first, second = make(), make()
    async with first.open(RECORDS):
        heard = first.changes()
        async with second.open(RECORDS):
            await topics_until(heard, "worker")
            await first.transact("a", lambda tx: tx._execute("PRAGMA max_page_count = 200").fetchone())
            with pytest.raises(StoreUnavailable):
                await first.transact("a", lambda tx: [tx.touch("x" * 2000 + str(n)) for n in range(1000)] and None)
            await second.transact("a", lambda tx: tx.touch("other"))
            assert await topics_until(heard, "other") == ["other"]
