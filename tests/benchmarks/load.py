"""A light HTTP client over raw sockets, and what a process costs."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

TICK = os.sysconf("SC_CLK_TCK")


class Process:
    """A server process, and its CPU seconds and resident megabytes."""

    def __init__(self, command: list[str], **environment: str) -> None:
        self.began = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **environment})
        self.said: dict[str, Any] = json.loads(self.process.stdout.readline())
        self.ready = time.perf_counter() - self.began
        self.host, self.port = self.said["url"].removeprefix("http://").split(":")

    @property
    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    @property
    def resident(self) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)
        self.process.stdout.close()


def transom(data: Path, *arguments: str, **environment: str) -> Process:
    command = [sys.executable, "-m", "transom", "dev", "--json", "--port", "0", "--data", str(data), *arguments]
    return Process(command, **environment)


def floor(folder: Path) -> Process:
    return Process([sys.executable, str(Path(__file__).with_name("floor.py")), str(folder)])


class Connection:
    """One keep-alive connection."""

    def __init__(self, process: Process, token: str = "") -> None:
        self._process, self._token = process, token

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(self._process.host, int(self._process.port), limit=2**22)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.writer.close()

    def send(self, method: str, path: str, body: bytes = b"", kind: str = "text/plain", **headers: str) -> None:
        lines = [f"{method} {path} HTTP/1.1", "Host: bench", f"Authorization: Bearer {self._token}"]
        if method == "POST":
            lines += [f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def head(self) -> tuple[int, dict[bytes, bytes]]:
        head = await self.reader.readuntil(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), fields

    async def answer(self) -> tuple[int, bytes]:
        status, fields = await self.head()
        if b"content-length" in fields:
            return status, await self.reader.readexactly(int(fields[b"content-length"]))
        return status, b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> Any:
        while size := int(await self.reader.readline(), 16):
            yield await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)

    async def call(
        self, method: str, path: str, body: bytes = b"", kind: str = "text/plain", **headers: str
    ) -> tuple[int, bytes]:
        self.send(method, path, body, kind, **headers)
        return await self.answer()

    async def operation(self, name: str, request: dict[str, Any]) -> tuple[int, bytes]:
        return await self.call("POST", f"/v1/operations/{name}", json.dumps(request).encode(), "application/json")

    async def run(
        self, agent: str = "echo", body: bytes = b"one two three four five", kind: str = "text/plain"
    ) -> tuple[float, float]:
        """Start a job and follow it to its end; seconds to the first event and to the end."""
        began = time.perf_counter()
        _, answer = await self.call("POST", f"/v1/agents/{agent}/jobs", body, kind)
        identity = json.loads(answer)["id"]
        self.send("GET", f"/v1/jobs/{identity}/events")
        await self.head()
        first = 0.0
        async for _ in self.chunks():
            first = first or time.perf_counter() - began
        return first, time.perf_counter() - began


async def runs(process: Process, token: str, clients: int, seconds: float, **options: Any) -> tuple[int, float, list[float]]:
    """Keep `clients` busy for a while; (runs, CPU seconds of the server, first-event latencies)."""
    until = time.perf_counter() + seconds
    firsts: list[float] = []

    async def one() -> None:
        async with Connection(process, token) as connection:
            while time.perf_counter() < until:
                first, _ = await connection.run(**options)
                firsts.append(first)

    before = process.cpu
    await asyncio.gather(*[one() for _ in range(clients)])
    return len(firsts), process.cpu - before, firsts
