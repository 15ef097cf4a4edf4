"""The callers of a development server, and their tokens: derived from a key in the data folder, kept nowhere."""

import hashlib
import hmac
import os
import secrets
import stat
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from transom_hookspecs import Caller, TransomError

from .roles import Member
from .tokens import digest

_KEY_BYTES = 32

MEMBERS: tuple[Member, ...] = (
    Member(caller=Caller(kind="person", id="anna", tenant="default"), role="member"),
    Member(caller=Caller(kind="person", id="omar", tenant="default"), role="operator"),
    Member(caller=Caller(kind="person", id="ada", tenant="default"), role="admin"),
    Member(caller=Caller(kind="person", id="rita", tenant="default"), role="reader"),
    Member(caller=Caller(kind="service", id="deskapp", tenant="default"), role="member"),
    Member(caller=Caller(kind="key", id="key", tenant="default"), role="operator"),
    Member(caller=Caller(kind="key", id="echo_key", tenant="default", scopes=("echo",)), role="member"),
    Member(caller=Caller(kind="key", id="acme_key", tenant="acme"), role="operator"),
)
"""People, an app, and keys; a token goes by the caller's id."""


class DevCallers:
    """The service DevTokens. Outside development mode, and before the key is read, it has none."""

    def __init__(self) -> None:
        self._tokens: dict[str, str] = {}

    def derive(self, key: bytes) -> None:
        """Make the tokens; the same key gives the same."""
        self._tokens = {member.caller.id: _token(key, member.caller.id) for member in MEMBERS}

    def tokens(self) -> dict[str, str]:
        """Name to bearer token."""
        return dict(self._tokens)

    def members(self) -> Iterator[tuple[Member, bytes]]:
        """Each caller with the digest of its token."""
        for member in MEMBERS:
            yield member, digest(self._tokens[member.caller.id])


def _token(key: bytes, name: str) -> str:
    code = hmac.new(key, name.encode(), hashlib.sha256).digest()
    return "tr_dev_" + urlsafe_b64encode(code).rstrip(b"=").decode()


def read_key(data: str) -> bytes:
    """The data folder's key, made when it is missing. Reads and writes files: call it in a thread.

    Parameters:
        data: the data folder.

    Raises:
        TransomError: failed_precondition when the key is damaged, others may read it, or the folder cannot be used.
    """
    path = Path(data) / "dev.key"
    try:
        if not path.exists():
            _make(path)
        return _checked(path)
    except OSError as error:
        raise TransomError(
            "failed_precondition", f"{path}: {error.strerror}; use a data folder on a local disk that can be written"
        ) from error


def _make(path: Path) -> None:
    """Write a new key beside `path` and link it there, so that the file is never seen half written.

    Of several processes that start at once one wins, and all read the winner's key.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".dev.key.{secrets.token_hex(8)}")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(file, secrets.token_bytes(_KEY_BYTES))
        os.fsync(file)
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        os.close(file)
        draft.unlink()


def _checked(path: Path) -> bytes:
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise TransomError(
            "failed_precondition", f"{path}: it holds {len(key)} bytes, not {_KEY_BYTES}; delete it for a new key"
        )
    if os.name == "posix" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise TransomError(
            "failed_precondition", f"{path}: others may read it; run `chmod 600` on it, or delete it for a new key"
        )
    return key
