"""What a request is answered with: a JSON body, or an error from the one table of statuses."""

from collections.abc import Mapping

import msgspec
from litestar.types import Receive, Scope, Send

from transom_hookspecs import Code, Json, TransomError

from .wire import encode, rfc3339

STATUS: dict[Code, int] = {
    "canceled": 499,
    "unknown": 500,
    "invalid_argument": 400,
    "deadline_exceeded": 504,
    "not_found": 404,
    "already_exists": 409,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "failed_precondition": 400,
    "aborted": 409,
    "out_of_range": 400,
    "unimplemented": 501,
    "internal": 500,
    "unavailable": 503,
    "data_loss": 500,
    "unauthenticated": 401,
}
"""The HTTP status of each code, as the Connect protocol has them."""

ID_CONFLICT = "oz0_id_conflict"


class HttpRefusal(TransomError):
    """An `invalid_argument` for which HTTP has a status of its own (413, 415)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__("invalid_argument", message)
        self.status = status


class Answer:
    """An ASGI application that sends one JSON body."""

    __slots__ = ("body", "headers", "status")

    def __init__(
        self, status: int, body: msgspec.Struct | Mapping[str, Json], headers: Mapping[bytes, bytes] | None = None
    ) -> None:
        self.status = status
        self.body = encode(body)
        self.headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(self.body)),
            (b"cache-control", b"no-store"),
            *(headers or {}).items(),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


def refusal(error: TransomError) -> Answer:
    """The answer that an error is: `{"code", "message", "details"}`, and for a refused ID its facts beside them."""
    details = _timed(error.details)
    body: dict[str, Json] = {"code": error.code, "message": error.message, "details": details}
    if details.get("reason") == ID_CONFLICT:
        body |= {name: details[name] for name in ("reason", "job", "started_at") if name in details}
    status = error.status if isinstance(error, HttpRefusal) else STATUS[error.code]
    return Answer(status, body, {b"www-authenticate": b"Bearer"} if status == 401 else None)


def _timed(details: Mapping[str, Json]) -> dict[str, Json]:
    started = details.get("started_at")
    return {**details, "started_at": rfc3339(started)} if isinstance(started, int) else dict(details)
