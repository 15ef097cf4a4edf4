"""What was removed is in no byte of the SQLite store's files, and the file is none the worse for how that is done."""

import random
import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from transom_hookspecs import KERNEL_RECORDS, NEVER, AuditEntry, JobInput, Step, StoreUnavailable, Text, TextEnded
from transom_sqlite import SqliteStore, scrub

pytestmark = pytest.mark.anyio
SIZES = (1, 2, 5, 10, 30, 60, 200, 1_000)


@pytest.fixture(autouse=True)
def no_blocking_call():
    """These tests look at files themselves."""


class Life:
    """Jobs that come, write, and go, some beside others: rows of all sizes are put, replaced and removed all over the pages.

    Each has a word that stands in all its rows, such as `w00017w`; another life has another letter.
    """

    def __init__(self, seed: int, jobs: int, letter: str = "w") -> None:
        self.random, self.jobs, self.letter = random.Random(seed), jobs, letter
        self.active: list[int] = []
        self.steps: dict[int, int] = {}

    def word(self, job: int) -> str:
        return f"{self.letter}{job:05}{self.letter}"

    def text(self, job: int) -> str:
        return f"{self.word(job)} " * self.random.choice(SIZES)

    def live(self, tx) -> None:
        """A moment of it, in one transaction."""
        for _ in range(self.random.randint(1, 10)):
            if len(self.steps) < self.jobs and (len(self.active) < 20 or self.random.random() < 0.3):
                new = len(self.steps)
                tx.put(JobInput(job=f"j{new}", value=self.text(new)))
                tx.audit(AuditEntry(action="start", caller="c", door="d", details={"word": self.word(new)}))
                self.active.append(new)
                self.steps[new] = 0
            if self.active:
                self.step(tx, self.random.choice(self.active))

    def step(self, tx, job: int) -> None:
        self.steps[job] += 1
        key, name = str(self.steps[job]), f"j{job}"
        tx.put(Step(job=name, key=key, kind="call", name="m", state="begun", arguments=self.text(job)))
        tx.append(
            name, [Text(job=name, message=f"{name}:{key}", delta=self.text(job)) for _ in range(self.random.randint(1, 4))]
        )
        tx.put(Step(job=name, key=key, kind="call", name="m", state="done", result=self.text(job)))
        tx.append(name, [TextEnded(job=name, message=f"{name}:{key}", text=self.text(job))])
        if self.steps[job] > 5 and self.random.random() < 0.5:
            self.active.remove(job)

    @property
    def over(self) -> bool:
        return len(self.steps) == self.jobs and not self.active

    def remove(self, tx, job: int) -> None:
        tx.clear(Step, {"job": f"j{job}"})
        tx.clear(JobInput, {"job": f"j{job}"})
        tx.drop(f"j{job}")


async def lived(store: SqliteStore, life: Life) -> None:
    while not life.over:
        await store.transact("a", life.live)


def words(folder: Path) -> set[str]:
    """The words of the first life in any of the files."""
    data = b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())
    return {word.decode() for word in re.findall(rb"w\d{5}w", data)}


def is_sound(folder: Path) -> bool:
    with closing(sqlite3.connect(folder / "transom.db")) as tool:
        return tool.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("seed", [0, 2])
async def test_nothing_is_left_of_what_was_removed_between_what_stays(make, data, seed):
    """In copies, too, that SQLite makes when it moves rows between pages and nobody overwrites."""
    life = Life(seed, 300)
    async with (store := make()).open(KERNEL_RECORDS):
        await lived(store, life)
        gone = [job for job in life.steps if life.random.random() < 0.7]
        for job in gone:
            await store.transact("a", lambda tx, job=job: life.remove(tx, job))
        await store.transact("a", lambda tx: tx.audit_purge(NEVER, 10_000))
        stays = {f"j{job}": await store.read("a", f"j{job}", 0, 1_000) for job in life.steps if job not in gone}
        await store.scrub()
        left = await anyio.to_thread.run_sync(words, data)
        assert left == {life.word(job) for job in life.steps if job not in gone}
        assert {name: await store.read("a", name, 0, 1_000) for name in stays} == stays
        assert await anyio.to_thread.run_sync(is_sound, data)


async def test_a_large_file_is_scrubbed_part_by_part_and_work_goes_on_in_between(make, data, monkeypatch):
    """Also when a page changes places with one that was scrubbed before: there are some passes."""
    monkeypatch.setattr(scrub, "SLICE", 65_536)
    life, more = Life(7, 200), Life(8, 100_000, "x")
    done = 0

    async def work() -> None:
        nonlocal done
        while True:
            await store.transact("b", more.live)
            done += 1

    async with (store := make()).open(KERNEL_RECORDS):
        await lived(store, life)
        async with anyio.create_task_group() as tasks:
            for job in life.steps:
                await store.transact("a", lambda tx, job=job: life.remove(tx, job))
            await store.transact("a", lambda tx: tx.audit_purge(NEVER, 10_000))
            tasks.start_soon(work)
            with anyio.fail_after(60):
                before = done
                await store.scrub()
            assert done > before + 10
            assert await anyio.to_thread.run_sync(words, data) == set()
            tasks.cancel_scope.cancel()
        assert await anyio.to_thread.run_sync(is_sound, data)


WRITER = """
import asyncio, sys
sys.path[:0] = {path!r}
from test_sqlite_scrub import Life, KERNEL_RECORDS, SqliteStore

async def main():
    store, life = SqliteStore(), Life(9, 100_000, "x")
    store.data = {data!r}
    async with store.open(KERNEL_RECORDS):
        print("open", flush=True)
        while True:
            await store.transact("b", life.live)
            if len(life.steps) % 7 == 0:
                job = life.random.choice(list(life.steps))
                if job not in life.active:
                    await store.transact("b", lambda tx: life.remove(tx, job))
            await asyncio.sleep(0.001)

asyncio.run(main())
"""


async def test_another_process_that_writes_all_the_while_neither_stops_it_nor_is_harmed(make, data):
    life = Life(3, 200)
    program = WRITER.format(path=[str(Path(__file__).parent), *sys.path], data=str(data))
    async with (store := make()).open(KERNEL_RECORDS), await anyio.open_process([sys.executable, "-c", program]) as other:
        assert await other.stdout.receive(1) == b"o"
        await lived(store, life)
        for job in life.steps:
            await store.transact("a", lambda tx, job=job: life.remove(tx, job))
            if job % 40 == 0:
                with anyio.fail_after(60):
                    await store.scrub()
        await store.transact("a", lambda tx: tx.audit_purge(NEVER, 10_000))
        with anyio.fail_after(60):
            await store.scrub()
        assert await anyio.to_thread.run_sync(words, data) == set()
        other.kill()
        await other.wait()
        assert len(await store.audit("b", limit=100_000)) > 10
        assert await anyio.to_thread.run_sync(is_sound, data)


async def test_who_waits_for_it_when_the_store_closes_is_told(make, monkeypatch):
    monkeypatch.setattr(scrub.Scrubber, "step", lambda self: False)
    refused = []

    async def wait() -> None:
        try:
            await store.scrub()
        except StoreUnavailable as error:
            refused.append(error)

    async with anyio.create_task_group() as tasks, (store := make()).open(KERNEL_RECORDS):
        tasks.start_soon(wait)
        await anyio.sleep(0.05)
    assert len(refused) == 1
