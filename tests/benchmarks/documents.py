"""The OpenAPI document of 10,000 agents: a hundred plugins with a hundred each, every agent with schemas of its own."""

import asyncio
import socket
import statistics
import time
from pathlib import Path

from load import Connection, Process, transom

PLUGIN = """
from transom_hookspecs import Agent, hookimpl


async def answer(ctx, input):
    return input


def schema(plugin, n):
    item = {"type": "object", "properties": {f"field{n}": {"type": "string"}, "n": {"type": "integer"}}}
    items = {"type": "array", "items": {"$ref": "#/$defs/Item"}}
    return {"type": "object", "properties": {"items": items}, "$defs": {"Item": item}}


class Plugin:
    spec = "1.0"
    number = 0

    def __init__(self, config): ...

    @hookimpl
    def register_agents(self):
        return [
            Agent(
                name=f"agent-{self.number:02}-{n:02}",
                run=answer,
                description="An agent among ten thousand.",
                input_schema=schema(self.number, n),
                output_schema={"type": "object", "properties": {f"answer{n}": {"type": "string"}}},
            )
            for n in range(100)
        ]


"""

Line = tuple[str, str, str, bool]


def installed(site: Path) -> None:
    """A hundred plugins, as pip would leave them."""
    info = site / "transom_many-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: transom-many\nVersion: 1.0\n")
    names = [f"many{n}" for n in range(100)]
    (info / "entry_points.txt").write_text("[transom]\n" + "".join(f"{name} = many:{name.title()}\n" for name in names))
    classes = "\n\n".join(f"class {name.title()}(Plugin):\n    number = {n}" for n, name in enumerate(names))
    (site / "many.py").write_text(PLUGIN + classes + "\n")


async def measured(folder: Path) -> list[Line]:
    """What the document costs, the whole and one plugin's, and what others feel of its first build."""
    installed(folder / "site")
    process = transom(folder / "data", PYTHONPATH=str(folder / "site"))
    try:
        first, stalled = await built(process)
        lines: list[Line] = [
            ("OpenAPI of 10,000 agents, first", f"{first:.2f} s", "none", True),
            ("others' latency meanwhile, max", f"{stalled * 1000:.0f} ms", "none", True),
        ]
        for name, query, bound in (("whole", "", 50), ("one plugin's", "?plugin=many7", 5)):
            fetched = [await asyncio.to_thread(fetch, process, query) for _ in range(31)][1:]
            times = [seconds * 1000 for seconds, _ in fetched]
            p50 = statistics.median(times)
            figure = f"{p50:.1f} ms p50, {max(times):.1f} max, {fetched[0][1] / 1e6:.2f} MB"
            lines.append((f"OpenAPI of 10,000 agents, {name}, kept", figure, f"{bound} ms", p50 <= bound))
    finally:
        process.stop()
    return lines


def fetch(process: Process, query: str) -> tuple[float, int]:
    """Seconds of an answer, and its bytes; what reads it does nothing else, so that the server is what is measured."""
    head = f"GET /v1/openapi.json{query} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {process.said['tokens']['key']}\r\n"
    with socket.create_connection((process.host, int(process.port))) as connection:
        began = time.perf_counter()
        connection.sendall(f"{head}Connection: close\r\n\r\n".encode())
        size, piece = 0, bytearray(2**20)
        while got := connection.recv_into(piece):
            size += got
        return time.perf_counter() - began, size


async def built(process: Process) -> tuple[float, float]:
    """Seconds of the first answer, and the longest that another request took meanwhile."""
    latencies = [0.0]

    async def look() -> None:
        async with Connection(process) as other:
            while True:
                began = time.perf_counter()
                await other.call("GET", "/healthz")
                latencies.append(time.perf_counter() - began)
                await asyncio.sleep(0.01)

    looking = asyncio.create_task(look())
    began = time.perf_counter()
    await asyncio.to_thread(fetch, process, "")
    first = time.perf_counter() - began
    looking.cancel()
    return first, max(latencies)
