"""What every store must do: subclass `StoreContract` in a test module, and give it a fixture `store`.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self) -> MyStore:
            return MyStore()

`store` is fresh and not yet opened; the tests open it for `RECORDS`.
"""

# ruff: noqa: S106 - no password stands here

from typing import NoReturn

import anyio
import pytest

from transom_hookspecs import (
    NEVER,
    SYSTEM,
    AnyEvent,
    AuditEntry,
    CallEnded,
    Caller,
    Change,
    Entry,
    ErrorInfo,
    JobStarted,
    Lease,
    Rule,
    Store,
    StoreUnavailable,
    Text,
    TextEnded,
    Tx,
    WaitOpened,
)

from .store_kit import RECORDS, OpenedStore, Thing, append, put, text, verify_chain
from .store_purging import PurgingContract
from .store_records import RecordsContract


class Refused(Exception):
    """Raised by a transaction to undo itself."""


def refuse(tx: Tx) -> NoReturn:
    """Do some of everything, then raise."""
    tx.put(Thing(id="undone"))
    tx.append("undone", [text()])
    tx.audit(AuditEntry(action="undone", caller="c", door="d"))
    tx.touch("undone")
    tx.system.put(Lease(tenant="a", job="undone"))
    raise Refused


class TransactionsContract(OpenedStore):
    """Transactions: whole or not at all, each by itself."""

    async def test_one_that_raises_is_undone_alone(self, opened: Store) -> None:
        caught: list[BaseException] = []

        async def attempt(n: int) -> None:
            try:
                await (put(opened, "a", Thing(id=str(n))) if n % 2 else opened.transact("a", refuse))
            except Refused as error:
                caught.append(error)

        async with anyio.create_task_group() as group:
            for n in range(20):
                group.start_soon(attempt, n)
        assert len(caught) == 10
        assert {thing.id for thing in await opened.select("a", Thing, "rank")} == {str(n) for n in range(1, 20, 2)}

    async def test_an_undone_one_leaves_nothing(self, opened: Store) -> None:
        await put(opened, "a", Thing(id="undone", rank=7))
        await append(opened, "a", "undone", text("before"))
        changes = opened.changes()
        with pytest.raises(Refused):
            await opened.transact("a", refuse)
        assert await opened.get("a", Thing, "undone") == Thing(id="undone", rank=7)
        assert [entry.seq for entry in await opened.read("a", "undone")] == [1]
        assert await opened.audit("a") == []
        assert await opened.get(SYSTEM, Lease, "a", "undone") is None
        assert await append(opened, "a", "undone", text("after")) == 2
        assert [change.topic for change in await anext(changes)] == ["tree/a/undone"]

    async def test_every_kind_of_write_can_be_undone(self, opened: Store) -> None:
        await put(opened, "a", Thing(id="x"), Thing(id="y"))

        def write(tx: Tx) -> None:
            tx.delete(Thing, "x")
            tx.update(Thing(id="y"), rank=1)
            tx.add(Thing, ("y",), "rank", 5)
            tx.insert(Thing(id="z"))
            raise Refused

        with pytest.raises(Refused):
            await opened.transact("a", write)
        assert await opened.select("a", Thing, "rank") == [Thing(id="x"), Thing(id="y")]

    async def test_what_was_committed_is_read_at_once(self, opened: Store) -> None:
        for n in range(20):
            await opened.transact("a", lambda tx, n=n: tx.put(Thing(id="x", rank=n)), relaxed=n % 2 == 0)  # type: ignore[misc]
            assert await opened.get("a", Thing, "x") == Thing(id="x", rank=n)

    async def test_a_cancelled_caller_leaves_a_whole_transaction_and_a_store_that_goes_on(self, opened: Store) -> None:
        def write(tx: Tx, n: int) -> None:
            tx.put(Thing(id=f"{n}", group="first"))
            tx.put(Thing(id=f"{n}+", group="second"))

        for n in range(50):
            async with anyio.create_task_group() as group:
                group.start_soon(opened.transact, "a", lambda tx, n=n: write(tx, n))
                await anyio.sleep(n % 5 / 10_000)
                group.cancel_scope.cancel()
        with anyio.fail_after(1):
            await put(opened, "a", Thing(id="last", group="third"))
        first, second = [await opened.select("a", Thing, "rank", {"group": name}) for name in ("first", "second")]
        assert [f"{thing.id}+" for thing in first] == [thing.id for thing in second]

    async def test_it_is_there_when_the_store_is_opened_again(self, store: Store) -> None:
        async with store.open(RECORDS):
            await put(store, "a", Thing(id="x", rank=1))
            await append(store, "a", "t", text())
            before = store.worker
        async with store.open(RECORDS):
            assert await store.get("a", Thing, "x") == Thing(id="x", rank=1)
            assert await append(store, "a", "t", text()) == 2
            assert store.worker != before
            assert [await store.alive(store.worker), await store.alive(before), await store.alive("none")] == [
                True,
                False,
                False,
            ]

    async def test_a_closed_store_says_so(self, store: Store) -> None:
        async with store.open(RECORDS):
            pass
        with pytest.raises(StoreUnavailable, match="not open"):
            await put(store, "a", Thing(id="x"))
        with pytest.raises(StoreUnavailable, match="not open"):
            await store.get("a", Thing, "x")


class LogContract(OpenedStore):
    """The log, the audit trail, and what followers are told."""

    async def test_a_hundred_callers_append_without_a_gap(self, opened: Store) -> None:
        async def write(n: int) -> None:
            for i in range(3):
                await append(opened, "a", "t", text(f"{n}.{i}"), text(f"{n}.{i}+"))

        async with anyio.create_task_group() as group:
            for n in range(100):
                group.start_soon(write, n)
        entries = await opened.read("a", "t", limit=1000)
        assert [entry.seq for entry in entries] == list(range(1, 601))
        deltas = [entry.event.delta for entry in entries if isinstance(entry.event, Text)]
        assert all(f"{first}+" == second for first, second in zip(deltas[::2], deltas[1::2], strict=True))
        assert [d for d in deltas if d.startswith("7.")] == ["7.0", "7.0+", "7.1", "7.1+", "7.2", "7.2+"]

    async def test_a_log_is_read_in_slices(self, opened: Store) -> None:
        assert await append(opened, "a", "t", *(text(str(n)) for n in range(450))) == 450
        assert await append(opened, "a", "t") == 450
        slices = [await opened.read("a", "t", after, limit) for after, limit in ((0, 200), (200, 300), (449, 5), (450, 5))]
        assert [(len(part), part[0].seq if part else 0) for part in slices] == [(200, 1), (250, 201), (1, 450), (0, 0)]
        assert [await opened.last("a", "t"), await opened.last("b", "t"), await opened.last("a", "u")] == [450, 0, 0]
        assert await opened.read("b", "t") == []

    async def test_events_come_back_as_they_were_appended(self, opened: Store) -> None:
        caller = Caller(kind="person", id="anna", tenant="a", scopes=("echo",))
        events: list[AnyEvent] = [
            JobStarted(job="t", agent="echo", caller=caller),
            TextEnded(job="t", message="t:1", text="\u0000 \u2028 \U0001f600 é"),
            CallEnded(job="t", call="c", content={"a": [1, 2.5, None]}, error=ErrorInfo(code="internal", message="no")),
            WaitOpened(job="t", wait="w", kind="question", token="k", expires=NEVER, rule=Rule(count=2), choices=("y", "n")),
        ]

        def write(tx: Tx) -> int:
            assert tx.append("t", events) == tx.last("t") == 4
            return tx.now

        now = await opened.transact("a", write)
        assert await opened.read("a", "t") == [Entry(seq, now, event) for seq, event in enumerate(events, 1)]

    async def test_changes_are_told_once_and_in_order(self, opened: Store) -> None:
        changes, told = opened.changes(), list[Change]()

        def write(tx: Tx) -> None:
            tx.append("t", [text("1"), text("2")])
            tx.touch("catalog")
            tx.touch("catalog")
            tx.append("t", [text("3")])

        await opened.transact("a", write)
        async with anyio.create_task_group() as group:
            for tree in ("t", "u") * 20:
                group.start_soon(append, opened, "a", tree, text())
        await opened.transact("b", lambda tx: tx.touch("end"))
        with anyio.fail_after(2):
            while not told or told[-1].topic != "end":
                told += await anext(changes)
        assert [change.topic for change in told].count("catalog") == 1
        for tree, last in (("t", 23), ("u", 20)):
            seqs = [entry.seq for change in told if change.topic == f"tree/a/{tree}" for entry in change.entries]
            assert seqs == list(range(1, last + 1))

    async def test_followers_end_when_the_store_closes(self, store: Store) -> None:
        async with store.open(RECORDS):
            changes = store.changes()
            await append(store, "a", "t", text())
        assert [[change.topic for change in batch] async for batch in changes] == [["tree/a/t"]]

    async def test_the_audit_trail_is_a_chain_for_each_tenant(self, opened: Store) -> None:
        async def act(tenant: str, n: int) -> None:
            entry = AuditEntry(action=f"act.{n}", caller="person:anna", door="rest", details={"b": n, "a": [None, "é"]})
            await opened.transact(tenant, lambda tx: tx.audit(entry))

        await act("a", 0)
        await act("b", 0)
        async with anyio.create_task_group() as group:
            for n in range(1, 10):
                group.start_soon(act, "a", n)
                group.start_soon(act, "b", n)
                group.start_soon(opened.transact, SYSTEM, lambda tx: tx.audit(AuditEntry(action="x", caller="c", door="d")))
        for tenant in ("a", "b", SYSTEM):
            rows = await opened.audit(tenant)
            assert [(row.tenant, row.entry.at > 0) for row in rows] == [(tenant, True)] * (9 if tenant == SYSTEM else 10)
            assert (rows[0].number, rows[0].previous) == (1, "")
            verify_chain(rows)
            assert await opened.audit(tenant, rows[3].number, 2) == rows[4:6]

    async def test_an_entry_that_is_no_json_is_its_own_callers_error(self, opened: Store) -> None:
        good = AuditEntry(action="good", caller="c", door="d")
        bad = AuditEntry(action="bad", caller="c", door="d", details={"x": object()})  # type: ignore[dict-item]
        refused: list[TypeError] = []

        async def act(entry: AuditEntry) -> None:
            def write(tx: Tx) -> None:
                tx.put(Thing(id=entry.action))
                tx.audit(entry)

            try:
                await opened.transact("a", write)
            except TypeError as error:
                refused.append(error)

        async with anyio.create_task_group() as group:
            for entry in (good, bad, good):
                group.start_soon(act, entry)
        assert len(refused) == 1
        assert [row.entry.action for row in await opened.audit("a")] == ["good", "good"]
        assert [thing.id for thing in await opened.select("a", Thing, "rank")] == ["good"]

    async def test_an_audit_entry_keeps_a_time_of_its_own(self, opened: Store) -> None:
        entry = AuditEntry(action="x", caller="c", door="d", object="o", outcome="refused", via="app:desk", at=5)
        await opened.transact("a", lambda tx: tx.audit(entry))
        assert [row.entry for row in await opened.audit("a")] == [entry]


class StoreContract(RecordsContract, TransactionsContract, LogContract, PurgingContract):
    """All that a store must do."""


__all__ = ["RECORDS", "StoreContract"]
