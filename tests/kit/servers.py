"""Real server processes, for tests that kill them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx

from transom_testing.streaming import sse


class Server:
    """A `transom dev` process on a data folder; it can be killed and started again."""

    def __init__(self, data: Path, **environment: str) -> None:
        self.data = data
        self.environment = {**os.environ, "PYTHONWARNINGS": "ignore", **environment}
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.tokens: dict[str, str] = {}

    async def start(self, *arguments: str) -> "Server":
        """Start it, and wait until it listens."""
        self.data.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "transom", "dev", "--json", "--port", "0", "--data", str(self.data), *arguments]
        with (self.data / "server.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=self.environment)
        with anyio.fail_after(30):
            line = await anyio.to_thread.run_sync(self.process.stdout.readline)
        if not line:
            self.kill()
            raise RuntimeError((self.data / "server.log").read_text()[-4000:])
        said = json.loads(line)
        self.url, self.tokens = said["url"], said["tokens"]
        return self

    def kill(self) -> None:
        """kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=20)
        self.process.stdout.close()
        return code

    def client(self, who: str = "ada", timeout: float = 30.0) -> httpx.AsyncClient:
        """An HTTP client as one of the demo's people or keys."""
        return httpx.AsyncClient(
            base_url=self.url, headers={"Authorization": f"Bearer {self.tokens[who]}"}, timeout=timeout, trust_env=False
        )


async def follow(server: Server, job: str, seen: list[tuple[str, dict[str, Any]]], who: str = "ada") -> None:
    """Follow a job to its end, reconnecting as often as it takes; `seen` gets every event once if the server keeps its word."""
    while True:
        headers = {"Last-Event-ID": seen[-1][0]} if seen else {}
        try:
            async with server.client(who) as client, client.stream("GET", f"/v1/jobs/{job}/events", headers=headers) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    raise AssertionError(f"{answer.status_code}: {answer.text}")
                async for event in sse(answer):
                    data = json.loads(event.data)
                    seen.append((event.id, data))
                    if data["type"] == "job.ended" and data["job"] == job:
                        return
        except httpx.TransportError:
            pass
        await anyio.sleep(0.05)


async def ended(client: httpx.AsyncClient, job: str, seconds: float = 60.0) -> dict[str, Any]:
    """Poll a job until it has ended."""
    with anyio.fail_after(seconds):
        while True:
            answer = (await client.get(f"/v1/jobs/{job}")).json()
            if answer.get("closedAt"):
                return answer
            await anyio.sleep(0.05)


async def approvals(client: httpx.AsyncClient) -> AsyncIterator[dict[str, Any]]:
    """What waits for a person now."""
    for wait in (await client.get("/v1/approvals")).json()["approvals"]:
        yield wait
