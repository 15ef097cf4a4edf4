"""What the browser keeps while it is at the provider: a cookie that only this server can have made.

Nothing is kept here, so any process answers the second request, and nobody fills a table by asking for the first.
"""

import base64
import hashlib
import hmac
import secrets

import msgspec

LIFE = 600
"""Seconds in which somebody must have signed in at the provider."""


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """A sign-in that has begun.

    Parameters:
        state: comes back in the second request's URL: the two are of one browser.
        nonce: comes back in the ID token: it was made for this sign-in.
        verifier: PKCE's secret: the code is good only with it.
        return_to: the path to go to afterwards.
        until: in seconds (Unix).
    """

    state: str
    nonce: str
    verifier: str
    return_to: str
    until: int

    @property
    def challenge(self) -> str:
        """What the provider is told of the verifier."""
        return _text(hashlib.sha256(self.verifier.encode()).digest())


def begin(return_to: str, now: int) -> Pending:
    """A new one, at a time in seconds (Unix)."""
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    return Pending(state=state, nonce=nonce, verifier=verifier, return_to=return_to, until=now + LIFE)


def seal(pending: Pending, key: bytes) -> str:
    """It as a cookie's value."""
    body = _text(msgspec.json.encode(pending))
    return f"{body}.{_code(body, key)}"


def unseal(value: str, key: bytes, now: int) -> Pending | None:
    """The one that a cookie's value was made of; None when it is another's, or too old."""
    body, _, code = value.partition(".")
    if not value.isascii() or not hmac.compare_digest(code, _code(body, key)):
        return None
    pending = msgspec.json.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=Pending)
    return pending if pending.until > now else None


def key_of(provider: str, client_secret: str) -> bytes:
    """The key that a provider's cookies are sealed with: the same in every process that has the client's secret."""
    return hmac.new(client_secret.encode(), f"transom-oidc pending {provider}".encode(), hashlib.sha256).digest()


def _code(body: str, key: bytes) -> str:
    return _text(hmac.new(key, body.encode(), hashlib.sha256).digest())


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
