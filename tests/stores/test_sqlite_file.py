"""The SQLite store's file: its rights, its schema over time, and what may be wrong with it or its disk."""

import contextlib
import os
import shutil
import sqlite3
import stat
import subprocess
from pathlib import Path
from typing import Annotated, NewType

import anyio
import msgspec
import pytest

from transom_hookspecs import Caller, ErrorInfo, Index, Job, Record, StoreUnavailable, TransomError
from transom_sqlite import files
from transom_testing.store_contract import RECORDS
from transom_testing.store_kit import Thing, append, put, text

pytestmark = pytest.mark.anyio


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def refusal(store, records=RECORDS) -> TransomError:
    """The error that opening ends in: one sentence that names the path."""
    with pytest.raises(TransomError) as refused:
        async with store.open(records):
            pass
    assert store.data in refused.value.message
    assert "\n" not in refused.value.message
    return refused.value


@pytest.fixture(autouse=True)
def no_blocking_call():
    """These tests look at files themselves; the contract's run under the detector of blocking calls."""


async def test_nobody_else_may_read_the_folder_and_its_files(make, data):
    before = os.umask(0)
    try:
        async with make().open(RECORDS):
            assert (mode(data), mode(data / "workers")) == (0o700, 0o700)
            found = [path for path in data.rglob("*") if path.is_file()]
            assert {path.suffix for path in found} == {".db", ".db-wal", ".db-shm", ".lock"}
            assert {mode(path) for path in found} == {0o600}
    finally:
        os.umask(before)


async def test_closing_leaves_one_file_and_no_lock(make, data):
    store = make(path="sub folder/ü%.db")
    async with store.open(RECORDS):
        await put(store, "a", Thing(id="x"))
    assert [str(path.relative_to(data)) for path in data.rglob("*") if path.is_file()] == ["sub folder/ü%.db"]


async def test_deleted_content_is_overwritten(make, data):
    store = make()
    async with store.open(RECORDS):
        await put(store, "a", Thing(id="x", value="the secret word"))
        await store.transact("a", lambda tx: tx.delete(Thing, "x"))
    assert b"the secret word" not in (data / "transom.db").read_bytes()


async def test_a_job_is_read_with_its_nested_values_and_columns_that_any_tool_understands(make, data):
    store = make()
    job = Job(
        id="j",
        tree="j",
        agent="echo",
        definition="d",
        caller=Caller(kind="person", id="anna", tenant="a"),
        status="failed",
        created_at=5,
        digest="x",
        id_from="edge",
        token="t",
        error=ErrorInfo(code="internal", message="it's broken", details={"n": [1]}),
        tags=("é", "b"),
    )
    async with store.open(RECORDS):
        await put(store, "a", job)
        assert await store.get("a", Job, "j") == job
        with sqlite3.connect(data / "transom.db") as tool:
            row = tool.execute("SELECT tenant, id, top, created_at, caller ->> 'id', error ->> '$.details.n[0]', tags FROM job")
            assert row.fetchall() == [("a", "j", 1, 5, "anna", 1, '["é","b"]')]
        tool.close()


def thing(schema: int, *fields, indexes=()) -> Record:
    """A record `Note` as some version of a program has it."""
    kind = msgspec.defstruct("Note", [("id", str), *fields], frozen=True, kw_only=True)
    return Record(type=kind, key=("id",), indexes=indexes, schema=schema)


async def test_new_fields_become_columns_and_old_rows_read_their_defaults(make):
    old = thing(1, ("rank", int, 3))
    async with (store := make()).open([old]):
        await put(store, "a", old.type(id="x"), old.type(id="y", rank=1))
    new = thing(
        2,
        ("rank", int, 3),
        ("title", str, "it's"),
        ("live", bool, True),
        ("maybe", float | None, None),
        ("parts", dict[str, int], msgspec.field(default_factory=lambda: {"a": 1})),
        indexes=(Index("rank", ("rank", "title", "id")),),
    )
    async with (store := make()).open([new]):
        assert await store.get("a", new.type, "x") == new.type(id="x")
        await put(store, "a", new.type(id="z", rank=2, parts={}))
        assert [note.id for note in await store.select("a", new.type, "rank")] == ["y", "z", "x"]


async def test_an_index_declared_otherwise_is_made_again_and_one_left_out_is_dropped(make, data):
    def indexes() -> list[str]:
        with contextlib.closing(sqlite3.connect(data / "transom.db")) as tool:
            rows = tool.execute("SELECT sql FROM sqlite_master WHERE tbl_name = 'note' AND type = 'index' AND sql IS NOT NULL")
            return [sql.rpartition("(")[2] for (sql,) in rows]

    declared = [("rank", "id")], [("-rank", "id")], []
    found = []
    for fields in declared:
        async with make().open([thing(1, ("rank", int, 0), indexes=[Index("rank", names) for names in fields])]):
            pass
        found.append(indexes())
    assert found == [['tenant, "rank", "id")'], ['tenant, "rank" DESC, "id")'], []]


async def test_a_field_that_is_gone_does_not_matter(make):
    old, new = thing(1, ("rank", int), ("title", str, "")), thing(2, ("title", str, ""))
    async with (store := make()).open([old]):
        await put(store, "a", old.type(id="x", rank=1, title="t"))
    async with (store := make()).open([new]):
        await put(store, "a", new.type(id="y"))
        assert await store.get("a", new.type, "x") == new.type(id="x", title="t")


async def test_a_new_field_without_default_is_refused_and_changes_nothing(make, data):
    async with make().open([thing(1)]):
        pass
    with pytest.raises(TransomError, match="'Note': its new field 'rank' needs a default") as refused:
        async with make().open([thing(2, ("title", str, ""), ("rank", int))]):
            pass
    assert refused.value.code == "failed_precondition"
    with contextlib.closing(sqlite3.connect(data / "transom.db")) as tool:
        assert [row[1] for row in tool.execute("PRAGMA table_info(note)")] == ["tenant", "id"]
        assert tool.execute("SELECT version FROM schema WHERE record = 'note'").fetchone() == (1,)


Size = NewType("Size", int)


async def test_constrained_and_renamed_scalars_are_ordered_as_what_they_are(make):
    record = thing(1, ("size", Annotated[Size, msgspec.Meta(ge=0)] | None, None), indexes=(Index("size", ("size", "id")),))
    async with (store := make()).open([record]):
        await put(store, "a", *(record.type(id=str(size), size=size) for size in (100, None, 9, 20)))
        assert [note.size for note in await store.select("a", record.type, "size")] == [None, 9, 20, 100]


@pytest.mark.parametrize(
    "fields", [("tags", "id"), ("-mixed", "id"), ("nothing", "id")], ids=["nested", "of two types", "absent"]
)
async def test_an_index_of_what_has_no_order_is_refused(make, fields):
    record = thing(1, ("tags", list[str], []), ("mixed", int | str, 0), indexes=(Index("wrong", fields),))
    with pytest.raises(TransomError, match=rf"'Note': '{fields[0].lstrip('-')}' in a key or index must be"):
        async with make().open([record]):
            pass


async def test_data_of_a_newer_version_is_refused_with_the_remedy(make):
    async with make().open([thing(3)]):
        pass
    error = await refusal(make(), [thing(2)])
    assert error.code == "failed_precondition"
    assert "newer version (note: schema 3, known here 2); install that version again" in error.message


async def test_a_file_that_is_no_database_is_refused(make, data):
    data.mkdir()
    (data / "transom.db").write_bytes(b"these are not the bytes of a database" * 100)
    error = await refusal(make())
    assert error.code == "failed_precondition"
    assert "is damaged or no database" in error.message
    assert list((data / "workers").iterdir()) == []


async def test_a_damaged_file_is_refused(make, data):
    async with (store := make()).open(RECORDS):
        await put(store, "a", *(Thing(id=str(n), value="x" * 500) for n in range(500)))
    with (data / "transom.db").open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 4000)  # the schema's page, behind the header
    error = await refusal(make())
    assert (error.code, "is damaged" in error.message) == ("failed_precondition", True)


async def test_another_programs_database_is_left_alone(make, data):
    data.mkdir()
    with contextlib.closing(sqlite3.connect(data / "transom.db")) as other:
        other.execute("CREATE TABLE bookmarks (url)")
    assert "is another program's database" in (await refusal(make())).message
    with contextlib.closing(sqlite3.connect(data / "transom.db")) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]


@pytest.mark.parametrize("folder", ["/proc/transom", "/dev/null/transom"])
async def test_a_folder_that_cannot_be_written_is_refused(make, folder):
    error = await refusal(make(Path(folder)))
    assert (error.code, "choose a folder that this user may write to" in error.message) == ("failed_precondition", True)


MOUNTS = """\
rootfs / ext4 rw 0 0
server:/export /srv nfs4 rw 0 0
/dev/sdb1 /srv/local xfs rw 0 0
//server/share /mnt/the\\040share cifs rw 0 0
me@host: /home/me/there fuse.sshfs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [("/srv/data", "nfs4"), ("/srv", "nfs4"), ("/mnt/the share/data", "cifs"), ("/home/me/there/x", "fuse.sshfs")],
)
def test_a_network_file_system_is_refused(tmp_path, folder, kind):
    (tmp_path / "mounts").write_text(MOUNTS)
    with pytest.raises(
        TransomError, match=rf"{folder}.*network file system \({kind}\).*local disk, or the PostgreSQL"
    ) as refused:
        files.refuse_network(Path(folder), tmp_path / "mounts")
    assert refused.value.code == "failed_precondition"


@pytest.mark.parametrize("folder", ["/srv/local/data", "/srvdata", "/home/me"])
def test_a_local_file_system_is_not_refused(tmp_path, folder):
    (tmp_path / "mounts").write_text(MOUNTS)
    files.refuse_network(Path(folder), tmp_path / "mounts")
    files.refuse_network(Path(folder), tmp_path / "no such file")


async def test_a_program_that_holds_the_file_for_long_makes_it_unavailable_until_it_lets_go(make, data, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.2)
    store = make()
    async with store.open(RECORDS):
        with contextlib.closing(sqlite3.connect(data / "transom.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="another program has held the store"):
                await put(store, "a", Thing(id="x"))
            assert await store.get("a", Thing, "x") is None
            assert "another program" in (await refusal(make())).message
            other.execute("COMMIT")
        await put(store, "a", Thing(id="x"))


async def fill(store, tree: str, kilobytes: int = 64) -> int:
    """Append events until the disk is full; returns the last acknowledged seq."""
    seq = 0
    for _ in range(500):
        try:
            seq = await append(store, "a", tree, text("x" * 1024 * kilobytes))
        except StoreUnavailable:
            return seq
    raise AssertionError("the disk was never full")


async def test_beyond_the_largest_file_nothing_is_kept_and_all_is_well_again_after(make):
    store = make()
    async with store.open(RECORDS):
        await store.transact("a", lambda tx: tx._execute("PRAGMA max_page_count = 300").fetchone())
        acknowledged = await fill(store, "t")
        outcomes = []

        async def attempt(n: int, size: int) -> None:
            try:
                outcomes.append(await append(store, "a", f"u{n}", text("y" * size)))
            except StoreUnavailable as error:
                outcomes.append(error.code)

        async with anyio.create_task_group() as group:
            for n in range(10):
                group.start_soon(attempt, n, 200_000)
            group.start_soon(attempt, 10, 1)
        assert outcomes == ["unavailable"] * 10 + [1]  # the one that fits does not fall with those that do not
        assert acknowledged == await store.last("a", "t") == len(await store.read("a", "t", limit=1000))
        await store.transact("a", lambda tx: tx._execute("PRAGMA max_page_count = 1000000").fetchone())
        assert await append(store, "a", "t", text()) == acknowledged + 1


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of 3 MB, where one may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    if (
        not mount
        or subprocess.run([mount, "-t", "tmpfs", "-o", "size=8m", "none", folder], capture_output=True, check=False).returncode
    ):
        pytest.skip("no right to mount a file system here")
    yield folder
    subprocess.run(["umount", folder], check=True)


async def test_on_a_full_disk_nothing_is_kept_and_all_is_well_once_there_is_space(make, small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(4_000_000))
    store = make(small_disk / "data")
    async with store.open(RECORDS):
        acknowledged = await fill(store, "t", kilobytes=16)
        with pytest.raises(StoreUnavailable, match=r"disk"):
            await append(store, "a", "t", text("x" * 300_000))
        assert len(await store.read("a", "t", limit=1000)) == acknowledged
        ballast.unlink()
        assert await append(store, "a", "t", text("x" * 300_000)) == acknowledged + 1
    async with (store := make(small_disk / "data")).open(RECORDS):
        assert [entry.seq for entry in await store.read("a", "t", limit=1000)] == list(range(1, acknowledged + 2))


@pytest.mark.parametrize(("busy", "largest"), [(False, 0), (True, 5_000_000)], ids=["when idle", "under load"])
async def test_a_wal_that_a_reader_kept_large_is_short_again_soon_after(make, data, busy, largest):
    wal = data / "transom.db-wal"
    store = make()
    async with store.open(RECORDS):
        with contextlib.closing(sqlite3.connect(data / "transom.db", isolation_level=None)) as other:
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM event").fetchone()
            for _ in range(20):
                await append(store, "a", "t", text("x" * 500_000))
            other.execute("COMMIT")
        assert wal.stat().st_size > 8_000_000
        with anyio.fail_after(10):
            while wal.stat().st_size > largest:
                if busy:
                    await append(store, "a", "busy", text())
                await anyio.sleep(0.01)
        assert await append(store, "a", "t", text()) == 21
