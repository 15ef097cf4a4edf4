"""What a request shows of who sends it: one bearer token, one session cookie or one certificate. Two are refused."""

from typing import Literal

import msgspec

from transom_hookspecs import RequestHead

from .tokens import TOKEN, refused

COOKIE = "transom_session"


class Presented(msgspec.Struct, frozen=True):
    """A credential as it came; `value` is a token, or `sha256:<hex>` of a certificate."""

    way: Literal["bearer", "session", "certificate"]
    value: str


def presented(head: RequestHead) -> Presented | None:
    """The request's credential; None when it shows none, or one of another scheme.

    Raises:
        TransomError: unauthenticated when there are several (it must be clear whose rights count), or one cannot be one.
    """
    bearer = _bearer(head)
    session = _session(head) if "cookie" in head.headers else None
    shown = [each for each in (bearer, session, _certificate(head)) if each is not None]
    if len(shown) > 1 or (shown and "x-api-key" in head.headers):
        raise refused()
    return shown[0] if shown else None


def _bearer(head: RequestHead) -> Presented | None:
    values = head.headers.get("authorization", ())
    if not values:
        return None
    scheme, _, token = values[0].partition(" ")
    if len(values) == 1 and scheme and scheme.lower() != "bearer":
        return None
    if len(values) > 1 or not TOKEN.fullmatch(token):
        raise refused()
    return Presented("bearer", token)


def _session(head: RequestHead) -> Presented | None:
    pairs = (pair.strip().partition("=") for line in head.headers["cookie"] for pair in line.split(";"))
    values = [value for name, _, value in pairs if name == COOKIE]
    if not values:
        return None
    if len(values) > 1 or "authorization" in head.headers or not TOKEN.fullmatch(values[0]):
        raise refused()
    return Presented("session", values[0])


def _certificate(head: RequestHead) -> Presented | None:
    return Presented("certificate", head.certificate.lower()) if head.certificate.startswith("sha256:") else None
