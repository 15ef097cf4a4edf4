"""A kernel with the demo's agents behind the real route, and people who ask it as a stock client does."""

import fcntl
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from agui_kit import Client

from transom_hookspecs import DevTokens

PLUGINS = ["agents", "agui", "board", "demo", "flows", "identity", "policy", "rest", "scripted"]


class Page:
    """A page with a client of one thread: it sends its whole history each time, as the stock client does.

    Parameters:
        http: the server.
        token: whose page it is.
    """

    def __init__(
        self, http: httpx.AsyncClient, token: str, thread: str = "t1", agent: str = "echo", protocol: str | None = "1.0"
    ):
        self.http, self.thread, self.agent, self.protocol = http, thread, agent, protocol
        self.headers = {"Authorization": f"Bearer {token}"}
        self.client = Client()
        self.runs = self.said = 0

    def body(self, run: str | None = None, **changes) -> dict:
        """A RunAgentInput as the stock client sends it."""
        self.runs += run is None
        made = {
            "threadId": self.thread,
            "runId": run or f"{id(self)}-run-{self.runs}",
            "state": self.client.state,
            "messages": self.client.messages,
            "tools": [],
            "context": [],
            "forwardedProps": {},
        }
        if self.protocol:
            made["protocolVersion"] = self.protocol
        return {**made, **changes}

    async def post(self, body: dict | bytes, **headers: str) -> httpx.Response:
        """Send a body, and read the whole answer."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", "Accept": "text/event-stream", **self.headers, **headers}
        return await self.http.post(f"/v1/agui/agents/{self.agent}", content=content, headers=sent)

    async def run(self, body: dict | None = None, **changes) -> Client:
        """Send a run, and take its stream."""
        answer = await self.post(body or self.body(**changes))
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "text/event-stream"
        self.client.events.clear()
        return self.client.take(answer.content)

    async def say(self, text: str, **changes) -> Client:
        """Send a new message."""
        self.said += 1
        self.client.messages.append({"id": f"{id(self)}-m{self.said}", "role": "user", "content": text})
        return await self.run(**changes)

    async def resume(self, *payloads: object, **changes) -> Client:
        """Answer every interrupt in order: a payload resolves, None cancels."""
        entries = [
            {"interruptId": each["id"], "status": "cancelled"}
            if payload is None
            else {"interruptId": each["id"], "status": "resolved", "payload": payload}
            for each, payload in zip(self.client.interrupts, payloads, strict=True)
        ]
        return await self.run(**{"resume": entries, **changes})


@pytest.fixture(params=["asyncio"])
def anyio_backend(request) -> str:
    return request.param


@pytest.fixture
def server(kernel, door_client):
    """A running kernel and pages on it: `async with server() as s: page = s.page("anna", agent="helper")`."""

    @asynccontextmanager
    async def serve(**options) -> AsyncIterator["Served"]:
        plugins = [*PLUGINS, *options.pop("plugins", [])]
        config = {"dev": True, **options.pop("config", {})}
        async with kernel(plugins=plugins, config=config, **options) as core, door_client(core) as http:
            yield Served(core, http)

    return serve


class Served:
    """A running kernel behind the door."""

    def __init__(self, core, http):
        self.core, self.http = core, http
        self.tokens = core.service(DevTokens).tokens()

    def page(self, who: str = "anna", **options) -> Page:
        """A page of somebody's."""
        return Page(self.http, self.tokens[who], **options)

    async def rest(self, who: str, method: str, path: str, **options) -> httpx.Response:
        """A call of the REST door."""
        return await self.http.request(method, path, headers={"Authorization": f"Bearer {self.tokens[who]}"}, **options)


@pytest.fixture(scope="session")
def node_folder(tmp_path_factory):
    """Folders for programs of Node: `node_folder("package@1.0.0", …)`. Packages are installed once on this machine."""

    def make(*packages: str) -> Path:
        made_of = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:12]
        kept = Path(tempfile.gettempdir()) / f"transom-tests-node-{made_of}-{os.getuid()}"
        kept.mkdir(exist_ok=True)
        with (kept / "lock").open("w") as lock:  # another process of the tests may want them as well
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (kept / "ready").exists():
                (kept / "package.json").write_text('{"private": true, "type": "module"}')
                command = ["npm", "install", "--silent", "--no-audit", "--no-fund", *packages]
                subprocess.run(command, cwd=kept, check=True, timeout=115)
                (kept / "ready").touch()
        folder = tmp_path_factory.mktemp("node")
        (folder / "node_modules").symlink_to(kept / "node_modules")
        (folder / "package.json").write_text('{"private": true, "type": "module"}')
        return folder

    return make
