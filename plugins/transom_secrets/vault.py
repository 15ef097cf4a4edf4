"""The service Secrets, over a snapshot that follows the store."""

import hashlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import anyio
import anyio.to_thread

from transom_hookspecs import NEVER, SYSTEM, FilterScope, Kernel, TextFilter, TransomError

from .cipher import Key
from .hosts import bound
from .keys import Keys
from .records import Secret, SecretEnv
from .snapshot import Snapshot

_AGAIN: Final = 1.0
"""Seconds until the store is asked once more that could not say what changed."""


class Vault:
    """All secrets. Implements `transom_hookspecs.Secrets`; `open` gives it its kernel and keys."""

    def __init__(self) -> None:
        self._kernel: Kernel | None = None
        self._keys: Keys | None = None
        self._known: dict[str, Key] = {}
        self._now = Snapshot()
        self._lock = anyio.Lock()

    @property
    def kernel(self) -> Kernel:
        """The kernel, while the plugin runs."""
        if self._kernel is None:
            raise TransomError("unavailable", "the secrets are not open yet")
        return self._kernel

    @property
    def keys(self) -> Keys:
        """Where the keys are, while the plugin runs."""
        if self._keys is None:
            raise TransomError("unavailable", "the secrets are not open yet")
        return self._keys

    @property
    def snapshot(self) -> Snapshot:
        """The secrets as they are now."""
        return self._now

    async def open(self, kernel: Kernel, keys: Keys) -> None:
        """Read all secrets.

        Raises:
            TransomError: failed_precondition when there are secrets and the key is not there that they are encrypted with.
        """
        self._kernel, self._keys = kernel, keys
        await self.read()
        lost = [error for error in self._now.broken.values() if error.code == "failed_precondition"]
        if lost:
            raise TransomError(
                "failed_precondition",
                f"{lost[0].message} in {keys.where} (secrets that need it: {len(lost)}); restore that key from a backup",
            )

    async def follow(self, changed: Callable[[], Awaitable[None]]) -> None:
        """Read all secrets whenever some were changed, until cancelled."""
        missed = False
        while True:
            with anyio.move_on_after(_AGAIN if missed else None):
                await changed()
            missed = not await self._is_read()

    async def _is_read(self) -> bool:
        try:
            await self.read()
        except TransomError as error:
            self.kernel.report("reading changed secrets", error)
            return False
        return True

    async def read(self) -> None:
        """Make the snapshot of what the store has."""
        async with self._lock:
            store, before = self.kernel.store, self._now
            rows = await store.select(SYSTEM, Secret, "all", limit=NEVER)
            allowed = await store.select(SYSTEM, SecretEnv, "all", limit=NEVER)
            if not {row.key for row in rows} <= self._known.keys():
                self._known = {key.id: key for key in await anyio.to_thread.run_sync(self.keys.read)}
            self._now = await anyio.to_thread.run_sync(_made, rows, allowed, self._known, before)
        for place, error in self._now.broken.items():
            if place not in before.broken:
                self.kernel.report(f"reading a secret of tenant {place[0]!r}", error)

    async def used(self) -> str:
        """The ID of the key that every secret is encrypted with; empty when there is none."""
        return next((row.key for row in await self.kernel.store.select(SYSTEM, Secret, "all", limit=1)), "")

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[Keys]:
        """The keys, while no other process changes them; see `Keys.locked`."""
        lock = self.keys.locked(wait=False)
        await anyio.to_thread.run_sync(lock.__enter__)
        try:
            yield self.keys
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(lock.__exit__, None, None, None)

    # -- the service --------------------------------------------------------------------------------------

    def resolve(self, tenant: str, name: str, url: str) -> str:
        """A secret's value for a request; see `Secrets.resolve`."""
        secret, value = self._now.secret(tenant, name)
        if secret.signing:
            raise TransomError("permission_denied", f"secret {name!r} only signs, it is never sent; use another one")
        _require_bound(secret, url)
        return value

    def check_signing(self, tenant: str, name: str, url: str) -> None:
        """Whether a secret may sign for an address; see `Secrets.check_signing`."""
        self._signing(tenant, name, url)

    def sign(self, tenant: str, name: str, url: str, body: bytes) -> str:
        """A body's signature; see `Secrets.sign`."""
        return hmac.new(self._signing(tenant, name, url).encode(), body, hashlib.sha256).hexdigest()

    def _signing(self, tenant: str, name: str, url: str) -> str:
        secret, value = self._now.secret(tenant, name)
        if not secret.signing:
            raise TransomError(
                "permission_denied", f"secret {name!r} is no signing secret; set one with `transom secret set NAME --signing`"
            )
        _require_bound(secret, url)
        return value

    def environment(self, tenant: str, tool: str, names: Sequence[str]) -> Mapping[str, str]:
        """Plain values for a tool; see `Secrets.environment`."""
        given: dict[str, str] = {}
        for name in names:
            secret, given[name] = self._now.secret(tenant, name)
            if secret.signing:
                raise TransomError("permission_denied", f"secret {name!r} only signs, no tool gets it; use another one")
            if not self._now.allows(tenant, tool, name):
                raise TransomError(
                    "permission_denied",
                    f"tool {tool!r} was not allowed to have the value of secret {name!r}; an operator can allow it with "
                    f"`transom secret allow {tool} {name}`",
                )
        return given

    def redact(self, text: str) -> str:
        """A text for logs; see `Secrets.redact`."""
        for matcher in self._now.matchers():
            text = matcher.redacted(text)
        return text


def _made(rows: Sequence[Secret], allowed: Sequence[SecretEnv], keys: Mapping[str, Key], before: Snapshot) -> Snapshot:
    """A snapshot; called in a thread."""
    if rows:
        import httpx  # noqa: F401 - takes a tenth of a second, which no request should wait for
    return Snapshot(rows, allowed, keys, before)


def _require_bound(secret: Secret, url: str) -> None:
    import httpx

    address = httpx.URL(url)
    if not bound(secret.hosts, address, signing=secret.signing):
        at = f"{address.scheme}://{address.netloc.decode('ascii', 'replace')}"
        raise TransomError(
            "permission_denied",
            f"secret {secret.name!r} is not bound to {at}, it was not sent; an admin can bind it with "
            f"`transom secret set {secret.name} --host {address.netloc.decode('ascii', 'replace')}`",
        )


class SecretFilter:
    """The filter `secrets`: no value of a tenant's passes in any text of its own."""

    name = "secrets"

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def open(self, scope: FilterScope) -> TextFilter | None:
        """A filter for one text; None where the tenant has nothing to find."""
        matcher = self._vault.snapshot.matcher(scope.tenant)
        return matcher.stream() if matcher else None
