"""`audit.head`: written whole, for nobody else's eyes, and never back to an older head."""

import json
import stat
import threading
from pathlib import Path

import anyio
import pytest
from kernel_kit import agents_plugin

from transom_audit.head import HeadFile
from transom_audit.walk import Head
from transom_hookspecs import AuditEntry, TransomError


def head(number: int) -> Head:
    return Head(number=number, hash=f"h{number}", at=number)


def test_a_head_is_written_beside_those_of_other_tenants(tmp_path):
    file = HeadFile(tmp_path)
    assert file.read() == {}
    file.write({"a": head(1)}, {})
    file.write({"b": head(4), "a": head(2)}, {"a": head(1)})
    assert file.read() == {"a": head(2), "b": head(4)}
    assert [path.name for path in tmp_path.iterdir()] == ["audit.head"]
    assert stat.S_IMODE((tmp_path / "audit.head").stat().st_mode) == 0o600


def test_an_older_head_does_not_replace_a_newer_one_of_another_process(tmp_path):
    """Both found the file at 3; one read the chain at 5, the other at 7."""
    ours, theirs = HeadFile(tmp_path), HeadFile(tmp_path)
    ours.write({"a": head(3)}, {})
    theirs.write({"a": head(7)}, {"a": head(3)})
    ours.write({"a": head(5)}, {"a": head(3)})
    assert ours.read() == {"a": head(7)}


def test_many_who_write_at_once_leave_the_newest(tmp_path):
    HeadFile(tmp_path).write({"a": head(0)}, {})

    def write(number: int) -> None:
        HeadFile(tmp_path).write({"a": head(number)}, {"a": head(0)})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(1, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written = HeadFile(tmp_path).read()["a"].number
    assert written == 19


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b'{"a": {"number": "x"}}', b"[" * 5000])
def test_a_damaged_file_is_told_and_stays(tmp_path, damage):
    (tmp_path / "audit.head").write_bytes(damage)
    with pytest.raises(TransomError) as refused:
        HeadFile(tmp_path).write({"a": head(1)}, {})
    assert (refused.value.code, "audit.head" in refused.value.message) == ("data_loss", True)
    assert (tmp_path / "audit.head").read_bytes() == damage


@pytest.mark.anyio
async def test_the_last_entry_before_the_end_is_in_it(kernel, tmp_path):
    """Whatever was written in the last second, too."""
    async with kernel(
        plugins=["sqlite", "local_engine", "audit", agents_plugin()], jobs=False, config={"store": "sqlite"}
    ) as k:
        for n in range(5):
            entry = AuditEntry(action="a", caller="c", door="d", details={"n": n})
            await k.store.transact("default", lambda tx, entry=entry: tx.audit(entry))
        row = (await k.store.audit("default"))[-1]
    there = json.loads(await anyio.Path(k.data, "audit.head").read_text())
    assert there == {"default": {"number": 5, "hash": row.hash, "at": row.entry.at}}
    assert not (Path(k.data) / "audit.new").exists()


@pytest.mark.anyio
async def test_a_kernel_without_a_store_starts_and_keeps_no_file(kernel, tmp_path):
    async with kernel(plugins=["audit"], jobs=False) as k:
        assert k.health().ok
    assert not (tmp_path / "data" / "audit.head").exists()
