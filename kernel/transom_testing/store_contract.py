"""What every store must do: subclass `StoreContract` in a test module, and give it a fixture `store`.

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self) -> MyStore:
            return MyStore()

`store` is fresh and not yet opened; the tests open it for `RECORDS`.
"""

# ruff: noqa: D102, S106 - a test's name says what it is about; no password stands here

from collections.abc import AsyncIterator
from typing import NoReturn

import anyio
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
    Index,
    JobStarted,
    Json,
    Lease,
    Record,
    Rule,
    Store,
    StoreUnavailable,
    Text,
    TextEnded,
    TransomError,
    Tx,
    WaitOpened,
)

from .store_kit import ORDERS, RECORDS, THINGS, Inner, Pair, Thing, append, fresh_tenant, put, rank, text, verify_chain

_SETTINGS = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


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


class _Contract:
    """The fixtures that the parts of the contract share."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        """The event loop that stores run on."""
        return "asyncio"

    @pytest.fixture
    def store(self) -> Store:
        """A fresh store, not yet opened: subclasses give their own."""
        raise NotImplementedError

    @pytest.fixture
    async def opened(self, store: Store) -> AsyncIterator[Store]:
        """The store, opened for `RECORDS`."""
        async with store.open(RECORDS):
            yield store


class RecordsContract(_Contract):
    """Records: written, read, changed, counted, and undone."""

    @_SETTINGS
    @given(thing=THINGS)
    async def test_a_record_comes_back_as_it_was_put(self, opened: Store, thing: Thing) -> None:
        tenant = fresh_tenant()

        def write(tx: Tx) -> Thing | None:
            tx.put(thing)
            return tx.get(Thing, thing.id)

        assert await opened.transact(tenant, write) == thing
        assert await opened.get(tenant, Thing, thing.id) == thing

    async def test_a_missing_record_is_none(self, opened: Store) -> None:
        assert await opened.get("a", Thing, "nothing") is None
        assert await opened.transact("a", lambda tx: tx.get(Thing, "nothing")) is None

    async def test_what_a_caller_holds_is_not_the_stores_own(self, opened: Store) -> None:
        value: dict[str, Json] = {"n": 1}
        await put(opened, "a", Thing(id="x", value=value))
        value["n"] = 2
        read = await opened.get("a", Thing, "x")
        assert read is not None
        assert read.value == {"n": 1}

    async def test_insert_leaves_a_taken_key_alone_and_put_replaces_it(self, opened: Store) -> None:
        def write(tx: Tx) -> list[object]:
            first = tx.insert(Thing(id="x", rank=1, value=[1]))
            second = tx.insert(Thing(id="x", rank=2))
            kept = tx.get(Thing, "x")
            tx.put(Thing(id="x", rank=3))
            return [first, second, kept, tx.get(Thing, "x")]

        assert await opened.transact("a", write) == [True, False, Thing(id="x", rank=1, value=[1]), Thing(id="x", rank=3)]

    async def test_update_writes_the_named_fields_and_no_others(self, opened: Store) -> None:
        await put(opened, "a", Thing(id="x", tags=("t",)))

        def write(tx: Tx) -> tuple[Thing, Thing]:
            read = tx.get(Thing, "x")
            assert read is not None
            return tx.update(read, rank=5, live=False), tx.update(read, value={"a": [None]}, tags=())

        first, second = await opened.transact("a", write)
        assert first == Thing(id="x", rank=5, live=False, tags=("t",))
        assert second == Thing(id="x", value={"a": [None]})
        assert await opened.get("a", Thing, "x") == Thing(id="x", rank=5, live=False, value={"a": [None]})

    @pytest.mark.parametrize(
        ("changes", "code"),
        [({"rank": 1}, "not_found"), ({"id": "y"}, "invalid_argument"), ({"nothing": 1}, "invalid_argument")],
        ids=["a record that is not there", "a field of the key", "a field that there is not"],
    )
    async def test_update_refuses(self, opened: Store, changes: dict[str, object], code: str) -> None:
        with pytest.raises(TransomError) as refused:
            await opened.transact("a", lambda tx: tx.update(Thing(id="x"), **changes))
        assert refused.value.code == code

    async def test_delete_tells_whether_there_was_one(self, opened: Store) -> None:
        await put(opened, "a", Thing(id="x"))
        assert await opened.transact("a", lambda tx: (tx.delete(Thing, "x"), tx.delete(Thing, "x"))) == (True, False)
        assert await opened.get("a", Thing, "x") is None

    @_SETTINGS
    @given(things=st.lists(THINGS, max_size=12), order=ORDERS, limit=st.integers(1, 5), pick=st.integers(0, 11))
    async def test_pages_of_an_index_are_the_sorted_records(
        self, opened: Store, things: list[Thing], order: tuple[Index, int], limit: int, pick: int
    ) -> None:
        (index, given_fields), tenant = order, fresh_tenant()
        await put(opened, tenant, *things)
        whole = list({thing.id: thing for thing in things}.values())
        names = [field.removeprefix("-") for field in index.fields]
        sample = whole[pick % len(whole)] if whole else Thing(id="")
        where = {name: getattr(sample, name) for name in names[:given_fields]}
        expected = [thing for thing in whole if all(getattr(thing, name) == value for name, value in where.items())]
        for field in reversed(index.fields):
            expected.sort(key=lambda thing, name=field.lstrip("-"): rank(getattr(thing, name)), reverse=field[0] == "-")  # type: ignore[misc]  # noqa: B008

        found: list[Thing] = []
        after = None
        while page := await opened.select(tenant, Thing, index.name, where, after=after, limit=limit):
            found += page
            after = [getattr(page[-1], name) for name in names[given_fields:]]
        assert found == expected
        assert await opened.transact(tenant, lambda tx: tx.select(Thing, index.name, where)) == expected
        assert await opened.transact(tenant, lambda tx: tx.count(Thing, index.name, where)) == len(expected)

    async def test_long_lists_and_counts_end_at_their_limit(self, opened: Store) -> None:
        await put(opened, "a", *(Thing(id=f"{n:04}") for n in range(250)))
        ids = [thing.id for thing in await opened.select("a", Thing, "rank", {"group": ""}, limit=240)]
        assert ids == [f"{n:04}" for n in range(240)]
        assert len(await opened.select("a", Thing, "rank", {"group": ""})) == 200
        assert await opened.transact("a", lambda tx: (tx.count(Thing, "rank"), tx.count(Thing, "rank", limit=9))) == (250, 9)

    @pytest.mark.parametrize(
        ("index", "where", "after"),
        [("none", {}, None), ("rank", {"rank": 1}, None), ("rank", {"group": ""}, (1,)), ("rank", {"state": "new"}, None)],
        ids=["an index not declared", "a field that does not lead", "a cursor too short", "a field that is not in it"],
    )
    async def test_select_refuses(
        self, opened: Store, index: str, where: dict[str, int | str], after: tuple[int, ...] | None
    ) -> None:
        with pytest.raises(TransomError) as refused:
            await opened.select("a", Thing, index, where, after=after)
        assert refused.value.code == "invalid_argument"

    async def test_a_type_that_is_not_registered_is_refused(self, opened: Store) -> None:
        with pytest.raises(TransomError, match="'Inner' is not registered"):
            await opened.get("a", Inner, "x")

    async def test_add_counts_up_to_its_cap(self, opened: Store) -> None:
        await put(opened, "a", Thing(id="x"))

        async def added(by: int, cap: int | None) -> int:
            return await opened.transact("a", lambda tx: tx.add(Thing, ("x",), "rank", by, cap=cap))

        assert [await added(2, 3), await added(1, 3)] == [2, 3]
        with pytest.raises(TransomError) as refused:
            await added(1, 3)
        assert refused.value.code == "resource_exhausted"
        assert [await added(2, None), await added(-1, 3)] == [5, 4]
        with pytest.raises(TransomError) as absent:
            await opened.transact("a", lambda tx: tx.add(Thing, ("y",), "rank", 1))
        assert absent.value.code == "not_found"

    async def test_a_refused_add_leaves_the_rest_of_its_transaction(self, opened: Store) -> None:
        def write(tx: Tx) -> int:
            tx.put(Thing(id="x", rank=5))
            with pytest.raises(TransomError):
                tx.add(Thing, ("x",), "rank", 1, cap=5)
            return tx.add(Thing, ("x",), "rank", -1)

        assert await opened.transact("a", write) == 4

    async def test_tenants_do_not_see_each_other(self, opened: Store) -> None:
        await put(opened, "a", Thing(id="x", rank=1))
        await put(opened, "b", Thing(id="x", rank=2))
        await opened.transact("b", lambda tx: tx.delete(Thing, "x"))
        assert await opened.get("a", Thing, "x") == Thing(id="x", rank=1)
        assert await opened.select("b", Thing, "rank") == []

    async def test_the_system_tenant_is_written_in_the_same_transaction(self, opened: Store) -> None:
        def write(tx: Tx) -> tuple[str, str, int]:
            tx.put(Thing(id="x"))
            tx.system.put(Lease(tenant="a", job="j", epoch=1))
            assert tx.system.get(Lease, "a", "j") == Lease(tenant="a", job="j", epoch=1)
            assert tx.get(Lease, "a", "j") is None
            return tx.tenant, tx.system.tenant, tx.now - tx.system.now

        assert await opened.transact("a", write) == ("a", SYSTEM, 0)
        assert await opened.get(SYSTEM, Lease, "a", "j") == Lease(tenant="a", job="j", epoch=1, at=NEVER)
        assert [lease.job for lease in await opened.select(SYSTEM, Lease, "due")] == ["j"]

    async def test_fields_may_be_called_as_columns_and_words_of_sql(self, opened: Store) -> None:
        pairs = [Pair(tenant=t, order=n, select="*") for n in (1, 2) for t in ("p", "q")]
        await put(opened, "a", *pairs)
        assert await opened.select("a", Pair, "order") == pairs
        assert await opened.get("a", Pair, "q", 1) == Pair(tenant="q", order=1, select="*")

    @pytest.mark.parametrize("name", ["Event", "Thing"], ids=["a name of the store's own", "a name that is taken"])
    async def test_a_record_whose_name_is_taken_is_refused(self, store: Store, name: str) -> None:
        other = Record(type=msgspec.defstruct(name, [("id", str)], frozen=True), key=("id",))
        with pytest.raises(TransomError, match=f"'{name}'.*rename it"):
            async with store.open([*RECORDS, other]):
                pass


class TransactionsContract(_Contract):
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


class LogContract(_Contract):
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
            verify_chain(rows)
            assert await opened.audit(tenant, rows[3].number, 2) == rows[4:6]

    async def test_an_entry_that_is_no_json_is_its_own_callers_error(self, opened: Store) -> None:
        good = AuditEntry(action="good", caller="c", door="d")
        bad = AuditEntry(action="bad", caller="c", door="d", details={"x": object()})  # type: ignore[dict-item]
        refused: list[TypeError] = []

        async def act(entry: AuditEntry) -> None:
            try:
                await opened.transact("a", lambda tx: (tx.put(Thing(id=entry.action)), tx.audit(entry)))
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


class StoreContract(RecordsContract, TransactionsContract, LogContract):
    """All that a store must do."""
