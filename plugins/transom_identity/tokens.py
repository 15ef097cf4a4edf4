"""Tokens: how they look, how one is made, and what is kept of it.

A token is a prefix that tells its form and 32 random bytes. Only its SHA-256 is kept: it is long and random, so a plain
hash will do, and a search by hash takes the same time whatever is kept.
"""

import hashlib
import re
import secrets
from typing import Literal

from transom_hookspecs import TransomError

from .records import Form

PREFIXES: dict[str, Form | Literal["dev"]] = {
    "tr_key_": "key",
    "tr_app_": "app",
    "tr_pat_": "pat",
    "tr_ses_": "ses",
    "tr_at_": "at",
    "ast_": "sub",
    "tr_dev_": "dev",
}
"""The first characters of a token, and its form; `dev` are those of development mode, whatever they are for."""

TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
"""What any token may be: 1 to 4,096 visible ASCII characters."""

_PREFIX = re.compile("|".join(PREFIXES))
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")
_BY_FORM: dict[str, str] = {form: prefix for prefix, form in PREFIXES.items()}


def make(form: Form) -> str:
    """A new token."""
    return _BY_FORM[form] + secrets.token_urlsafe(32)


def form_of(token: str) -> Form | Literal["dev"] | None:
    """The form of a token of ours; None when it is none.

    Raises:
        TransomError: unauthenticated, when it begins as one of ours and cannot be one.
    """
    found = _PREFIX.match(token)
    if found is None:
        return None
    if not _SECRET.fullmatch(token, found.end()):
        raise refused()
    return PREFIXES[found[0]]


def digest(token: str) -> str:
    """All that is kept of a token: its SHA-256 in hex."""
    return hashlib.sha256(token.encode()).hexdigest()


def refused() -> TransomError:
    """The one refusal of whatever is malformed, unknown, expired, revoked, ambiguous or meant for something else."""
    return TransomError(
        "unauthenticated",
        "no valid credential: send exactly one, as the header `Authorization: Bearer <token>` (visible ASCII, at most 4,096 "
        "characters) or a session's cookie; one that was good may have expired or been revoked",
    )


def new_id() -> str:
    """A public name for a credential, for lists: no secret, and nothing can be done with it but to end it."""
    return secrets.token_hex(6)
