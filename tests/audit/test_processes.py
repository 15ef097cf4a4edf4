"""The audit trail of real processes: the command line's exit code, two servers on one folder, and a kill."""

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from servers import Server

pytestmark = pytest.mark.anyio


def transom(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command on a data folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRANSOM_", "OZ0_"))}
    command = [sys.executable, "-m", "transom", *words, "--data", str(data)]
    return subprocess.run(command, env=kept, cwd=data.parent, capture_output=True, text=True, check=False, timeout=60)


async def act(server: Server, *jobs: str) -> None:
    """Start jobs at a server: an entry each."""
    async with server.client() as client:
        for job in jobs:
            answer = await client.post("/v1/agents/echo/jobs", params={"id": job}, json="hello")
            assert answer.status_code == 201, answer.text


@pytest.fixture
def make(tmp_path):
    """A factory of servers on one data folder."""
    servers: list[Server] = []

    def make() -> Server:
        servers.append(Server(tmp_path / "data"))
        return servers[-1]

    yield make
    for server in servers:
        if server.process is not None:
            server.stop()


@pytest.mark.req("IDN-6")
async def test_two_servers_on_one_folder_make_one_chain_and_one_head(make, tmp_path):
    first, second = await make().start(), await make().start()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(act, first, *(f"a{n}" for n in range(25)))
        tasks.start_soon(act, second, *(f"b{n}" for n in range(25)))
    async with second.client() as client:
        answer = await client.post("/v1/operations/VerifyAudit", json={})
        assert (answer.status_code, answer.json()["entries"]) == (200, 50), answer.text
    assert [await anyio.to_thread.run_sync(server.stop) for server in (first, second)] == [0, 0]
    with closing(sqlite3.connect(tmp_path / "data" / "transom.db")) as tool:
        number, hash = tool.execute("SELECT number, hash FROM audit WHERE tenant = 'default' ORDER BY number DESC").fetchone()
    head = json.loads((tmp_path / "data" / "audit.head").read_text())["default"]
    assert (head["number"], head["hash"]) == (number, hash)
    assert transom(tmp_path / "data", "audit", "verify").returncode == 0


@pytest.mark.req("IDN-6")
async def test_the_command_ends_with_an_error_when_the_trail_is_not_whole(make, tmp_path):
    data = tmp_path / "data"
    server = await make().start()
    await act(server, "a", "b", "c")
    await anyio.to_thread.run_sync(server.stop)
    assert transom(data, "audit", "verify").returncode == 0
    listed = json.loads(transom(data, "audit", "list", "--action", "run.start", "--json").stdout)["entries"]
    assert [entry["object"] for entry in listed] == ["c", "b", "a"]
    with closing(sqlite3.connect(data / "transom.db")) as tool, tool:
        tool.execute("UPDATE audit SET caller = 'person:omar' WHERE object = 'b'")
    result = transom(data, "audit", "verify")
    assert result.returncode not in (0, 2)
    assert "entry 2" in result.stderr


async def test_a_killed_server_leaves_a_chain_that_is_whole(make, tmp_path):
    """The head file may be a second behind; it is never ahead, and the next process brings it up to date."""
    server = await make().start()
    await act(server, *(f"a{n}" for n in range(20)))
    server.kill()
    server.process = None
    result = transom(tmp_path / "data", "audit", "verify", "--json")
    assert (result.returncode, json.loads(result.stdout)["entries"]) == (0, 20), result.stderr


async def test_auditors_read_it_over_http_and_others_do_not(make):
    server = await make().start()
    await act(server, "a")
    async with server.client("ada") as client:
        answer = await client.post("/v1/operations/ListAudit", json={"object": "a"})
        assert answer.status_code == 200, answer.text
        assert [entry["action"] for entry in answer.json()["entries"]] == ["run.start"]
    async with server.client("rita") as client:
        assert (await client.post("/v1/operations/ListAudit", json={})).status_code == 403
