"""A store that cannot be used: one clear sentence and an exit code, nothing acknowledged that is not kept."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from transom_hookspecs import Context

pytestmark = pytest.mark.anyio


def transom(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TRANSOM_")}
    return subprocess.run(
        [sys.executable, "-m", "transom", *arguments],
        cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def filled(folder: Path) -> Path:
    """A data folder with a job in it; returns the database."""
    made = transom("run", "echo", "kept", "--id", "one", "--quiet", cwd=folder)
    assert made.returncode == 0, made.stderr
    return folder / "transom-data" / "transom.db"


def newer_version(database: Path) -> None:
    with contextlib.closing(sqlite3.connect(database)) as file:
        file.execute("UPDATE schema SET version = 999 WHERE record = 'job'")
        file.commit()


def broken_in_the_middle(database: Path) -> None:
    size = database.stat().st_size
    with database.open("r+b") as file:
        for at in range(4096, size, 4096):
            file.seek(at)
            file.write(os.urandom(4096))


FAULTS = {
    "no database": (lambda path: path.write_bytes(b"this is a text file, and a long one" * 200), ""),
    "cut short": (lambda path: path.write_bytes(path.read_bytes()[:5000]), ""),
    "damaged pages": (broken_in_the_middle, ""),
    "a newer version's": (newer_version, "newer"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), ""),
}


@pytest.mark.parametrize("command", [("run", "echo", "hi"), ("dev", "--port", "0"), ("job", "list")], ids=lambda c: c[0])
@pytest.mark.parametrize(("fault", "word"), FAULTS.values(), ids=FAULTS)
def test_data_that_cannot_be_used_is_one_clear_sentence_and_an_exit_code(tmp_path, fault, word, command) -> None:
    database = filled(tmp_path)
    fault(database)
    before = database.read_bytes() if database.is_file() else b""
    said = transom(*command, cwd=tmp_path)
    assert said.returncode > 0, (said.returncode, said.stdout, said.stderr)
    told = said.stderr + said.stdout
    assert "Traceback" not in told  # fails for `dev`: the web framework prints the whole of it
    assert "transom.db" in told or "transom-data" in told, told
    assert word in told
    assert len(said.stderr.strip().splitlines()) <= 3, said.stderr
    if before:
        assert database.read_bytes() == before, "what was there was changed"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_one_clear_sentence(tmp_path) -> None:
    (tmp_path / "transom-data").mkdir(mode=0o500)
    said = transom("run", "echo", "hi", cwd=tmp_path)
    assert said.returncode > 0
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize("command", [("run", "echo", "hi"), ("dev", "--port", "0")], ids=lambda c: c[0])
def test_a_file_where_the_data_folder_should_be_is_one_clear_sentence(tmp_path, command) -> None:
    (tmp_path / "transom-data").write_text("a file")
    said = transom(*command, cwd=tmp_path)
    assert said.returncode > 0
    assert "Traceback" not in said.stderr
    assert "transom-data" in said.stderr


def test_a_database_that_another_program_holds_is_one_clear_sentence(tmp_path) -> None:
    database = filled(tmp_path)
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        said = transom("run", "echo", "hi", cwd=tmp_path)
    assert said.returncode > 0
    assert "Traceback" not in said.stderr
    assert "another program" in said.stderr
    again = transom("run", "echo", "hi", "--quiet", cwd=tmp_path)
    assert (again.returncode, again.stdout.strip()) == (0, "hi")


def test_after_all_that_a_good_folder_still_has_its_jobs(tmp_path) -> None:
    filled(tmp_path)
    shown = transom("job", "get", "one", "--json", cwd=tmp_path)
    assert '"kept"' in shown.stdout


async def pages(home, most: int) -> None:
    """Let the database grow to this many pages at most: beyond, it is as on a full disk."""
    await home.kernel.store.transact("default", lambda tx: tx._execute(f"PRAGMA max_page_count = {most}").fetchone())


@pytest.mark.req("RT-36")
async def test_on_a_full_disk_starts_are_refused_whole_and_all_goes_on_once_there_is_space(house) -> None:
    async def lingers(ctx: Context, input):
        for _ in range(20):
            await ctx.sleep(0.05)
            await ctx.now()
        return "lingered"

    async with house(lingers, config={"local_engine": {"sweep": 0.2}}) as home:
        running = await home.started("lingers", id="running")
        await pages(home, 1)  # no more than it has
        accepted, refused = [], []
        for n in range(40):
            answer = await home.start("echo", "x" * 20_000, id=f"job {n}")
            (accepted if answer.status_code == 201 else refused).append((f"job {n}", answer))
        assert refused, "the disk was never full"
        for _, answer in refused:
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable"), answer.text
        for name, _ in refused:
            assert (await home.get(f"/v1/jobs/{name}")).status_code == 404
        assert set(await home.jobs()) == {running, *(name for name, _ in accepted)}
        assert (await home.get(f"/v1/jobs/{running}")).status_code == 200, "reading does not need space"
        await pages(home, 1_000_000)
        assert (await home.until(running))["output"] == "lingered"
        for name, _ in accepted:
            assert (await home.until(name))["status"] == "completed"
        again = await home.start("echo", "x" * 20_000, id=refused[0][0])
        assert again.status_code == 201
        assert (await home.until(refused[0][0]))["status"] == "completed"


async def test_a_decision_on_a_full_disk_is_refused_and_can_be_made_later(house) -> None:
    async with house(config={"local_engine": {"sweep": 0.2}}) as home:
        job = await home.started("helper")
        (wait,) = await home.waits()
        await home.until(job, "waiting")
        await pages(home, 1)
        said = None
        for n in range(40):
            said = await home.post(f"/v1/approvals/{wait['id']}/approve", "omar", json={"comment": "x" * 100_000})
            if said.status_code != 200:
                break
            assert n == 0
        assert (said.status_code, said.json()["code"]) in ((503, "unavailable"), (400, "invalid_argument"))
        assert len(await home.waits()) == 1
        await pages(home, 1_000_000)
        assert (await home.post(f"/v1/approvals/{wait['id']}/approve", "omar", json={})).status_code == 200
        assert (await home.until(job))["output"] == "I greeted the team."


async def test_a_database_that_is_locked_for_a_while_refuses_work_and_recovers(house, tmp_path, monkeypatch) -> None:
    from transom_sqlite import files

    monkeypatch.setattr(files, "PATIENCE", 0.3)
    async with house(config={"local_engine": {"sweep": 0.2}}, data=str(tmp_path / "d")) as home:
        done = await home.ran("echo", "a")
        other = await anyio.to_thread.run_sync(
            lambda: sqlite3.connect(tmp_path / "d" / "transom.db", isolation_level=None, check_same_thread=False)
        )
        await anyio.to_thread.run_sync(other.execute, "BEGIN IMMEDIATE")
        try:
            answer = await home.start("echo", "b", id="one")
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable"), answer.text
            assert (await home.job(done["id"])) == done
        finally:
            await anyio.to_thread.run_sync(other.execute, "COMMIT")
            await anyio.to_thread.run_sync(other.close)
        assert (await home.get("/v1/jobs/one")).status_code == 404
        assert (await home.ran("echo", "b", id="one"))["output"] == "b"


@pytest.mark.parametrize("fate", ["removed", "replaced"])
async def test_a_data_folder_that_is_gone_takes_no_more_work_and_health_says_so(house, tmp_path, monkeypatch, fate) -> None:
    from transom_sqlite import writer

    monkeypatch.setattr(writer, "LOOK", 0.0)
    async with house(data=str(tmp_path / "d")) as home:
        await home.ran("echo", "a")
        database = tmp_path / "d" / "transom.db"
        database.rename(tmp_path / "elsewhere.db")
        if fate == "replaced":
            database.touch()
        answer = await home.start("echo", "b")
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable"), answer.text
        assert "removed or replaced" in answer.json()["message"]
        assert (await home.get("/healthz")).status_code == 503
