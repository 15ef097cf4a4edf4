"""The table of routes, and the one path that every request takes: head, caller, query, body, operation, answer.

A row maps an HTTP route to an operation; what may be done is the operation's to say.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec
from litestar import Request
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, Receive

from transom_hookspecs import (
    CancelJob,
    DecideApproval,
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

from . import inbound
from .answers import Answer, refusal
from .encode import JobEncoder, parse_event_id
from .streams import Stream
from .wire import to_wire

if TYPE_CHECKING:
    from . import RestPlugin

logger = logging.getLogger(__name__)


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request's values, for a row to make its operation of."""

    head: RequestHead
    path: dict[str, str]
    query: dict[str, str]
    body: Any


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
    """The door's Litestar handlers, one a row."""
    return [_handler(plugin, route) for route in ROUTES]


def _handler(plugin: "RestPlugin", route: Route) -> HTTPRouteHandler:
    async def handle(request: Request[Any, Any, Any]) -> ASGIApp:
        try:
            return await _answer(plugin, route, request)
        except TransomError as error:
            return refusal(error)
        except Exception:
            logger.exception("%s %s failed", route.method, route.path)
            return refusal(TransomError("internal", "something went wrong here; the server's log has the cause"))

    name = f"rest {route.method} {route.path}"
    return HTTPRouteHandler(route.path, http_method=[route.method], name=name, include_in_schema=False)(handle)


async def _answer(plugin: "RestPlugin", route: Route, request: Request[Any, Any, Any]) -> ASGIApp:
    """The main path. The caller is known before anything but the head is read."""
    head = inbound.head_of(request.scope)
    pairs = inbound.pairs_of(head)
    kernel = plugin.kernel
    caller = await kernel.authenticate(head)
    inbound.check_path(request.scope)
    query = inbound.query_of(pairs, {"tenant", *route.query})
    tenant = inbound.tenant_of(query)
    key = inbound.idempotency_key_of(head) if route.method == "POST" else ""
    body = await route.read(head, request.receive, plugin.config.max_body) if route.read else None
    asked = route.ask(Asked(head=head, path=request.path_params, query=query, body=body))
    answer = await kernel.call(type(asked).__name__, asked, Origin(tenant=tenant, caller=caller, door="rest", key=key))
    if isinstance(answer, WatchGrant):
        return _stream(plugin, kernel, tenant, answer)
    started = isinstance(asked, StartJob) and isinstance(answer, JobAnswer) and not answer.retried
    return Answer(201 if started else 200, to_wire(answer))


def _stream(plugin: "RestPlugin", kernel: Kernel, tenant: str, grant: WatchGrant) -> ASGIApp:
    encoder = JobEncoder(grant.job, grant.since_seq)

    def log() -> AsyncGenerator[Sequence[Entry], None]:
        return cast("AsyncGenerator[Sequence[Entry], None]", kernel.watch(tenant, grant.job.tree, encoder.after))

    return Stream(plugin.streams, log, encoder)


def _json(kind: type) -> Read:
    async def read(head: RequestHead, receive: Receive, limit: int) -> object:
        return await inbound.body_of(head, receive, limit, kind)

    return read


def _start(asked: Asked) -> StartJob:
    query = asked.query
    return StartJob(
        agent=asked.path["name"],
        input=asked.body,
        id=query.get("id", ""),
        timeout=inbound.seconds_of(query, "timeout"),
        tags=inbound.words_of(query, "tags"),
        team=query.get("team", ""),
        budget=query.get("budget", ""),
        data_subjects=inbound.words_of(query, "data_subjects"),
        conversation=query.get("conversation", ""),
        continue_from=query.get("continue_from", ""),
    )


def _list(asked: Asked) -> ListJobs:
    return ListJobs(limit=inbound.number_of(asked.query, "limit", 50), cursor=asked.query.get("cursor", ""))


def _watch(asked: Asked) -> WatchJob:
    last = inbound.header_of(asked.head, "last-event-id")
    since, token = (0, "") if last is None else parse_event_id(last)
    return WatchJob(id=asked.path["id"], since_seq=since, token=token)


def _approvals(asked: Asked) -> ListApprovals:
    return ListApprovals(job=asked.query.get("job", ""), tree=inbound.flag_of(asked.query, "tree"))


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


_JOB = "/v1/jobs/{id:str}"
_APPROVAL = "/v1/approvals/{wait:str}"

ROUTES: Sequence[Route] = (
    Route(
        method="POST",
        path="/v1/agents/{name:str}/jobs",
        ask=_start,
        query=("id", "timeout", "tags", "team", "budget", "data_subjects", "conversation", "continue_from"),
        read=inbound.input_of,
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
    Route(method="GET", path="/v1/approvals", ask=_approvals, query=("job", "tree")),
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
