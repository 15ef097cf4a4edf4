"""The part of the store contract that is about records: written, read, changed, counted."""

# ruff: noqa: D102 - a test's name says what it is about

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transom_hookspecs import NEVER, SYSTEM, Index, Json, Lease, Record, Store, TransomError, Tx

from .store_kit import ORDERS, RECORDS, THINGS, Inner, OpenedStore, Pair, Thing, fresh_tenant, put, rank

_SETTINGS = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class RecordsContract(OpenedStore):
    """Records: written, read, changed and counted."""

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
