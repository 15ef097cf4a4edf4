"""The callers of a development server, and their tokens: derived from a key in the data folder, kept nowhere."""

import hashlib
import hmac
import os
import secrets
import stat
from base64 import urlsafe_b64encode
from contextlib import suppress
from pathlib import Path

import msgspec

from transom_hookspecs import TransomError, Tx

from . import apps, keys
from .home import MEMBERS, Home, forget_credential, owned
from .records import App, Credential, Key, Person
from .tokens import digest, new_id

_KEY_BYTES = 32

PEOPLE = (
    Person(id="anna", role="member", dev=True),
    Person(id="omar", role="operator", dev=True),
    Person(id="ada", role="admin", dev=True),
    Person(id="rita", role="reader", dev=True),
)
APPS = (App(name="deskapp", hash="", dev=True),)
KEYS = (
    ("default", Key(name="key", hash="", role="operator", capabilities=keys.CAPABILITIES, dev=True)),
    ("default", Key(name="echo_key", hash="", role="member", scopes=("echo",), dev=True)),
    ("acme", Key(name="acme_key", hash="", role="operator", dev=True)),
)
"""People and an app of the tenant `default`, and keys; a token goes by the name."""

NAMES = (*(each.id for each in PEOPLE), *(each.name for each in APPS), *(each.name for _, each in KEYS))


class DevCallers:
    """The service DevTokens. Outside development mode, and before the key is read, it has none."""

    def __init__(self) -> None:
        self._tokens: dict[str, str] = {}

    def tokens(self) -> dict[str, str]:
        """Name to bearer token."""
        return dict(self._tokens)

    async def admit(self, home: Home, key: bytes) -> None:
        """Make the tokens, which are the same for the same key, and records of those whom nobody made or changed yet."""
        _check_free(home)
        self._tokens = {name: _token(key, name) for name in NAMES}
        for tenant in ("default", "acme") if home.has_store() else ():
            await home.kernel.store.transact(tenant, self._write, relaxed=True)
        home.changed()

    def _write(self, tx: Tx) -> None:
        """The records of one tenant. Whoever was disabled stays so."""
        for person in PEOPLE if tx.tenant == "default" else ():
            found = tx.get(Person, person.id)
            if found is None:
                tx.put(msgspec.structs.replace(person, created_at=tx.now))
            if found is None or not found.disabled:
                self._let_in(tx, person.id, Credential(hash="", id="", form="pat", tenant="", owner=f"person:{person.id}"))
        for app in APPS if tx.tenant == "default" else ():
            own = msgspec.structs.replace(app, hash=digest(self._tokens[app.name]), created_at=tx.now)
            tx.insert(own)
            self._let_in(tx, app.name, apps.credential_of(own, tx.tenant))
        for tenant, key in KEYS:
            if tenant == tx.tenant:
                own_key = msgspec.structs.replace(key, hash=digest(self._tokens[key.name]), created_at=tx.now)
                tx.insert(own_key)
                self._let_in(tx, key.name, keys.credential_of(own_key, tx.tenant))
        tx.touch(MEMBERS)

    def _let_in(self, tx: Tx, name: str, row: Credential) -> None:
        """Keep a caller's credential; one from another key of this data folder is good no more."""
        hashed = digest(self._tokens[name])
        for other in owned(tx, tx.tenant, row.owner):
            if other.dev and other.hash != hashed:
                forget_credential(tx, other)
        if tx.system.get(Credential, hashed) is None:
            kept = msgspec.structs.replace(row, hash=hashed, id=new_id(), tenant=tx.tenant, created_at=tx.now, dev=True)
            tx.system.put(kept)


def _check_free(home: Home) -> None:
    names = [("person", "default", each.id) for each in PEOPLE] + [("key", tenant, key.name) for tenant, key in KEYS]
    for kind, tenant, name in names:
        if home.configured.member(kind, name, tenant) is not None:
            raise TransomError(
                "already_exists",
                f"identity.callers.{name}: in development mode this name is its own caller's; choose another name",
            )


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
