"""The SQLite store: the contract of every store, and how it treats the loop and slow readers."""

import asyncio
import sqlite3
import threading
from pathlib import Path

import anyio
import pluggy
import pytest

from transom_hookspecs import StoreHooks
from transom_sqlite import SqlitePlugin, SqliteStore
from transom_sqlite.changes import ROOM
from transom_testing.store_contract import RECORDS, StoreContract
from transom_testing.store_kit import Thing, append, put, text

pytestmark = pytest.mark.anyio


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> SqliteStore:
        store = SqliteStore()
        store.data = str(tmp_path / "data")
        return store


def test_the_plugin_offers_the_store_through_the_published_hook():
    manager = pluggy.PluginManager("transom")
    manager.add_hookspecs(StoreHooks)
    manager.register(SqlitePlugin(SqlitePlugin.Config(path="x.db")))
    manager.check_pending()
    ((store,),) = manager.hook.register_stores()
    assert (store.name, store.data) == ("sqlite", "transom-data")


async def test_a_long_read_leaves_the_loop_to_others(make):
    store, turns = make(), 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.sleep(0)

    async with store.open(RECORDS):
        await append(store, "a", "t", *[text()] * 20_000)
        async with anyio.create_task_group() as group:
            group.start_soon(others)
            assert len(await store.read("a", "t", limit=20_000)) == 20_000
            group.cancel_scope.cancel()
    assert turns > 10


async def test_a_hundred_callers_share_commits_and_are_woken_once_a_commit(make, monkeypatch):
    store, woken, loop = make(), 0, asyncio.get_running_loop()
    original = loop.call_soon_threadsafe

    def counted(*args):
        nonlocal woken
        woken += 1
        return original(*args)

    async with store.open(RECORDS):
        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        async with anyio.create_task_group() as group:
            for n in range(100):
                group.start_soon(append, store, "a", f"t{n}", text())
        monkeypatch.undo()
    assert woken <= 10


async def test_a_caller_cancelled_while_its_function_runs_is_forgotten_and_the_transaction_stands(make):
    store, begun, gate, complaints = make(), anyio.Event(), threading.Event(), []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: complaints.append(context))

    def write(tx):
        tx.put(Thing(id="x"))
        loop.call_soon_threadsafe(begun.set)
        gate.wait()
        tx.put(Thing(id="y"))

    async with store.open(RECORDS):
        async with anyio.create_task_group() as group:
            group.start_soon(store.transact, "a", write)
            await begun.wait()
            group.cancel_scope.cancel()
        gate.set()
        await put(store, "a", Thing(id="z"))
        assert [thing.id for thing in await store.select("a", Thing, "rank")] == ["x", "y", "z"]
    loop.set_exception_handler(None)
    assert complaints == []


async def test_a_slow_reader_is_told_that_anything_may_have_changed(make):
    store = make()
    async with store.open(RECORDS):
        changes = store.changes()
        await append(store, "a", "t", *[text()] * (ROOM + 1))
        await append(store, "a", "t", text())
        assert [change.topic for change in await anext(changes)] == ["*"]
        await append(store, "a", "t", text())
        assert [(change.topic, len(change.entries)) for change in await anext(changes)] == [("tree/a/t", 1)]


async def test_a_new_reader_of_changes_ends_the_one_before(make):
    store = make()
    async with store.open(RECORDS):
        first = store.changes()
        second = store.changes()
        await append(store, "a", "t", text())
        assert [change async for change in first] == []
        assert len(await anext(second)) == 1


async def test_one_object_is_not_opened_twice_at_once(make):
    store = make()
    async with store.open(RECORDS):
        with pytest.raises(Exception, match="is open already"):
            async with store.open(RECORDS):
                pass
        await put(store, "a", Thing(id="x"))


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("needed", [2, 1, 2]), ("full", [2, 2, 2]), ("normal", [1, 1, 1])],
)
async def test_how_durable_a_commit_is_follows_its_members_and_the_setting(make, setting, expected):
    store = make(synchronous=setting)

    def level(tx):
        return tx._execute("PRAGMA synchronous").fetchone()[0]

    async with store.open(RECORDS):
        assert [await store.transact("a", level, relaxed=relaxed) for relaxed in (False, True, False)] == expected
        mixed = await asyncio.gather(*(store.transact("a", level, relaxed=n > 0) for n in range(5)))
        assert mixed[0] == expected[0]


async def test_an_error_of_sqlites_own_reaches_no_caller(make):
    store = make()

    def broken(tx):
        tx.put(Thing(id="x"))
        tx._execute("SELECT nonsense")

    async with store.open(RECORDS):
        with pytest.raises(Exception, match=r"statement failed.*nonsense") as caught:
            await store.transact("a", broken)
        assert not isinstance(caught.value, sqlite3.Error)
        with pytest.raises(Exception, match="cannot be stored: NOT NULL"):
            await put(store, "a", Thing(id=None))
        with pytest.raises(RuntimeError, match="StopIteration"):
            await store.transact("a", lambda tx: next(iter(())))
        assert await store.get("a", Thing, "x") is None


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
async def test_every_declared_order_is_read_from_an_index(make, record):
    store = make()
    async with store.open(RECORDS):
        table = store._parts.tables[record.type]
        for index in record.indexes:
            for given in range(len(index.fields) + 1):
                where = {field.removeprefix("-"): "" for field in index.fields[:given]}
                sql, values = table.select("a", index.name, where, None, 10)
                plan = [row[3] for row in await store._parts.reader.rows(f"EXPLAIN QUERY PLAN {sql}", values)]
                assert not [step for step in plan if "TEMP B-TREE" in step or step.startswith("SCAN")], (index, given)
