"""A secret that is told wherever something can be told is found in no byte of the data folder, the log, answers or streams.

A real server process; the plugin of the folder `planter` knows the value and puts it into model texts, calls, results,
notes, questions, errors and logs. Only the row that has it encrypted holds it.
"""

import asyncio
import json
import os
import subprocess
import sys
from base64 import b64encode, urlsafe_b64encode
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import anyio
import httpx
import pytest
from servers import Server, ended

pytestmark = [pytest.mark.anyio, pytest.mark.req("IDN-7", "OUT-3")]

VALUE = 'tok9Zq2Lm4xW/"+B7\\xKfTä!'
HERE = Path(__file__).parent
ENDING = ("text", "calls", "cut", "model error", "model crash", "result", "fail", "refuse", "wrong", "unknown", "raise",
          "refuses", "log", "say", "note", "delegate", "branches")  # fmt: skip
"""What the planter does and ends; in other modes it waits for somebody."""


def writings(value: str) -> dict[str, bytes]:
    """What is looked for: the value as it is, and as others write it."""
    data = value.encode()
    found = {
        "as it is": value,
        "its beginning": value[:12],
        "JSON": json.dumps(value)[1:-1],
        "JSON, UTF-8": json.dumps(value, ensure_ascii=False)[1:-1],
        "repr": repr(value)[1:-1],
        "repr in JSON": json.dumps(repr(value))[2:-2],
        "percent": quote(value, safe=""),
        "percent, but /": quote(value),
        "form": quote_plus(value),
        "URL-safe base64": urlsafe_b64encode(data).decode(),
        "latin-1": value.encode("latin-1").decode("latin-1"),
    }
    found |= {f"base64 after {n}": b64encode(b"x" * n + data).decode()[(4 * n + 2) // 3 + 1 : -4] for n in range(3)}
    return {how: text.encode() for how, text in found.items()} | {"UTF-16": value.encode("utf-16-le")}


def seen_in(data: bytes) -> list[str]:
    return [how for how, text in writings(VALUE).items() if text in data]


@pytest.fixture
async def server(tmp_path: Path):
    """A development server with the planter."""
    site = tmp_path / "site"
    info = site / "planter-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: planter\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[transom]\nplanter = transom_planter:PlanterPlugin\n")
    (site / "transom_planter.py").write_text((HERE / "planter" / "transom_planter.py").read_text())
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    made = Server(tmp_path / "data", PYTHONPATH=path, PLANTED=VALUE)
    await made.start()
    yield made
    made.stop()


class Client:
    """Requests, whose answers are all kept."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.answers: list[tuple[str, bytes]] = []

    async def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        answer = await self._client.request(method, path, json=body, **more)
        self.answers.append((f"{method} {path} {body}"[:80], answer.content + str(answer.headers).encode()))
        return answer.json()

    async def operation(self, operation: str, /, **fields: Any) -> Any:
        return await self("POST", f"/v1/operations/{operation}", fields)

    async def stream(self, job: str) -> None:
        async with self._client.stream("GET", f"/v1/jobs/{job}/events") as answer:
            data = b""
            async for chunk in answer.aiter_raw():
                data += chunk
                if b'"job.ended"' in chunk or b'"tree.waiting"' in chunk:
                    break
        self.answers.append((f"stream of {job}", data))

    async def run(self, thread: str) -> None:
        """A run of an AG-UI client's, with the value in all that such a client sends."""
        message = {"id": "u1", "role": "user", "content": f"Say {VALUE}!"}
        body = {
            "threadId": thread,
            "runId": "r1",
            "messages": [message],
            "state": {VALUE: VALUE},
            "forwardedProps": {"k": VALUE},
        }
        answer = await self._client.post("/v1/agui/agents/echo", json=body)
        assert answer.status_code == 200, answer.text
        self.answers.append((f"run of {thread}", answer.content))

    async def look(self, job: str) -> None:
        """Everything that may be read of a job."""
        for what in ("", "/trace", "/wait", "/board"):
            await self("GET", f"/v1/jobs/{job}{what}")
        await self("GET", "/v1/approvals")


def set_by_command(server: Server) -> None:
    """As an admin does: the value comes from standard input, and the command says nothing of it."""
    command = [sys.executable, "-m", "transom", "secret", "set", "planted", "--host", "api.example.com", "--json"]
    environment = {**os.environ, "TRANSOM_URL": server.url, "TRANSOM_TOKEN": server.tokens["ada"], "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, input=VALUE, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert seen_in((done.stdout + done.stderr).encode()) == []


async def waiting(client: Client, job: str) -> dict[str, Any]:
    """A job's open wait."""
    with anyio.fail_after(30):
        while True:
            for wait in (await client("GET", "/v1/approvals"))["approvals"]:
                if wait["job"] == job:
                    return wait
            await anyio.sleep(0.05)


async def start(client: Client, mode: str) -> str:
    job = f"job-{mode.replace(' ', '-')}"
    given = {"mode": mode, "it": VALUE, VALUE: [VALUE]}
    answer = await client.operation(
        "StartJob", agent="planter", id=job, input=given, tags=[f"t {VALUE}"], team=VALUE, data_subjects=[VALUE]
    )
    assert answer["job"]["id"] == job, answer
    return job


async def tell_everywhere(client: Client, http: httpx.AsyncClient) -> list[str]:
    """Have it told in every way there is; returns the jobs."""
    jobs = []
    for mode in ENDING:
        jobs.append(job := await start(client, mode))
        await client.stream(job)
        await ended(http, job)
    jobs.append(job := await start(client, "ask"))
    wait = await waiting(client, job)
    await client.look(job)
    await client.operation("DecideApproval", wait=wait["id"], answer=VALUE, comment=VALUE)
    await client.operation("DecideApproval", wait=wait["id"], answer=VALUE, comment=VALUE)
    jobs.append(job := await start(client, "form"))
    wait = await waiting(client, job)
    await client.operation("DecideApproval", wait=wait["id"], answer={"x": f"not {VALUE}"})
    await client.operation("DecideApproval", wait=wait["id"], approved=False, comment=f"no {VALUE}")
    jobs.append(job := await start(client, "approve"))
    wait = await waiting(client, job)
    await client.operation("EditWait", wait=wait["id"], arguments={"text": f"new {VALUE}"})
    await client.operation("DecideApproval", wait=wait["id"], approved=True, comment=f"yes {VALUE}")
    jobs.append(job := await start(client, "event"))
    await client.operation("PublishEvent", source="planted", payload={"key": VALUE, "more": {VALUE: VALUE}})
    await client.stream(job)
    await client.operation("SetJobTags", id=job, add=[f"x {VALUE}"], remove=[VALUE])
    await client.run("thread")
    jobs.append(job := "cancelled")
    await client.operation("StartJob", agent="sleeper", id=job, input={"steps": 1, "seconds": 60})
    await client.operation("CancelJob", id=job, reason=f"as {VALUE} is known")
    return jobs


async def refused_in_words(client: Client) -> None:
    """Requests whose refusals quote what they were given."""
    await client("POST", "/v1/agents/planter/jobs", {"mode": VALUE})
    await client("POST", "/v1/agents/planter/jobs", VALUE)
    await client.operation("StartJob", agent=VALUE, input=VALUE)
    await client.operation("StartJob", agent="planter", input={"mode": "none"}, conversation=f"c {VALUE}")
    await client.operation("GetJob", id=f"no {VALUE}")
    await client.operation("DecideApproval", wait=VALUE, approved=True, comment=VALUE)
    await client.operation("SetSecret", name="planted", value=VALUE, host=[f"https://{VALUE}"])
    await client.operation("DeleteSecret", name=VALUE)
    await client.operation("ApproveSecretEnv", tool=VALUE, name=VALUE)


async def test_it_is_found_in_no_byte(server: Server) -> None:
    set_by_command(server)
    async with server.client("ada") as http:
        client = Client(http)
        jobs = await tell_everywhere(client, http)
        await refused_in_words(client)
        for job in jobs:
            await client.look(job)
        await client.operation("ListAudit")
        await client.operation("ListSecrets")
        shown = b"".join(data for _, data in client.answers)
        assert b"the prompt has it in clear" not in shown
        (said,) = [data for what, data in client.answers if what == "run of thread"]
        assert b"RUN_FINISHED" in said
        for mode in ("text", "calls", "cut"):
            (text,) = [data for what, data in client.answers if what == f"stream of job-{mode}"]
            assert b"It is [secret planted], [secret planted] or " in text
        assert shown.count(b"[secret planted]") > 200, "it was told, and masked"
        assert {what: seen_in(data) for what, data in client.answers if seen_in(data)} == {}
        folder = await asyncio.to_thread(in_folder, server.data)
        assert folder == {}
        server.kill()  # as nothing was given time to be tidied up
        folder = await asyncio.to_thread(in_folder, server.data)
        assert folder == {}
        log = (server.data / "server.log").read_text()
        assert "with an argument: [secret planted]" in log
        assert "Traceback" in log
    await server.start()


def in_folder(data: Path) -> dict[str, list[str]]:
    """Where in a data folder it is seen: the database with its log and index, the server's own log, keys, all of it."""
    files = [path for path in data.rglob("*") if path.is_file()]
    assert {"transom.db", "server.log", "secrets.key"} <= {path.name for path in files}
    found: dict[str, list[str]] = {}
    for path in files:
        with suppress(FileNotFoundError):  # some are written beside and renamed
            if seen := seen_in(path.read_bytes()):
                found[path.name] = seen
    return found
