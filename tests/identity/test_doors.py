"""A real server: bad credentials are refused before a body is read, keys in URLs are refused, and nothing is logged of them."""

import asyncio
import contextlib
import sys
from pathlib import Path

import anyio
import pytest
from servers import Server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@contextlib.asynccontextmanager
async def served(folder: Path):
    """A server process, and its end."""
    server = Server(folder / "data")
    try:
        yield await server.start()
    finally:
        server.stop()


async def raw(server: Server, head: bytes) -> tuple[int, bytes]:
    """Send a request's head that announces a body, and no body; returns the status and the answer's text."""
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(head)
        with anyio.fail_after(10):
            answer = await reader.read(65_536)
        return int(answer.split(b" ", 2)[1]), answer
    finally:
        writer.close()


@pytest.mark.req("IDN-2")
async def test_a_bad_credential_is_refused_before_the_body_is_read(tmp_path):
    async with served(tmp_path) as server:
        good = server.tokens["ada"].encode()
        for credential in [
            b"",
            b"Authorization: Bearer \xff\xfe\r\n",
            b"Authorization: Bearer " + b"x" * 5000 + b"\r\n",
            b"Authorization: Bearer " + good + b"x\r\n",
            b"Authorization: Bearer " + good + b"\r\nAuthorization: Bearer " + good + b"\r\n",
            b"Authorization: Bearer " + good + b"\r\nX-API-Key: " + good + b"\r\n",
            b"Authorization: Bearer " + good + b"\r\nCookie: transom_session=tr_ses_" + b"A" * 43 + b"\r\n",
            b"Cookie: transom_session=tr_ses_" + b"A" * 43 + b"\r\n",
            b"Cookie: transom_session=\xff\r\n",
        ]:
            for path in (b"/v1/agents/echo/jobs", b"/v1/operations/CreateKey", b"/subjects/tokens"):
                head = (
                    b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n"
                )
                status, answer = await raw(server, head + credential + b"\r\n")
                assert status == 401, (credential[:60], path, answer)
                assert good not in answer
        head = b"POST /v1/agents/echo/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"x" * 1_000_000 + b"\r\n\r\n"
        status, _ = await raw(server, head)
        assert status in (400, 401, 431)
        async with server.client() as client:
            assert (await client.get("/healthz")).status_code == 200
            assert (await client.get("/v1/jobs")).json()["jobs"] == []
        assert good.decode() not in (tmp_path / "data" / "server.log").read_text()


@pytest.mark.req("FEED-3")
async def test_a_key_in_the_url_of_a_stream_is_refused_and_not_logged(tmp_path):
    async with served(tmp_path) as server, server.client() as client:
        job = (await client.post("/v1/agents/echo/jobs", json="x")).json()["id"]
        key = server.tokens["key"]
        client.headers.pop("Authorization")
        for name in ("api_key", "apikey", "token", "access_token", "key", "API-Key"):
            for path in (f"/v1/jobs/{job}/events", "/v1/jobs/nothing/events", "/v1/sessions", "/oauth/token"):
                method = "GET" if path.endswith("events") else "POST"
                answer = await client.request(method, path, params={name: key})
                assert (answer.status_code, "URL carries a key" in answer.text) == (400, True), (name, path)
                assert key not in answer.text
        answer = await client.get(f"/v1/jobs/{job}/events", params={"token": key}, headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code == 400, "a good header does not make it right"
        assert key not in (tmp_path / "data" / "server.log").read_text()


@pytest.mark.req("IDN-2")
async def test_what_one_process_revokes_another_refuses(tmp_path):
    """Two servers on one data folder: keys, people, apps and sessions end on both."""
    one, other = Server(tmp_path / "data"), Server(tmp_path / "data")
    try:
        await one.start()
        await other.start()

        async def did(operation: str, **fields: object) -> dict:
            async with one.client() as client:
                answer = await client.post(f"/v1/operations/{operation}", json=fields)
                assert answer.status_code == 200, answer.text
                return answer.json()

        async def refused(token: str, seconds: float = 5.0) -> None:
            """The other process refuses it, within moments."""
            async with other.client() as client:
                client.headers["Authorization"] = f"Bearer {token}"
                with anyio.fail_after(seconds):
                    while (await client.get("/v1/agents")).status_code != 401:
                        await anyio.sleep(0.002)

        async def accepted(token: str) -> None:
            async with other.client() as client:
                assert (await client.get("/v1/agents", headers={"Authorization": f"Bearer {token}"})).status_code == 200

        key = (await did("CreateKey", name="ci"))["token"]
        pat = (await did("CreatePersonToken", id="omar"))["token"]
        for token in (key, pat, one.tokens["anna"]):
            await accepted(token)  # and the other process knows it from now on
        await did("RevokeKey", name="ci")
        await refused(key)
        await did("DisablePerson", id="omar")
        await refused(pat)
        await did("DisablePerson", id="anna")
        await refused(one.tokens["anna"])
        # rights, tenants' settings and new tenants are known on the other as well
        await accepted(one.tokens["rita"])
        await did("UpdatePerson", id="rita", role="admin")
        async with other.client("rita") as client:
            with anyio.fail_after(5):
                while (await client.post("/v1/operations/ListKeys", json={})).status_code != 200:
                    await anyio.sleep(0.002)
            await did("UpdateTenant", name="default", retention_days=3)
            with anyio.fail_after(5):
                while (await client.post("/v1/operations/GetTenant", json={"name": "default"})).json()["retention_days"] != 3:
                    await anyio.sleep(0.002)
    finally:
        for server in (one, other):
            if server.process is not None:
                server.stop()


async def test_the_command_line_manages_keys_people_and_tenants(tmp_path):
    """The commands are made of the operations: here on a data folder, as its operator."""
    import subprocess

    def run(*arguments: str, text: str = "") -> str:
        command = [sys.executable, "-m", "transom", *arguments, "--data", str(tmp_path / "data")]
        done = subprocess.run(command, capture_output=True, text=True, input=text, cwd=tmp_path, timeout=60, check=False)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    (tmp_path / "transom.toml").write_text('data = "data"\n')

    def all_of_it() -> None:
        run("tenant", "create", "new-co")
        assert "new-co" in run("tenant", "list")
        run("tenant", "cors", "new-co", "--allow-origin", "https://app.example")
        assert "https://app.example" in run("tenant", "show", "new-co")
        run("person", "create", "kim", "--role", "operator", "--name", "Kim")
        run("team", "create", "desk")
        run("team", "add", "desk", "kim")
        run("person", "password", "kim", text="correct horse battery\n")
        assert "kim" in run("person", "list")
        assert "tr_key_" in run(
            "key", "create", "ci", "--role", "member", "--scope", "echo", "--expires", "30d", "--label", "CI"
        )
        assert "tr_key_" not in run("key", "list")
        run("key", "revoke", "ci")
        assert "tr_app_" in run("app", "register", "crm")
        assert "tr_pat_" in run("person", "token", "kim")
        run("person", "disable", "kim")

    await anyio.to_thread.run_sync(all_of_it)
