"""What a request is answered with: a body of bytes, mostly JSON, or an error by the one table of statuses."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from transom_hookspecs import Code, Json, TransomError

if TYPE_CHECKING:  # it takes a third of a second, and who shows a time needs none of it
    from litestar.types import Receive, Scope, Send

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

_LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999; what comes later is no time (`NEVER`)."""


class HttpRefusal(TransomError):
    """An `invalid_argument` for which HTTP has a status of its own (413, 415)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__("invalid_argument", message)
        self.status = status


class Answer:
    """An ASGI application that sends one body.

    Parameters:
        headers: more headers, names in lower case.
        media: the body's media type.
    """

    __slots__ = ("body", "headers", "status")

    def __init__(
        self, status: int, body: bytes, headers: Mapping[bytes, bytes] | None = None, *, media: bytes = b"application/json"
    ) -> None:
        self.status, self.body = status, body
        self.headers = [
            (b"content-type", media),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
            *(headers or {}).items(),
        ]

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


def refusal(error: TransomError) -> Answer:
    """The answer that an error is: `{"code", "message", "details"}`, and for a refused ID its facts beside them."""
    details = _timed(error.details)
    body: dict[str, Json] = {"code": error.code, "message": error.message, "details": details}
    if details.get("reason") == ID_CONFLICT:
        body |= {name: details[name] for name in ("reason", "job", "started_at") if name in details}
    status = status_of(error)
    return Answer(status, msgspec.json.encode(body), {b"www-authenticate": b"Bearer"} if status == 401 else None)


def status_of(error: TransomError) -> int:
    """An error's HTTP status."""
    return error.status if isinstance(error, HttpRefusal) else STATUS[error.code]


def rfc3339(ms: int) -> str:
    """A time in milliseconds (Unix) as `2026-03-01T12:00:00.250Z`; empty when there is none."""
    if not 0 < ms <= _LATEST:
        return ""
    seconds, rest = divmod(ms, 1000)
    return f"{_second(seconds)}.{rest:03d}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    """The part that events of one second share: formatting it took more time than all else of an event's frame."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def _timed(details: Mapping[str, Json]) -> dict[str, Json]:
    started = details.get("started_at")
    return {**details, "started_at": rfc3339(started)} if isinstance(started, int) else dict(details)
