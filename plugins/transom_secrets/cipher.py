"""Encryption of values: AES-256-GCM, bound to where the value belongs.

A row's tenant, name, hosts and use are authenticated with it, so that one that is moved or changed no longer opens.
"""

import hashlib
import secrets
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Final

import msgspec

from transom_hookspecs import TransomError

from .records import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class Key(msgspec.Struct, frozen=True):
    """A key; its ID gives nothing of it away."""

    bytes: bytes

    @property
    def id(self) -> str:
        """How rows name it."""
        return hashlib.sha256(b"transom secret key\0" + self.bytes).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"Key({self.id})"


def new_key() -> Key:
    """A key that nobody had before."""
    return Key(secrets.token_bytes(KEY_BYTES))


def sealed(secret: Secret, value: str, key: Key) -> Secret:
    """The row with a value in it, under a key."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = secrets.token_bytes(_NONCE_BYTES)
    hidden = AESGCM(key.bytes).encrypt(nonce, value.encode(), _context(secret))
    return msgspec.structs.replace(secret, key=key.id, nonce=b64encode(nonce).decode(), sealed=b64encode(hidden).decode())


def opened(secret: Secret, keys: "Mapping[str, Key]") -> str:
    """A row's value.

    Raises:
        TransomError: data_loss when the row is not as it was written, failed_precondition when its key is not there.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    key = keys.get(secret.key)
    if key is None:
        raise TransomError(
            "failed_precondition", f"secret {secret.name!r} is encrypted with key {secret.key}, which is missing"
        )
    try:
        value = AESGCM(key.bytes).decrypt(b64decode(secret.nonce), b64decode(secret.sealed), _context(secret))
    except (InvalidTag, ValueError) as error:
        raise TransomError(
            "data_loss",
            f"secret {secret.name!r} of tenant {secret.tenant!r} is not as it was written; set it again",
        ) from error
    return value.decode()


def _context(secret: Secret) -> bytes:
    return msgspec.json.encode(["transom secret", secret.tenant, secret.name, secret.hosts, secret.signing])
