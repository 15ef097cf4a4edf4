"""Bearer tokens: how one is read from a request, and what is kept of it."""

import hashlib
import re

from transom_hookspecs import RequestHead, TransomError

TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
"""What a token may be: 1 to 4,096 visible ASCII characters."""


def bearer(head: RequestHead) -> str | None:
    """The request's bearer token; None when it has no Authorization header, or one of another scheme.

    Raises:
        TransomError: unauthenticated when there are several headers (it must be clear whose rights count), or the
            token cannot be one.
    """
    values = head.headers.get("authorization", ())
    if not values:
        return None
    scheme, _, token = values[0].partition(" ")
    if len(values) == 1 and scheme and scheme.lower() != "bearer":
        return None
    if len(values) > 1 or not TOKEN.fullmatch(token):
        raise TransomError(
            "unauthenticated",
            "send exactly one header `Authorization: Bearer <token>`, the token of visible ASCII, at most 4,096 characters",
        )
    return token


def digest(token: str) -> bytes:
    """The SHA-256 of a token: all that is kept of it. Tokens are long and random, so a plain hash will do."""
    return hashlib.sha256(token.encode()).digest()
