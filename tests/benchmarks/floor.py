"""The floor: a bare Litestar application that writes the bytes that the product wrote, event by event.

`python floor.py FOLDER` serves them.
"""

import sys
from pathlib import Path
from typing import Any

import uvicorn
from litestar import Litestar, Request, get, post
from litestar.response import Response
from litestar.types import ASGIApp

FOLDER = Path(sys.argv[1])
STARTED = (FOLDER / "started.json").read_bytes()
EVENTS = [event + b"\n\n" for event in (FOLDER / "events.sse").read_bytes().split(b"\n\n") if event]
HEADERS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]


@post("/v1/agents/{name:str}/jobs")
async def start(name: str, request: Request[Any, Any, Any]) -> Response[bytes]:
    await request.body()
    return Response(STARTED, media_type="application/json", status_code=201)


async def stream(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    for event in EVENTS:
        await send({"type": "http.response.body", "body": event, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


@get("/v1/jobs/{name:str}/events")
async def events(name: str) -> ASGIApp:
    return stream


@post("/v1/agui/agents/{name:str}", status_code=200)
async def agui(name: str, request: Request[Any, Any, Any]) -> ASGIApp:
    await request.body()
    return stream


@get("/healthz")
async def healthz() -> dict[str, str]:
    return {"status": "ok"}


class Server(uvicorn.Server):
    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        print(f'{{"url": "http://127.0.0.1:{self.servers[0].sockets[0].getsockname()[1]}"}}', flush=True)


if __name__ == "__main__":
    app = Litestar([start, events, agui, healthz], openapi_config=None, logging_config=None)
    Server(uvicorn.Config(app, port=0, loop="uvloop", http="httptools", access_log=False, log_config=None)).run()
