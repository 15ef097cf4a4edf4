"""Secrets of tenants: encrypted at rest, given to agents and tools as placeholders, and kept out of every text.

    transom secret set github --host api.github.com          # asks for the value
    Authorization: Bearer {{secret:github}}                  # what an agent, a tool or a setting writes

A placeholder is resolved by the kernel's outbound transport, on its way to a host that the secret is bound to, and
nowhere else. A signing secret is never sent: it makes signatures. The key of the data folder is in its file
`secrets.key`; settings take it from a variable or from the OS keyring instead.

Read in this order: `records`, `cipher` and `keys` (at rest), `vault` (in memory), `matching` (the filter), `operations`.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from transom_hookspecs import Filter, Kernel, Operation, Record, Secrets, Service, TransomError, hookimpl

from .keys import FileKeeper, KeyringKeeper, Keys, VariableKeeper
from .operations import SecretOperations
from .records import RECORDS, TOPIC
from .vault import SecretFilter, Vault


class SecretsPlugin:
    """Provides the service Secrets, the filter of their values, and the operations on them."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """Settings: where the key is.

        Parameters:
            key_env: the name of a variable that holds it in base64, instead of the file; while it is changed, the new
                one and the old one, with a space between.
            keyring: it is in the OS keyring (needs `pip install transom[keyring]`).
        """

        key_env: str = ""
        keyring: bool = False

    def __init__(self, config: Config) -> None:
        if config.key_env and config.keyring:
            raise TransomError("invalid_argument", "[secrets]: key_env and keyring say two places of the key; leave one out")
        self._config = config
        self._vault = Vault()

    @asynccontextmanager
    async def run(self, kernel: Kernel) -> AsyncIterator[None]:
        """Read the secrets, and follow what changes of them."""
        with kernel.topic(TOPIC) as changed:
            await self._vault.open(kernel, await anyio.to_thread.run_sync(self._keys, Path(kernel.data)))
            kernel.spawn(self._vault.follow, changed, name="changes of secrets")
            yield

    def _keys(self, folder: Path) -> Keys:
        if self._config.key_env:
            return Keys(VariableKeeper(self._config.key_env, os.environ), folder)
        return Keys(KeyringKeeper(folder) if self._config.keyring else FileKeeper(folder), folder)

    @hookimpl
    def register_records(self) -> list[Record]:
        """The encrypted secrets, and what tools were allowed of them."""
        return list(RECORDS)

    @hookimpl
    def register_services(self) -> list[Service]:
        """The secrets."""
        return [Service(protocol=Secrets, provider=self._vault)]

    @hookimpl
    def register_filters(self) -> list[Filter]:
        """The filter of their values."""
        return [SecretFilter(self._vault)]

    @hookimpl
    def register_operations(self) -> list[Operation]:
        """SetSecret, ListSecrets, DeleteSecret, ApproveSecretEnv and RotateSecretKey."""
        return SecretOperations(self._vault).operations()
