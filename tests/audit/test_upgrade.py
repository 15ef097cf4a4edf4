"""A store that an older version wrote: its entries keep the rule by which they were hashed, and new ones follow on them."""

import hashlib
import json
import sqlite3
from contextlib import closing

import anyio
import pytest
from kernel_kit import OPERATOR

from transom_audit.shapes import ListAudit, VerifyAudit
from transom_hookspecs import KERNEL_RECORDS, AuditEntry, TransomError
from transom_sqlite import SqliteStore

pytestmark = pytest.mark.anyio

TABLES = """
CREATE TABLE schema (record TEXT PRIMARY KEY, version INTEGER NOT NULL, fields TEXT NOT NULL);
CREATE TABLE log (key INTEGER PRIMARY KEY, tenant TEXT NOT NULL, tree TEXT NOT NULL, seq INTEGER NOT NULL,
    UNIQUE (tenant, tree));
CREATE TABLE event (id INTEGER PRIMARY KEY, tree INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL,
    type TEXT NOT NULL, data TEXT NOT NULL, UNIQUE (tree, seq));
CREATE TABLE audit (number INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, at INTEGER NOT NULL, action TEXT NOT NULL,
    caller TEXT NOT NULL, door TEXT NOT NULL, object TEXT NOT NULL, outcome TEXT NOT NULL, via TEXT NOT NULL,
    details TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL);
CREATE INDEX audit_tenant ON audit (tenant, number);
CREATE TABLE change (id INTEGER PRIMARY KEY, worker TEXT NOT NULL, topic TEXT NOT NULL);
INSERT INTO schema VALUES ('(store)', 1, '');
"""
"""The store's own tables as version 1 made them."""


@pytest.fixture
def old(tmp_path) -> None:
    """A data folder of version 1 with entries 1, 3, 5 of `default` and 2, 4 of `acme`."""
    (tmp_path / "data").mkdir()
    with closing(sqlite3.connect(tmp_path / "data" / "transom.db")) as tool:
        tool.executescript(TABLES)
        heads = {"default": "", "acme": ""}
        for number, tenant in enumerate(("default", "acme", "default", "acme", "default"), 1):
            details = {"n": number, "a": "é"} if number != 3 else {}
            entry = {
                **dict.fromkeys(("object", "via"), ""), "action": "old", "at": number, "caller": "c", "door": "d",
                "details": details, "outcome": "ok",
            }  # fmt: skip
            text = json.dumps([heads[tenant], number, tenant, entry], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            hash = hashlib.sha256(text.encode()).hexdigest()
            stored = json.dumps(details, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            row = (number, tenant, number, "old", "c", "d", "", "ok", "", stored, heads[tenant], hash)
            tool.execute(f"INSERT INTO audit VALUES ({', '.join('?' * 12)})", row)
            heads[tenant] = hash
        tool.commit()


async def test_entries_of_the_older_version_verify_and_the_chain_goes_on(kernel, old):
    async with kernel(plugins=["sqlite", "local_engine", "audit"], jobs=False, config={"store": "sqlite"}) as k:
        await k.store.transact("default", lambda tx: tx.audit(AuditEntry(action="new", caller="c", door="d", details={"n": 6})))
        assert (await k.call("VerifyAudit", VerifyAudit(), OPERATOR)).entries == 4
        views = (await k.call("ListAudit", ListAudit(), OPERATOR)).entries[1:]
        assert [(view.number, view.details) for view in views] == [
            (6, {"n": 6}),
            (5, {"n": 5, "a": "é"}),
            (3, {}),
            (1, {"n": 1, "a": "é"}),
        ]
        assert [row.number for row in await k.store.audit("acme")] == [2, 4]


async def test_their_details_stay_until_they_are_cut(kernel, old):
    async with kernel(plugins=["sqlite", "local_engine", "audit"], jobs=False, config={"store": "sqlite"}) as k:
        assert await k.store.transact("default", lambda tx: tx.audit_purge(10)) == 0
        assert [row.purged for row in await k.store.audit("default")] == [False] * 3
        await k.store.transact("default", lambda tx: tx.audit((tx.audit_cut(4) or pytest.fail("no cut")).entry("c", "d")))
        found = await k.call("VerifyAudit", VerifyAudit(), OPERATOR)
        assert (found.entries, found.cut) == (2, 3)


async def test_a_change_of_theirs_is_found(kernel, old, edit):
    await anyio.to_thread.run_sync(edit, "UPDATE audit SET details = replace(details, '5', '6') WHERE number = 5")
    async with kernel(plugins=["sqlite", "local_engine", "audit"], jobs=False, config={"store": "sqlite"}) as k:
        with pytest.raises(TransomError) as found:
            await k.call("VerifyAudit", VerifyAudit(), OPERATOR)
        assert found.value.details["number"] == 5


async def test_an_upgrade_is_made_once_and_leaves_no_old_table(old, tmp_path):
    for _ in range(2):
        store = SqliteStore()
        store.data = str(tmp_path / "data")
        async with store.open(KERNEL_RECORDS):
            assert len(await store.audit("default")) == 3
    with closing(sqlite3.connect(tmp_path / "data" / "transom.db")) as tool:
        names = {name for (name,) in tool.execute("SELECT name FROM sqlite_master WHERE name LIKE 'audit%'")}
        assert names == {"audit", "audit_chain", "audit_details", "audit_cursor"}
