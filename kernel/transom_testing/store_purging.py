"""The part of the store contract that is about what goes: contents, logs, and the beginning of the audit trail."""

# ruff: noqa: D102 - a test's name says what it is about

from typing import NoReturn

import pytest

from transom_hookspecs import (
    SYSTEM,
    AuditChain,
    AuditEntry,
    AuditFilter,
    AuditRow,
    Json,
    Store,
    StoreUnavailable,
    Text,
    TextCut,
    TextEnded,
    TransomError,
    Tx,
)

from .store_kit import RECORDS, OpenedStore, Pair, Thing, append, put, text, verify_chain


def entry(at: int, action: str = "act", **details: Json) -> AuditEntry:
    """An entry of a time."""
    return AuditEntry(action=action, caller="person:anna", door="rest", object=f"o{at}", at=at, details=details)


async def audited(store: Store, tenant: str, *entries: AuditEntry) -> list[AuditRow]:
    """Add entries, one transaction each, and read the trail."""
    for each in entries:
        await store.transact(tenant, lambda tx, each=each: tx.audit(each))  # type: ignore[misc]
    return await store.audit(tenant)


class PurgingContract(OpenedStore):
    """What is removed is gone, what stays is whole, and one that raises removes nothing."""

    async def test_clear_removes_what_has_the_values_and_nothing_else(self, opened: Store) -> None:
        for tenant in ("a", "b"):
            await put(opened, tenant, *(Thing(id=f"{n}", group="g" if n % 2 else "h", rank=n % 3) for n in range(12)))
        assert await opened.transact("a", lambda tx: tx.clear(Thing, {"group": "g", "rank": 1})) == 2
        assert await opened.transact("a", lambda tx: tx.clear(Thing, {"group": "h"})) == 6
        assert await opened.transact("a", lambda tx: tx.clear(Thing, {"group": "h"})) == 0
        assert [thing.id for thing in await opened.select("a", Thing, "rank")] == ["3", "9", "11", "5"]
        assert len(await opened.select("b", Thing, "rank")) == 12

    async def test_clear_ends_at_its_limit(self, opened: Store) -> None:
        await put(opened, "a", *(Pair(tenant="p", order=n) for n in range(7)))

        def clear(tx: Tx) -> list[int]:
            return [tx.clear(Pair, {"tenant": "p"}, 3) for _ in range(4)]

        assert await opened.transact("a", clear) == [3, 3, 1, 0]

    @pytest.mark.parametrize("where", [{}, {"rank": 1}, {"nothing": 1}], ids=["no values", "no first field", "no field"])
    async def test_clear_refuses_what_would_look_at_every_row(self, opened: Store, where: dict[str, int]) -> None:
        with pytest.raises(TransomError) as refused:
            await opened.transact("a", lambda tx: tx.clear(Thing, where))
        assert refused.value.code == "invalid_argument"

    async def test_thinning_takes_the_deltas_of_whole_texts_and_leaves_the_seqs(self, opened: Store) -> None:
        def said(message: str, *deltas: str) -> list[Text]:
            return [Text(job="t", message=message, delta=delta) for delta in deltas]

        await append(opened, "a", "t", *said("t:1", "one ", "two"), TextEnded(job="t", message="t:1", text="one two"))
        await append(opened, "a", "t", *said("t:2", "cut"), TextCut(job="t", message="t:2"), *said("t:3", "not ended"))
        await append(opened, "b", "t", *said("t:1", "its"), TextEnded(job="t", message="t:1", text="its"))
        thinned = [await opened.transact("a", lambda tx: tx.thin("t", 1)) for _ in range(3)]
        assert [*thinned, await opened.transact("a", lambda tx: tx.thin("u"))] == [1, 1, 0, 0]
        left = [(e.seq, type(e.event)) for e in await opened.read("a", "t")]
        assert left == [(3, TextEnded), (4, Text), (5, TextCut), (6, Text)]
        assert [e.seq for e in await opened.read("a", "t", 3, 2)] == [4, 5]
        assert [await opened.last("a", "t"), await append(opened, "a", "t", text())] == [6, 7]
        assert len(await opened.read("b", "t")) == 2

    async def test_a_dropped_log_begins_anew(self, opened: Store) -> None:
        for tenant in ("a", "b"):
            await append(opened, tenant, "t", *(text(str(n)) for n in range(5)))
        assert await opened.transact("a", lambda tx: tx.drop("t", 3)) == 3
        assert [e.seq for e in await opened.read("a", "t")] == [4, 5]
        assert [await opened.last("a", "t"), await append(opened, "a", "t", text())] == [5, 6]
        assert [await opened.transact("a", lambda tx: tx.drop("t")) for _ in range(2)] == [3, 0]
        assert [await opened.read("a", "t"), await opened.last("a", "t")] == [[], 0]
        assert await append(opened, "a", "t", text("new")) == 1
        assert [e.seq for e in await opened.read("a", "t")] == [1]
        assert await opened.last("b", "t") == 5

    async def test_a_purge_that_raises_removes_nothing(self, opened: Store) -> None:
        rows = await audited(opened, "a", entry(1, n=1), entry(2))
        await put(opened, "a", Thing(id="x", group="g"))
        await append(opened, "a", "t", text(), TextEnded(job="t", message="t:1", text="x"))
        log = await opened.read("a", "t")

        def purge(tx: Tx) -> NoReturn:
            tx.thin("t")
            tx.append("t", [text()])
            tx.drop("t")
            assert tx.append("t", [text()]) == 1
            assert (tx.clear(Thing, {"group": "g"}), tx.audit_purge(9)) == (1, 1)
            assert tx.audit_cut(9) is not None
            raise ArithmeticError

        with pytest.raises(ArithmeticError):
            await opened.transact("a", purge)
        assert await opened.audit("a") == rows
        assert await opened.read("a", "t") == log
        assert await opened.get("a", Thing, "x") == Thing(id="x", group="g")
        assert await append(opened, "a", "t", text()) == 3

    async def test_details_have_a_salt_each_and_an_entry_without_has_none(self, opened: Store) -> None:
        first, second, third = await audited(opened, "a", entry(1, a="é"), entry(2, a="é"), entry(3))
        assert (first.details, second.details) == ('{"a":"é"}', '{"a":"é"}')
        assert (first.digest, first.salt) != (second.digest, second.salt)
        assert (len(first.salt), len(first.digest)) == (32, 64)
        assert (third.digest, third.salt, third.details, third.purged) == ("", "", "", False)

    async def test_purged_details_leave_a_chain_that_verifies(self, opened: Store) -> None:
        await audited(opened, "b", entry(1, n=1))
        rows = await audited(opened, "a", entry(1, n=1), entry(2), entry(3, n=3), entry(9, n=9), entry(4, n=4))
        purged = [await opened.transact("a", lambda tx: tx.audit_purge(5, 1)) for _ in range(3)]
        assert purged == [1, 1, 0]
        after = await opened.audit("a")
        verify_chain(after)
        assert [row.hash for row in after] == [row.hash for row in rows]
        assert [(row.purged, row.details) for row in after] == [
            (True, ""),
            (False, ""),
            (True, ""),
            (False, '{"n":9}'),
            (False, '{"n":4}'),
        ]
        assert [row.purged for row in await opened.audit("b")] == [False]

    async def test_a_cut_keeps_what_the_rest_begins_after(self, opened: Store) -> None:
        await audited(opened, "b", entry(1))
        rows = await audited(opened, "a", *(entry(at, n=at) for at in (1, 2, 3, 9, 4)))
        cuts = [await opened.transact("a", lambda tx: tx.audit_cut(5, 2)) for _ in range(3)]
        assert [(cut.entries, cut.number, cut.hash) for cut in cuts if cut] == [(2, 2, rows[1].hash), (1, 3, rows[2].hash)]
        assert cuts[2] is None
        assert await opened.audit("a") == rows[3:]
        after = await audited(opened, "a", entry(10))
        verify_chain(after)
        chain = (await opened.audit_chains())["a"]
        assert chain == AuditChain(number=6, hash=after[-1].hash, at=10, cut=3, cut_hash=rows[2].hash)
        assert len(await opened.audit("b")) == 1

    async def test_a_trail_that_was_cut_to_its_end_goes_on(self, opened: Store) -> None:
        (row,) = await audited(opened, "a", entry(1, n=1))
        await opened.transact("a", lambda tx: tx.audit_cut(5))
        assert await opened.audit("a") == []
        (after,) = await audited(opened, "a", entry(2))
        assert (after.number, after.previous) == (2, row.hash)

    async def test_chains_end_with_each_tenants_last_entry(self, opened: Store) -> None:
        assert await opened.audit_chains() == {}
        for tenant in ("a", "b", SYSTEM, "a"):
            rows = await audited(opened, tenant, entry(7))
            chain = (await opened.audit_chains())[tenant]
            assert chain == AuditChain(number=len(rows), hash=rows[-1].hash, at=7)
        assert set(await opened.audit_chains()) == {"a", "b", SYSTEM}

    async def test_entries_are_found_newest_first(self, opened: Store) -> None:
        other = AuditEntry(action="b", caller="person:omar", door="rest", object="o5", at=5)
        await audited(opened, "a", entry(1, "a", n=1), entry(2, "b"), other, entry(3, "b", n=3), entry(4, "b"))
        await audited(opened, "b", entry(1, "a"))

        async def found(limit: int = 200, **wanted: Json) -> list[int]:
            return [row.number for row in await opened.find_audit("a", AuditFilter(**wanted), limit)]  # type: ignore[arg-type]

        assert await found() == [5, 4, 3, 2, 1]
        assert await found(action="b", limit=2) == [5, 4]
        assert await found(action="b", before=4) == [3, 2]
        assert await found(caller="person:omar") == [3]
        assert await found(object="o1") == [1]
        assert await found(since=2, until=4) == [4, 2]
        assert await found(after=2, before=5, action="b", caller="person:anna") == [4]
        rows = await opened.audit("a")
        assert await opened.find_audit("a", AuditFilter()) == rows[::-1]

    async def test_scrubbing_ends_and_a_closed_store_says_so(self, store: Store) -> None:
        async with store.open(RECORDS):
            await put(store, "a", Thing(id="x"))
            await store.transact("a", lambda tx: tx.delete(Thing, "x"))
            await store.scrub()
        with pytest.raises(StoreUnavailable, match="not open"):
            await store.scrub()
