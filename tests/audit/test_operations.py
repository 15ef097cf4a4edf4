"""The operations of the audit trail on a real file: what auditors read, and what they find when somebody changed it."""

import json
from typing import Any

import anyio
import msgspec
import pytest
from kernel_kit import OPERATOR, agents_plugin

from transom_audit.shapes import AuditPage, AuditVerified, ExportAudit, ListAudit, VerifyAudit
from transom_hookspecs import AuditEntry, Caller, DecideApproval, GetJob, Origin, StartJob, TransomError, Wait

pytestmark = pytest.mark.anyio
ANNA = Origin(tenant="default", caller=Caller(kind="person", id="anna", tenant="default"), door="rest")


async def greet(ctx: Any, input: Any) -> Any:
    return input


@pytest.fixture
def house(kernel):
    """A factory of kernels on the test's data folder."""
    return lambda **options: kernel(
        plugins=["sqlite", "local_engine", "audit", agents_plugin(greet), *options.pop("plugins", ())],
        jobs=False,
        config={"tenants": ["default", "acme"], "store": "sqlite"},
        **options,
    )


async def act(k: Any, *actions: str, tenant: str = "default", caller: str = "person:anna", **more: Any) -> None:
    """Add entries, one transaction each."""
    for action in actions:
        made = AuditEntry(action=action, caller=caller, door="rest", details={"n": action}, **more)
        await k.store.transact(tenant, lambda tx, made=made: tx.audit(made))


async def listed(k: Any, who: Origin = OPERATOR, **wanted: Any) -> AuditPage:
    return await k.call("ListAudit", ListAudit(**wanted), who)


async def verified(k: Any, who: Origin = OPERATOR) -> AuditVerified:
    return await k.call("VerifyAudit", VerifyAudit(), who)


async def fault(k: Any, who: Origin = OPERATOR) -> tuple[str, int]:
    """The kind and the place of what verification finds."""
    with pytest.raises(TransomError) as found:
        await verified(k, who)
    assert found.value.code == "data_loss"
    return found.value.details["kind"], found.value.details["number"]


async def kept(k: Any, tenant: str = "default") -> None:
    """Return once the head file has the trail's last entry."""
    with anyio.fail_after(10):
        while True:
            chains = await k.store.audit_chains()
            head = json.loads(await anyio.Path(k.data, "audit.head").read_text() if await exists(k) else "{}").get(tenant)
            if head == {"number": chains[tenant].number, "hash": chains[tenant].hash, "at": chains[tenant].at}:
                return
            await anyio.sleep(0.05)


async def exists(k: Any) -> bool:
    return await anyio.Path(k.data, "audit.head").exists()


# -- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.req("IDN-6")
async def test_an_entry_says_who_did_what_to_what_through_which_door_and_how_it_came_out(house):
    origin = Origin(tenant="default", caller=Caller(kind="operator", id="omar", via="app:desk"), door="rest")
    async with house() as k:
        await k.call("StartJob", StartJob(agent="greet", input="hi", id="j1"), origin)
        (view,) = (await listed(k)).entries
        assert (view.action, view.caller, view.via, view.door) == ("run.start", "operator:omar", "app:desk", "rest")
        assert (view.object, view.outcome, view.number) == ("j1", "ok", 1)
        assert view.details == {"agent": "greet", "taint": [], "parent": ""}
        assert view.at == (await k.call("GetJob", GetJob(id="j1"), OPERATOR)).started_at


async def test_entries_come_newest_first_in_pages(house):
    async with house() as k:
        await act(k, *(f"a{n}" for n in range(7)))
        first = await listed(k, limit=3)
        second = await listed(k, limit=3, cursor=first.cursor)
        third = await listed(k, limit=3, cursor=second.cursor)
        seen = [entry.action for page in (first, second, third) for entry in page.entries]
        assert seen == ["a6", "a5", "a4", "a3", "a2", "a1", "a0"]
        assert third.cursor == ""


async def test_entries_are_found_by_what_they_say(house):
    async with house() as k:
        day = 86_400_000
        await act(k, "run.start", "run.cancel", object="j1", at=20_000 * day)
        await act(k, "run.start", caller="person:omar", object="j2", at=20_001 * day)

        async def numbers(**wanted: Any) -> list[int]:
            return [entry.number for entry in (await listed(k, **wanted)).entries if entry.action != "audit.read"]

        assert await numbers() == [3, 2, 1]
        assert await numbers(action="run.start") == [3, 1]
        assert await numbers(action="run.start", caller="person:anna") == [1]
        assert await numbers(object="j1") == [2, 1]
        assert await numbers(since="2024-10-05") == [3]
        assert await numbers(until="2024-10-05T02:00:00+02:00") == [2, 1]
        assert await numbers(caller="person:nobody") == []


@pytest.mark.parametrize(
    ("wanted", "named"),
    [({"limit": 0}, "limit"), ({"limit": 201}, "limit"), ({"since": "yesterday"}, "since"), ({"cursor": "-1"}, "cursor")],
)
async def test_what_makes_no_sense_is_refused_by_name(house, wanted, named):
    async with house() as k:
        with pytest.raises(TransomError) as refused:
            await listed(k, **wanted)
        assert (refused.value.code, refused.value.message.partition(":")[0]) == ("invalid_argument", named)


@pytest.mark.req("IDN-9")
async def test_each_reading_is_one_entry_that_says_what_was_looked_for(house):
    async with house() as k:
        await act(k, "run.start")
        await listed(k, action="run.start", caller="person:anna")
        await k.call("ExportAudit", ExportAudit(), OPERATOR)
        await verified(k)
        entries = [row.entry for row in await k.store.audit("default")][1:]
        assert [(e.action, e.caller, e.outcome) for e in entries] == [
            ("audit.read", "operator:local", "ok"),
            ("audit.export", "operator:local", "ok"),
            ("audit.verify", "operator:local", "ok"),
        ]
        assert entries[0].details == {"action": "run.start", "caller": "person:anna"}


@pytest.mark.req("IDN-9")
@pytest.mark.parametrize("request_", [ListAudit(), ExportAudit(), VerifyAudit()], ids=lambda r: type(r).__name__)
async def test_who_may_not_read_the_trail_is_refused_and_that_is_audited(house, request_):
    async with house() as k:
        await act(k, "run.start")
        with pytest.raises(TransomError) as refused:
            await k.call(type(request_).__name__, request_, ANNA)
        assert refused.value.code == "permission_denied"
        assert "run.start" not in refused.value.message
        entry = (await k.store.audit("default"))[-1].entry
        assert (entry.caller, entry.outcome, entry.action[:6]) == ("person:anna", "refused", "audit.")


async def test_a_tenants_trail_is_its_own(house):
    acme = msgspec.structs.replace(OPERATOR, tenant="acme")
    async with house() as k:
        await act(k, "secret.read", tenant="acme")
        assert (await listed(k)).entries == ()
        assert [entry.action for entry in (await listed(k, acme)).entries] == ["secret.read"]
        assert (await verified(k, acme)).entries == 2


async def test_a_filter_that_wants_next_to_nothing_looks_through_the_whole_trail(house, monkeypatch):
    monkeypatch.setattr("transom_audit.reading.WINDOW", 2)
    async with house() as k:
        await act(k, "wanted", *["other"] * 30)
        assert [entry.number for entry in (await listed(k, action="wanted")).entries] == [1]


async def test_a_page_ends_after_so_many_entries_and_goes_on_where_it_ended(house, monkeypatch):
    monkeypatch.setattr("transom_audit.reading.WINDOW", 2)
    monkeypatch.setattr("transom_audit.reading.WINDOWS", 3)
    async with house() as k:
        await act(k, "wanted", *["other"] * 8)
        pages = [await listed(k, action="wanted")]
        while pages[-1].cursor:
            pages.append(await listed(k, action="wanted", cursor=pages[-1].cursor))
        assert [len(page.entries) for page in pages] == [0, 1]


async def test_purged_details_are_told_apart_from_none(house):
    async with house() as k:
        await act(k, "with", at=5)
        await k.store.transact("default", lambda tx: tx.audit(AuditEntry(action="without", caller="c", door="d", at=5)))
        await k.store.transact("default", lambda tx: tx.audit_purge(9))
        assert [(entry.action, entry.details) for entry in (await listed(k)).entries] == [("without", {}), ("with", None)]


# -- verifying --------------------------------------------------------------------------------------------------------


@pytest.mark.req("IDN-6")
async def test_a_whole_trail_is_verified_and_says_where_it_ends(house):
    async with house() as k:
        await act(k, "a", "b", "c")
        await kept(k)
        found = await verified(k)
        row = (await k.store.audit("default"))[2]
        expected = AuditVerified(entries=3, cut=0, number=3, hash=row.hash, at=row.entry.at, head_file=True)
        assert found == expected


async def test_an_empty_trail_is_whole(house):
    async with house() as k:
        assert (await verified(k)).entries == 0


EDITS = [
    ("UPDATE audit SET at = at + 1 WHERE number = 2", ("changed", 2)),
    ("UPDATE audit SET action = 'run.stop' WHERE number = 2", ("changed", 2)),
    ("UPDATE audit SET caller = 'person:omar' WHERE number = 2", ("changed", 2)),
    ("UPDATE audit SET door = 'cli' WHERE number = 2", ("changed", 2)),
    ("UPDATE audit SET object = 'k' WHERE number = 2", ("changed", 2)),
    ("UPDATE audit SET outcome = 'refused' WHERE number = 2", ("changed", 2)),
    ("UPDATE audit SET via = 'app:desk' WHERE number = 2", ("changed", 2)),
    ("UPDATE audit SET digest = '' WHERE number = 2", ("changed", 2)),
    ("UPDATE audit SET hash = replace(hash, substr(hash, 1, 1), 'g') WHERE number = 2", ("changed", 2)),
    ("UPDATE audit SET previous = hash WHERE number = 2", ("missing", 2)),
    ("UPDATE audit SET rule = 1 WHERE number = 2", ("changed", 2)),
    ("UPDATE audit SET tenant = 'acme' WHERE number = 2", ("missing", 3)),
    ("UPDATE audit SET number = 9 WHERE number = 2", ("missing", 3)),
    ("UPDATE audit SET object = CAST(x'ff' AS TEXT) WHERE number = 2", ("changed", 2)),
    ("UPDATE audit SET at = 'noon' WHERE number = 2", ("changed", 2)),
    ('UPDATE audit_details SET details = \'{"n":"x"}\' WHERE number = 2', ("details", 2)),
    ("UPDATE audit_details SET details = 'nonsense' WHERE number = 2", ("details", 2)),
    ("UPDATE audit_details SET salt = 'nonsense' WHERE number = 2", ("details", 2)),
    ("INSERT INTO audit_details VALUES ('default', 4, '00', '{}')", ("details", 4)),
    ("UPDATE audit_chain SET hash = 'x'", ("head", 4)),
    ("UPDATE audit_chain SET at = 7", ("head", 4)),
    ("DELETE FROM audit_chain", ("head", 4)),
    ("DELETE FROM audit WHERE number = 1", ("missing", 2)),
    ("DELETE FROM audit WHERE number = 2", ("missing", 3)),
    ("DELETE FROM audit WHERE number > 2", ("cut_tail", 2)),
    ("DELETE FROM audit", ("cut_tail", 0)),
]


@pytest.mark.req("IDN-6")
@pytest.mark.parametrize(("statement", "expected"), EDITS, ids=[each[0] for each in EDITS])
async def test_what_was_changed_by_hand_is_found_while_the_server_runs(house, edit, statement, expected):
    """Each column of an entry in turn, its details, the head, and entries that were taken out."""
    async with house() as k:
        await act(k, "a", "b", "c", object="j")
        await k.store.transact("default", lambda tx: tx.audit(AuditEntry(action="bare", caller="c", door="d")))
        await anyio.to_thread.run_sync(edit, statement)
        assert await fault(k) == expected
        if "SET at = 7" not in statement:  # the entry of this very attempt has put that right
            assert await fault(k), "and again, although the attempt was an entry"
        await listed(k)


async def test_two_entries_that_changed_places_are_found(house, edit):
    async with house() as k:
        await act(k, "a", "b", "c")
        for old, new in ((2, -1), (3, 2), (-1, 3)):
            await anyio.to_thread.run_sync(edit, "UPDATE audit SET number = ? WHERE number = ?", new, old)
        assert await fault(k) == ("missing", 2)


@pytest.mark.req("IDN-6")
async def test_a_cut_tail_is_found_by_the_head_file_when_the_store_was_made_to_fit(house, edit):
    """Rows, their details and the chain's head trimmed alike, while nothing runs; the trail goes on, and it is still found."""
    async with house() as k:
        await act(k, "a", "b", "c", "d")
        await kept(k)
        row = (await k.store.audit("default"))[1]
    for statement in ("DELETE FROM audit WHERE number > 2", "DELETE FROM audit_details WHERE number > 2"):
        await anyio.to_thread.run_sync(edit, statement)
    head = "UPDATE audit_chain SET number = 2, hash = ?, at = ?"
    await anyio.to_thread.run_sync(edit, head, row.hash, row.entry.at)
    async with house() as k:
        assert await fault(k) == ("head_file", 2)
        await act(k, "e", "f", "g")
        assert (await fault(k))[0] == "head_file"
        with anyio.fail_after(10):
            while not any("audit.head" in problem for problem in k.health().problems):
                await anyio.sleep(0.05)
        assert (await fault(k))[0] == "head_file", "and the file was not made to fit by the process itself"


async def test_purged_details_are_no_fault(house, edit):
    async with house() as k:
        await act(k, "a", "b", "c")
        await anyio.to_thread.run_sync(edit, "DELETE FROM audit_details WHERE number = 2")
        assert (await verified(k)).entries == 3


async def test_a_fault_is_audited_with_what_was_found(house, edit):
    async with house() as k:
        await act(k, "a", "b", "c")
        await anyio.to_thread.run_sync(edit, "DELETE FROM audit WHERE number = 2")
        await fault(k)
        entry = (await k.store.audit("default"))[-1].entry
        assert (entry.action, entry.outcome, entry.object) == ("audit.verify", "missing", "3")


async def test_a_trail_is_verified_while_it_grows_and_is_cut(house):
    async with house() as k:
        await act(k, *["a"] * 40, at=5)
        async with anyio.create_task_group() as tasks:

            async def grow() -> None:
                for _ in range(40):
                    await act(k, "more")

            async def cut() -> None:
                for _ in range(8):
                    await k.store.transact(
                        "default", lambda tx: tx.audit((tx.audit_cut(9, 5) or pytest.fail("no cut")).entry("system:x", "d"))
                    )

            tasks.start_soon(grow)
            tasks.start_soon(cut)
            for _ in range(20):
                await verified(k)
        assert (await verified(k)).cut == 40


# -- exporting --------------------------------------------------------------------------------------------------------


async def exported(k: Any, limit: int = 3) -> list[dict[str, Any]]:
    """The whole trail as a third party has it."""
    lines: list[str] = []
    cursor = ""
    while True:
        page = await k.call("ExportAudit", ExportAudit(limit=limit, cursor=cursor), OPERATOR)
        lines += page.lines
        if not (cursor := page.cursor):
            return [json.loads(line) for line in lines]


async def test_an_export_has_every_entry_once_with_its_hashes(house):
    async with house() as k:
        await act(k, "a", "b", "c", "d", at=5)
        await act(k, "e", at=15)
        await k.store.transact("default", lambda tx: tx.audit_purge(9))
        rows = await exported(k)
        trail = await k.store.audit("default")
        assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
        assert [(row["hash"], row["previous"]) for row in rows] == [(row.hash, row.previous) for row in trail[: len(rows)]]
        assert [row["details"] for row in rows[:5]] == ["", "", "", "", '{"n":"e"}']
        assert [bool(row["salt"]) for row in rows[:5]] == [False] * 4 + [True]
        assert all(row["digest"] for row in rows[:5])


# -- decisions --------------------------------------------------------------------------------------------------------


@pytest.mark.req("RT-31")
@pytest.mark.parametrize(("approved", "outcome"), [(True, "approved"), (False, "denied")])
async def test_a_decision_is_an_entry_of_whoever_made_it_that_says_what_it_was(house, approved, outcome):
    """The outcome is one of the facts, which stay when the details are purged."""

    async def asks(ctx: Any, input: Any) -> Any:
        return await ctx.ask("Go on?", choices=("yes", "no"))

    async with house(plugins=[agents_plugin(asks)]) as k:
        await k.call("StartJob", StartJob(agent="asks", input="", id="j1"), OPERATOR)
        with anyio.fail_after(10):
            while not (waits := await k.store.select("default", Wait, "job", {"job": "j1", "open": True})):
                await anyio.sleep(0.01)
        answer = {"answer": "yes"} if approved else {"approved": False}
        await k.call("DecideApproval", DecideApproval(wait=waits[0].id, **answer), OPERATOR)
        (view,) = (await listed(k, action="approval.decide")).entries
        assert (view.caller, view.door, view.object) == ("operator:local", "test", "j1")
        assert view.outcome == ("answered" if approved else outcome)
        assert view.details is not None
        assert view.details["wait"] == waits[0].id
