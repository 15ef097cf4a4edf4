"""A server, spoken to through its typed REST routes."""

import ssl
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import TYPE_CHECKING, cast

import anyio
import msgspec

from transom_hookspecs import (
    AgentView,
    Catalog,
    DecideApproval,
    Decided,
    EditWait,
    Entry,
    JobAnswer,
    JobEnded,
    JobPage,
    JobTrace,
    JobView,
    JobWait,
    Json,
    JsonObject,
    Operation,
    StartJob,
    TransomError,
    WaitView,
)

from . import wire
from .client import Target
from .sse import SseParser

if TYPE_CHECKING:
    import httpx

TRIES = 5
"""How often a request that may be repeated is sent, and a stream taken up again without anything new."""


@asynccontextmanager
async def remote_client(where: Target) -> AsyncIterator["RemoteClient"]:
    """A client whose connections live as long as the context."""
    import httpx

    headers = {"Authorization": f"Bearer {where.token}"} if where.token else {}
    timeout = httpx.Timeout(30, connect=10, read=60)  # a stream pings every 15 seconds
    try:
        client = httpx.AsyncClient(
            base_url=where.url,
            headers=headers,
            timeout=timeout,
            verify=_trust(where.ca_file),
            trust_env=not where.loopback,  # no proxy stands between a machine and itself
        )
    except httpx.InvalidURL as error:
        raise TransomError("invalid_argument", f"url {where.url!r}: {error}") from error
    async with client as http:
        yield RemoteClient(http, where.tenant)


class RemoteClient:
    """The `client.Client` of a server.

    Parameters:
        http: with the server's base URL and the credential.
        pause: seconds before the second try; each further one doubles it.
    """

    remote = True

    def __init__(self, http: "httpx.AsyncClient", tenant: str, *, pause: float = 0.25) -> None:
        self._http = http
        self._tenant = {"tenant": tenant}
        self._pause = pause
        self._reached = False

    async def start(self, request: StartJob) -> JobAnswer:
        """Start a job under its ID, or else under a new Idempotency-Key; sent again while the server is unavailable."""
        kind, body = wire.start_body(request.input)
        headers = {"Content-Type": kind}
        if not request.id:
            headers["Idempotency-Key"] = str(uuid.uuid4())
        route = wire.path("agents", request.agent, "jobs")
        try:
            answer = await self._send("POST", route, query=wire.start_query(request), body=body, headers=headers, repeat=True)
        except TransomError as error:
            if error.details.get("sent") is True:
                error.add_note(
                    "It may have started all the same (`transom job list`); under an --id a start can be sent again."
                )
            raise
        return wire.started(answer)

    async def job(self, id: str) -> JobView:
        """A job as it is."""
        return wire.decode(JobView, await self._get("jobs", id))

    async def jobs(self, limit: int, cursor: str) -> JobPage:
        """Recent top-level jobs."""
        query = {"limit": str(limit), "cursor": cursor} if cursor else {"limit": str(limit)}
        return wire.decode(JobPage, await self._get("jobs", query=query))

    async def attended(self, job: JobView) -> bool:
        """Always: a server goes on with every job."""
        return True

    async def cancel(self, id: str, reason: str = "") -> JobView:
        """Cancel a job and what it delegated."""
        return wire.decode(JobView, await self._post({"reason": reason} if reason else {}, "jobs", id, "cancel"))

    async def trace(self, id: str) -> JobTrace:
        """A job's steps."""
        return wire.decode(JobTrace, await self._get("jobs", id, "trace"))

    async def why(self, id: str) -> JobWait:
        """Why a job waits."""
        return wire.decode(JobWait, await self._get("jobs", id, "wait"))

    async def tag(self, id: str, add: Sequence[str], remove: Sequence[str]) -> JobView:
        """Change a job's tags."""
        return wire.decode(JobView, await self._post({"add": list(add), "remove": list(remove)}, "jobs", id, "tags"))

    async def waits(self, job: str = "", *, tree: bool = False) -> Sequence[WaitView]:
        """What waits for a person, oldest first."""
        query = {"job": job, "tree": "true" if tree else "false"} if job else {}
        found = await self._get("approvals", query=query)
        return [wire.decode(WaitView, each) for each in cast("list[Json]", found.get("approvals", []))]

    async def decide(self, decision: DecideApproval) -> Decided:
        """Decide a wait, or vote."""
        verb, body = wire.decision(decision)
        return wire.decode(Decided, await self._post(body, "approvals", decision.wait, verb))

    async def edit(self, edit: EditWait) -> None:
        """Change the arguments that wait for approval."""
        await self._post({"arguments": edit.arguments}, "approvals", edit.wait, "edit")

    async def agents(self) -> Sequence[AgentView]:
        """The agents and flows there are."""
        return wire.decode(Catalog, await self._get("agents")).agents

    async def call(self, operation: Operation, request: msgspec.Struct) -> msgspec.Struct:
        """Call any operation by its name; sent again while the server is unavailable, where that does nothing twice."""
        headers = {"Content-Type": "application/json"}
        if operation.idempotent:
            headers["Idempotency-Key"] = str(uuid.uuid4())
        repeat = operation.idempotent or not operation.audit
        body, route = msgspec.json.encode(request), wire.path("operations", operation.name)
        return wire.decode(operation.response, await self._send("POST", route, body=body, headers=headers, repeat=repeat))

    def declared_in(self, path: str) -> str:
        """Never: a server does not read this machine's files."""
        raise TransomError(
            "invalid_argument",
            f"agent {path!r} is a file, and a server runs agents of its catalog; to run it here give --data, and no --url",
        )

    async def events(self, job: JobView) -> AsyncGenerator[Sequence[Entry], None]:
        """The job's event stream, taken up again where it broke off, until the job has ended."""
        stream = _Stream(job.id)
        while not stream.ended:
            try:
                async with aclosing(self._stream(stream)) as batches:
                    async for batch in batches:
                        yield batch
            except TransomError as error:
                if error.code != "unavailable" or stream.failures >= TRIES:
                    raise
            if not stream.ended:
                await anyio.sleep(self._pause * 2**stream.failures)
                stream.failures += 1

    async def _stream(self, stream: "_Stream") -> AsyncGenerator[Sequence[Entry], None]:
        """One connection's worth of the stream."""
        import httpx

        headers = {"Accept": "text/event-stream"}
        if position := stream.connect():
            headers["Last-Event-ID"] = position
        try:
            route = wire.path("jobs", stream.job, "events")
            async with self._http.stream("GET", route, params=self._tenant, headers=headers) as response:
                if response.status_code != httpx.codes.OK:
                    raise wire.error(response.status_code, await response.aread())
                async for chunk in response.aiter_bytes():
                    if batch := stream.feed(chunk):
                        yield batch
        except httpx.RequestError as error:
            raise _unreachable(self._http, error) from error

    async def _get(self, *parts: str, query: Mapping[str, str] | None = None) -> JsonObject:
        return await self._send("GET", wire.path(*parts), query=query, repeat=True)

    async def _post(self, body: JsonObject, *parts: str) -> JsonObject:
        headers = {"Content-Type": "application/json"}
        return await self._send("POST", wire.path(*parts), body=msgspec.json.encode(body), headers=headers)

    async def _send(
        self,
        method: str,
        route: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        repeat: bool = False,
    ) -> JsonObject:
        """Send a request; with `repeat`, again while the server is unavailable."""
        import httpx

        request = self._http.build_request(
            method, route, params={**self._tenant, **(query or {})}, content=body, headers=headers
        )
        sent = False
        for attempt in range(TRIES):
            try:
                return await self._once(request)
            except TransomError as error:
                refused = isinstance(error.__cause__, httpx.ConnectError)
                if not repeat or error.code != "unavailable" or (refused and method == "GET" and not self._reached):
                    raise  # nothing listens where nothing was asked of it yet: there is no use in waiting
                sent = sent or not refused
                if attempt == TRIES - 1:
                    error.details["sent"] = sent  # whether the server may have got it
                    raise
                asked = error.details.get("retry_after")
                await anyio.sleep(max(self._pause * 2**attempt, asked if isinstance(asked, float) else 0))
        raise AssertionError("the last try returns or raises")

    async def _once(self, request: "httpx.Request") -> JsonObject:
        import httpx

        try:
            response = await self._http.send(request)
        except httpx.RequestError as error:
            raise _unreachable(self._http, error) from error
        self._reached = True
        if response.is_success:
            return _object(response.content, str(request.url))
        told = wire.error(response.status_code, response.content)
        if seconds := retry_after(response.headers.get("Retry-After", "")):
            told.details["retry_after"] = seconds
        if response.is_redirect:
            told.add_note(f"The server points to {response.headers.get('Location')!r}: name that address as --url.")
        raise told


class _Stream:
    """How far a job's event stream was read."""

    def __init__(self, job: str) -> None:
        self.job = job
        self.ended = False
        self.failures = 0
        self._parser = SseParser()
        self._seq = 0

    def connect(self) -> str:
        """Begin a connection; returns the ID of the last event that came whole."""
        self._parser = SseParser(self._parser.last_id)
        return self._parser.last_id

    def feed(self, chunk: bytes) -> list[Entry]:
        """The new entries of a chunk; any sign of life makes up for earlier failures."""
        self.failures = 0
        try:
            events = self._parser.feed(chunk)
        except ValueError as error:
            raise TransomError("data_loss", str(error)) from error
        found = (wire.entry(event.data) for event in events)
        batch = [entry for entry in found if entry is not None and entry.seq > self._seq]
        for entry in batch:
            self._seq = entry.seq
            self.ended = self.ended or (isinstance(entry.event, JobEnded) and entry.event.job == self.job)
        return batch


def retry_after(value: str, *, limit: float = 30.0) -> float:
    """The seconds that a Retry-After header asks for, as a number or a date; 0 when it says nothing, at most `limit`."""
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return 0.0
    return min(max(seconds, 0.0), limit) if isfinite(seconds) else 0.0


def _object(body: bytes, url: str) -> JsonObject:
    try:
        answer = msgspec.json.decode(body) if body else {}
    except msgspec.DecodeError:
        answer = None
    if isinstance(answer, dict):
        return answer
    raise TransomError("unknown", f"{url} answered no JSON object: is it a Transom server?")


def _unreachable(http: "httpx.AsyncClient", error: Exception) -> TransomError:
    return TransomError("unavailable", f"{http.base_url} cannot be reached: {error or type(error).__name__}")


def _trust(ca_file: str) -> "bool | ssl.SSLContext":
    """What to check the server's certificate against: the usual authorities, or those of a file."""
    if not ca_file:
        return True
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise TransomError("invalid_argument", f"--ca-file {ca_file!r} cannot be used: {error}") from error
