"""What the plugin keeps. All of it is under SYSTEM, so that one transaction changes the key of every tenant's secrets.

A row holds nothing of a value but its ciphertext. Times are milliseconds (Unix).
"""

from typing import Final

import msgspec

from transom_hookspecs import Index, Record

TOPIC: Final = "secrets"
"""Touched by whoever changes any of these; every process then reads them again."""


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant's secret.

    Parameters:
        hosts: where it may go or what it may sign for, each `host` or `host:port`.
        signing: it signs, and is never sent anywhere.
        key: the ID of the key that it is encrypted with.
        nonce, sealed: the encrypted value, in base64.
        rotated_at: when its value was last set.
    """

    tenant: str
    name: str
    hosts: tuple[str, ...]
    signing: bool
    key: str
    nonce: str
    sealed: str
    created_at: int
    rotated_at: int


class SecretEnv(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a tenant may have the plain value of a secret."""

    tenant: str
    tool: str
    name: str


class SecretKey(msgspec.Struct, frozen=True, kw_only=True):
    """The ID of the key that every secret is encrypted with. There is one row."""

    slot: str = "current"
    id: str


RECORDS: Final = (
    Record(type=Secret, key=("tenant", "name"), indexes=(Index("all", ("tenant", "name")),)),
    Record(type=SecretEnv, key=("tenant", "tool", "name"), indexes=(Index("all", ("tenant", "tool", "name")),)),
    Record(type=SecretKey, key=("slot",), indexes=(Index("all", ("slot",)),)),
)
