"""The table of routes, and the one path that every request takes: head, caller, query, body, operation, answer.

A row maps an HTTP route to an operation; what may be done is the operation's to say.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec
from litestar import Request
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Receive

from transom_doors import bodies, heads
from transom_doors.answers import Answer
from transom_doors.handlers import handler
from transom_doors.streams import Stream
from transom_doors.strict import fitted
from transom_hookspecs import (
    CancelJob,
    DecideApproval,
    DecideTogether,
    EditWait,
    Entry,
    GetCatalog,
    GetJob,
    GetJobBoard,
    GetJobTrace,
    GetJobWait,
    JobAnswer,
    Json,
    JsonObject,
    Kernel,
    ListApprovals,
    ListJobs,
    Origin,
    PublishEvent,
    RequestHead,
    SetJobTags,
    StartJob,
    TransomError,
    WatchGrant,
    WatchJob,
)

from .encode import JobEncoder, parse_event_id
from .wire import encode, to_wire

if TYPE_CHECKING:
    from . import RestPlugin


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request's values, for a row to make its operation of."""

    kernel: Kernel
    head: RequestHead
    path: dict[str, str]
    query: dict[str, str]
    origin: Origin
    body: Any = None


class CancelBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a cancel."""

    reason: str = ""


class TagsBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a change of tags."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()


class WordBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a decision."""

    comment: str = ""
    confirm: str = ""
    token: str = ""
    answer: Json | msgspec.UnsetType = msgspec.UNSET


class EditBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a change of arguments."""

    arguments: JsonObject


Read = Callable[[RequestHead, Receive, int], Awaitable[object]]


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """A row.

    Parameters:
        ask: makes the operation's request; its type's name is the operation's.
        query: the parameters that it takes, beside `tenant`.
        read: reads the body; None leaves it unread.
    """

    method: Literal["GET", "POST"]
    path: str
    ask: Callable[[Asked], msgspec.Struct]
    query: tuple[str, ...] = ()
    read: Read | None = None


def make_handlers(plugin: "RestPlugin") -> list[HTTPRouteHandler]:
    """The door's Litestar handlers: one a row, and one for every operation by its name."""

    async def call(request: Request[Any, Any, Any]) -> ASGIApp:
        return await _call(plugin, request)

    return [*(_handler(plugin, route) for route in ROUTES), handler("rest", "POST", OPERATION, call)]


def _handler(plugin: "RestPlugin", route: Route) -> HTTPRouteHandler:
    async def answer(request: Request[Any, Any, Any]) -> ASGIApp:
        return await _answer(plugin, route, request)

    return handler("rest", route.method, route.path, answer)


async def _admit(plugin: "RestPlugin", request: Request[Any, Any, Any], known: Sequence[str] = ()) -> Asked:
    """The beginning of every request. The caller is known before anything but the head is read."""
    head = heads.head_of(request.scope)
    pairs = heads.pairs_of(head)
    kernel = plugin.kernel
    caller = await kernel.authenticate(head)
    heads.check_path(request.scope)
    query = heads.query_of(pairs, {"tenant", *known})
    key = heads.idempotency_key_of(head) if head.method == "POST" else ""
    origin = Origin(tenant=heads.tenant_of(query), caller=caller, door="rest", key=key)
    return Asked(kernel=kernel, head=head, path=request.path_params, query=query, origin=origin)


async def _answer(plugin: "RestPlugin", route: Route, request: Request[Any, Any, Any]) -> ASGIApp:
    """The main path: a row's operation, in this wire's shapes."""
    asked = await _admit(plugin, request, route.query)
    if route.read is not None:
        body = await route.read(asked.head, request.receive, plugin.config.max_body)
        asked = msgspec.structs.replace(asked, body=body)
    wanted = route.ask(asked)
    answer = await asked.kernel.call(type(wanted).__name__, wanted, asked.origin)
    if isinstance(answer, WatchGrant):
        return _stream(plugin, asked, answer)
    started = isinstance(wanted, StartJob) and isinstance(answer, JobAnswer) and not answer.retried
    return Answer(201 if started else 200, encode(to_wire(answer)))


async def _call(plugin: "RestPlugin", request: Request[Any, Any, Any]) -> ASGIApp:
    """Any operation of the table, its request and its answer as their Structs have it."""
    asked = await _admit(plugin, request)
    name = asked.path["name"]
    operation = asked.kernel.operations.get(name)
    if operation is None or operation.stream:
        raise TransomError("not_found", f"there is no operation {name[:100]!r} to call here")
    body = await bodies.json_body(asked.head, request.receive, plugin.config.max_body, dict[str, Any])
    answer = await asked.kernel.call(name, fitted(body, operation.request, DOORS_OWN), asked.origin)
    return Answer(200, msgspec.json.encode(answer))


def _stream(plugin: "RestPlugin", asked: Asked, grant: WatchGrant) -> ASGIApp:
    encoder = JobEncoder(grant.job, grant.since_seq)

    def log() -> AsyncGenerator[Sequence[Entry], None]:
        watched = asked.kernel.watch(asked.origin.tenant, grant.job.tree, encoder.after)
        return cast("AsyncGenerator[Sequence[Entry], None]", watched)

    return Stream(plugin.streams, log, encoder)


def _json(kind: type) -> Read:
    async def read(head: RequestHead, receive: Receive, limit: int) -> object:
        return await bodies.json_body(head, receive, limit, kind)

    return read


def _start(asked: Asked) -> StartJob:
    query = asked.query
    return StartJob(
        agent=asked.path["name"],
        input=asked.body,
        id=query.get("id", ""),
        timeout=heads.seconds_of(query, "timeout"),
        tags=heads.words_of(query, "tags"),
        team=query.get("team", ""),
        budget=query.get("budget", ""),
        data_subjects=heads.words_of(query, "data_subjects"),
        conversation=query.get("conversation", ""),
        continue_from=query.get("continue_from", ""),
    )


def _list(asked: Asked) -> ListJobs:
    return ListJobs(limit=heads.number_of(asked.query, "limit", 50), cursor=asked.query.get("cursor", ""))


def _watch(asked: Asked) -> WatchJob:
    last = heads.header_of(asked.head, "last-event-id")
    since, token = (0, "") if last is None else parse_event_id(last)
    return WatchJob(id=asked.path["id"], since_seq=since, token=token)


def _approvals(asked: Asked) -> ListApprovals:
    return ListApprovals(
        job=asked.query.get("job", ""),
        tree=heads.flag_of(asked.query, "tree"),
        limit=heads.number_of(asked.query, "limit", 200),
        cursor=asked.query.get("cursor", ""),
    )


def _decide(asked: Asked, *, approved: bool | None) -> DecideApproval:
    word: WordBody = asked.body
    answer = None if word.answer is msgspec.UNSET else word.answer
    return DecideApproval(
        wait=asked.path["wait"],
        approved=approved,
        answer=answer,
        comment=word.comment,
        confirm=word.confirm,
        token=word.token,
    )


def _reply(asked: Asked) -> DecideApproval:
    if asked.body.answer is msgspec.UNSET:
        raise TransomError("invalid_argument", 'answer: is missing; send {"answer": …}, or deny to decline the question')
    return _decide(asked, approved=None)


def _nowhere(asked: Asked) -> msgspec.Struct:
    raise TransomError("not_found", f"there is nothing at {asked.head.path}")


OPERATION = "/v1/operations/{name:str}"

DOORS_OWN = frozenset(
    {(StartJob, "run"), (DecideApproval, "run"), (DecideTogether, "run"), (DecideTogether, "start")},
)
"""Fields by which a door ties what it asks to a run that it keeps: nobody else's to give."""

_JOB = "/v1/jobs/{id:str}"
_APPROVAL = "/v1/approvals/{wait:str}"

ROUTES: Sequence[Route] = (
    Route(
        method="POST",
        path="/v1/agents/{name:str}/jobs",
        ask=_start,
        query=("id", "timeout", "tags", "team", "budget", "data_subjects", "conversation", "continue_from"),
        read=bodies.json_or_text,
    ),
    Route(method="GET", path="/v1/agents", ask=lambda asked: GetCatalog()),
    Route(method="GET", path="/v1/jobs", ask=_list, query=("limit", "cursor")),
    Route(method="GET", path=_JOB, ask=lambda asked: GetJob(id=asked.path["id"])),
    Route(method="GET", path=f"{_JOB}/events", ask=_watch),
    Route(method="GET", path=f"{_JOB}/board", ask=lambda asked: GetJobBoard(id=asked.path["id"])),
    Route(method="GET", path=f"{_JOB}/trace", ask=lambda asked: GetJobTrace(id=asked.path["id"])),
    Route(method="GET", path=f"{_JOB}/wait", ask=lambda asked: GetJobWait(id=asked.path["id"])),
    Route(
        method="POST",
        path=f"{_JOB}/cancel",
        ask=lambda asked: CancelJob(id=asked.path["id"], reason=asked.body.reason),
        read=_json(CancelBody),
    ),
    Route(
        method="POST",
        path=f"{_JOB}/tags",
        ask=lambda asked: SetJobTags(id=asked.path["id"], add=asked.body.add, remove=asked.body.remove),
        read=_json(TagsBody),
    ),
    # An escaped '/' in an ID arrives here, split in two; it is refused for what it is, not called unknown.
    Route(method="GET", path=f"{_JOB}/{{rest:path}}", ask=_nowhere),
    Route(method="POST", path=f"{_JOB}/{{rest:path}}", ask=_nowhere),
    Route(method="GET", path="/v1/approvals", ask=_approvals, query=("job", "tree", "limit", "cursor")),
    Route(method="POST", path=f"{_APPROVAL}/approve", ask=lambda a: _decide(a, approved=True), read=_json(WordBody)),
    Route(method="POST", path=f"{_APPROVAL}/deny", ask=lambda a: _decide(a, approved=False), read=_json(WordBody)),
    Route(method="POST", path=f"{_APPROVAL}/answer", ask=_reply, read=_json(WordBody)),
    Route(
        method="POST",
        path=f"{_APPROVAL}/edit",
        ask=lambda asked: EditWait(wait=asked.path["wait"], arguments=asked.body.arguments),
        read=_json(EditBody),
    ),
    Route(
        method="POST",
        path="/v1/events/{source:str}",
        ask=lambda asked: PublishEvent(source=asked.path["source"], payload=asked.body),
        read=_json(dict[str, Json]),
    ),
)
"""Every route of the door."""
