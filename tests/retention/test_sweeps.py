"""Sweeps: texts that are thinned, the audit trail that stays whole, and who has it done."""

import re
from pathlib import Path

import anyio
import msgspec
import pytest
from job_kit import ended, hooks_plugin, open_waits, resting, start
from kernel_kit import OPERATOR
from retention_kit import WORD

from transom_audit.shapes import VerifyAudit
from transom_hookspecs import (
    KERNEL_RECORDS,
    NEVER,
    AuditEntry,
    Caller,
    DecideApproval,
    Job,
    Origin,
    Service,
    Step,
    Tenants,
    TenantSettings,
    Text,
    TextEnded,
    TransomError,
)
from transom_retention.thinning import Late
from transom_sqlite import SqliteStore
from transom_sqlite.tx import SqliteTx

pytestmark = pytest.mark.anyio


async def kinds(home, job: str, tenant: str = "default") -> list[str]:
    return [entry.event.__struct_config__.tag for entry in await home.kernel.store.read(tenant, job)]


# -- texts ------------------------------------------------------------------------------------------------------------


async def test_a_week_after_its_end_a_jobs_texts_stand_only_whole(house):
    """And all else of it is as it was: who reads the log from its start reads the same words."""
    async with house() as home:
        view = await home.ran("leaves_traces", "j1", input="x")
        before = await home.kernel.store.read("default", "j1")
        home.days(6.9)
        assert (await home.sweep()).deltas == 0
        home.days(0.2)
        deltas = sum(isinstance(entry.event, Text) for entry in before)
        assert ((await home.sweep()).deltas, deltas > 1) == (deltas, True)
        after = await home.kernel.store.read("default", "j1")
        assert after == [entry for entry in before if not isinstance(entry.event, Text)]
        assert any(isinstance(entry.event, TextEnded) and entry.event.text == "xylophone!" for entry in after)
        assert (await home.sweep()).deltas == 0
        assert (await ended(home.kernel, "j1")).output == view.output


async def test_a_tree_that_waited_for_a_week_is_thinned_a_week_after_its_end(house):
    """It is passed by while it waits, and not forgotten; one that never ends stays as it is."""

    async def says_and_asks(ctx, input):
        await ctx.say("said before the wait")
        return await ctx.ask("Well?", timeout=60 * 86_400)

    async with house(says_and_asks) as home:
        for job in ("j1", "j2"):
            await start(home.kernel, "says_and_asks", job, input="")
            await resting(home.kernel, job)
        for _ in range(10):
            home.days(1)
            assert (await home.sweep()).deltas == 0
        (wait,) = await open_waits(home.kernel, "j1")
        await home.kernel.call("DecideApproval", DecideApproval(wait=wait.id, answer="now"), OPERATOR)
        await ended(home.kernel, "j1")
        home.days(6)
        assert (await home.sweep()).deltas == 0
        home.days(1.1)
        deltas = (await kinds(home, "j1")).count("text")
        assert ((await home.sweep()).deltas, deltas > 0) == (deltas, True)
        assert ("text" in await kinds(home, "j1"), "text" in await kinds(home, "j2")) == (False, True)


async def test_the_texts_of_another_job_that_took_the_id_meanwhile_stay(house, monkeypatch):
    """Its tree was removed, and began anew, between the look at it and the transaction."""
    async with house() as home:
        await home.ran("echo", "j1", input="x")
        await home.kernel.store.transact("default", lambda tx: tx.put(Late(tree="j1")))
        before, get = await kinds(home, "j1"), home.kernel.store.get

        async def a_moment_ago(tenant, type, *key):
            return None if type is Job else await get(tenant, type, *key)

        monkeypatch.setattr(home.kernel.store, "get", a_moment_ago)
        assert (await home.sweep()).deltas == 0
        assert await kinds(home, "j1") == before


async def test_text_that_was_cut_stays_because_nothing_else_has_its_words(house):
    async with house() as home:
        await home.ran("echo", "j1", input="x")
        await home.kernel.store.transact("default", lambda tx: tx.append("j1", [Text(job="j1", message="m~1", delta="half")]))
        home.days(8)
        await home.sweep()
        assert (await kinds(home, "j1"))[-1] == "text"


async def test_trees_that_were_thinned_are_not_looked_at_again(house, monkeypatch):
    looked: list[str] = []
    thin = SqliteTx.thin

    def seen(tx, tree, limit):
        looked.append(tree)
        return thin(tx, tree, limit)

    monkeypatch.setattr(SqliteTx, "thin", seen)
    async with house() as home:
        for n in range(5):
            await home.ran("echo", f"j{n}", input="x")
        home.days(8)
        assert (await home.sweep()).deltas == len(looked) == 5
        await home.ran("echo", "new", input="x")
        home.days(8)
        assert (await home.sweep()).deltas == 1
        assert (await home.sweep()).deltas == 0
        assert looked[5:] == ["new"]


# -- the audit trail --------------------------------------------------------------------------------------------------


async def verified(home, who=OPERATOR):
    return await home.kernel.call("VerifyAudit", VerifyAudit(), who)


@pytest.mark.req("IDN-6")
async def test_the_audit_trail_loses_details_then_entries_and_is_whole_all_the_while(house):
    async with house() as home:
        for day in range(25):
            await home.ran("echo", f"j{day}", input="x")
            home.days(20)
            await home.sweep()
            await verified(home)
        rows = await home.kernel.store.audit("default", limit=1_000)
        now, day = home.clock.now(), 86_400_000
        assert now - 401 * day <= rows[0].entry.at <= now - 380 * day
        assert rows[0].number > 1
        starts = {row.entry.object: row for row in rows if row.entry.action == "run.start"}
        purged = {name: row.purged for name, row in starts.items()}
        assert all(purged[name] == (now - starts[name].entry.at > 90 * day) for name in purged)
        assert set(purged.values()) == {True, False}
        assert (await verified(home)).cut == rows[0].number - 1
        by = {(row.entry.action, row.entry.caller) for row in rows}
        assert ("audit.cut", "system:retention") in by


async def test_a_cut_is_made_of_whole_days_so_that_there_is_one_a_day(house):
    async with house() as home:
        for _ in range(72):
            entry = AuditEntry(action="a", caller="c", door="d")
            await home.kernel.store.transact("default", lambda tx, entry=entry: tx.audit(entry))
            home.clock.forward(3600)
        home.days(398)
        cuts = []
        for _ in range(72):
            home.clock.forward(3600)
            cuts.append((await home.sweep()).entries)
        assert sum(cuts) >= 48
        assert sum(count > 0 for count in cuts) <= 4


# -- who has it done --------------------------------------------------------------------------------------------------


async def test_whoever_asks_for_it_is_told_and_audited_with_the_counts(house):
    async with house() as home:
        await home.ran("leaves_traces", "j1", input="x")
        home.days(91)
        done = await home.sweep()
        assert (done.trees, done.jobs, done.details > 0) == (1, 2, True)
        entry = (await home.kernel.store.audit("default"))[-1].entry
        assert (entry.action, entry.caller, entry.outcome) == ("retention.purge", "operator:local", "ok")
        assert entry.details == done.counts
        assert dict((await home.sweep()).counts) == {}


async def test_who_may_not_is_refused(house):
    anna = Origin(tenant="default", caller=Caller(kind="person", id="anna", tenant="default"), door="test")
    async with house() as home:
        await home.ran("echo", "j1", input="x")
        home.days(91)
        with pytest.raises(TransomError) as refused:
            await home.sweep(anna)
        assert refused.value.code == "permission_denied"
        assert not await home.gone("j1")


async def test_it_is_done_by_itself_in_every_tenant_and_audited_there(house):
    config = {"retention": {"delay": 0, "every": 0.05}}
    acme = msgspec.structs.replace(OPERATOR, tenant="acme")
    async with house() as home:
        await home.ran("echo", "j1", input="x")
        await start(home.kernel, "echo", "j1", who=acme, input="x")
        with anyio.fail_after(10):
            while not (await home.kernel.store.get("acme", Job, "j1")).ended:
                await anyio.sleep(0.01)
    home.days(91)
    async with house(config=config) as home:
        with anyio.fail_after(10):
            for tenant in ("default", "acme"):
                while (await home.kernel.store.audit(tenant))[-1].entry.action != "retention.purge":
                    await anyio.sleep(0.01)
        for tenant in ("default", "acme"):
            entry = (await home.kernel.store.audit(tenant))[-1].entry
            assert (entry.caller, entry.door) == ("system:retention", "runtime")
            assert entry.details["jobs"] == 1
            assert await home.kernel.store.get(tenant, Job, "j1") is None


async def test_a_sweep_by_itself_that_found_nothing_is_no_entry(house):
    async with house(config={"retention": {"delay": 0, "every": 0.01}}) as home:
        await home.ran("echo", "j1", input="x")
        await anyio.sleep(0.2)
        assert [row.entry.action for row in await home.kernel.store.audit("default")] == ["run.start"]


async def test_a_tenant_whose_sweep_fails_keeps_none_from_its_turn_and_is_told_in_health(house):
    class Broken:
        def names(self):
            return ()

        def settings(self, tenant):
            if tenant == "default":
                raise ArithmeticError("no settings")
            return TenantSettings(retention_days=1)

    services = hooks_plugin(register_services=lambda: [Service(protocol=Tenants, provider=Broken())])
    config = {"retention": {"delay": 0, "every": 0.05}, "tenants": ["default", "acme"]}
    acme = msgspec.structs.replace(OPERATOR, tenant="acme")
    async with house(plugins=[services], config=config) as home:
        await start(home.kernel, "echo", "j1", who=acme, input="x")
        with anyio.fail_after(10):
            while not (job := await home.kernel.store.get("acme", Job, "j1")) or not job.ended:
                await anyio.sleep(0.01)
            home.days(2)
            while await home.kernel.store.get("acme", Job, "j1") is not None:
                await anyio.sleep(0.01)
        assert any("retention of tenant 'default'" in problem for problem in home.kernel.health().problems)


# -- the files --------------------------------------------------------------------------------------------------------


async def test_words_that_were_removed_between_words_that_stay_are_in_no_byte_of_the_files(tmp_path):
    """Rows of all sizes in full and half empty pages, in tables that go on being used while the store is open."""
    store = SqliteStore()
    store.data = str(tmp_path)
    words = {(f"j{n % 17}", str(n)): f"w{n:05}w " for n in range(1_200)}
    gone = {key for n, key in enumerate(words) if n % 3}

    def write(tx, part: int) -> None:
        for n, (key, word) in enumerate(words.items()):
            if n // 100 != part:
                continue
            text = word * (1, 4, 40, 500, 1_500)[n % 5]
            tx.put(Step(job=key[0], key=key[1], kind="call", name="x", state="done", result=text))
            message = f"{key[0]}:{key[1]}"
            ends = [TextEnded(job=key[0], message=message, text="-")] if key in gone else []
            tx.append(key[0], [Text(job=key[0], message=message, delta=text), *ends])
            if key in gone:
                tx.audit(AuditEntry(action="a", caller="c", door="d", details={"word": word}))

    def remove(tx) -> None:
        for key in gone:
            tx.delete(Step, *key)
        for job in {key[0] for key in words}:
            while tx.thin(job, 7):
                pass
        tx.audit_purge(NEVER, 10_000)

    async with store.open(KERNEL_RECORDS):
        for part in range(12):
            await store.transact("a", lambda tx, part=part: write(tx, part))
        await store.transact("a", remove)
        await store.scrub()
        left = await anyio.to_thread.run_sync(found, tmp_path)
    assert left == {word.strip() for key, word in words.items() if key not in gone}


def found(folder: Path) -> set[str]:
    """The words in the database, its log and its shared memory."""
    data = b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())
    return {word.decode() for word in re.findall(rb"w\d{5}w", data)}


async def test_a_word_is_gone_while_another_process_reads_and_writes_the_file(house, tmp_path):
    """The store's files are emptied as soon as the other pauses."""
    async with house() as home:
        await home.ran("leaves_traces", "j1", input=WORD)
        home.days(91)
        other = SqliteStore()
        other.data = str(home.file.parent)
        async with other.open(KERNEL_RECORDS), anyio.create_task_group() as tasks:

            async def busy() -> None:
                while True:
                    await other.transact("acme", lambda tx: tx.append("t", [Text(job="t", message="m", delta="x")]))
                    await other.read("acme", "t")

            tasks.start_soon(busy)
            await home.sweep()
            tasks.cancel_scope.cancel()
        assert await home.bytes_with(WORD) == set()
