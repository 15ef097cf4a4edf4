"""The operations on secrets. Values come in and never go out: no answer, error or audit entry has one."""

from collections.abc import Iterable
from functools import partial
from typing import Final

import anyio
import anyio.to_thread
import msgspec

from transom_hookspecs import NAME, NEVER, Call, JsonObject, Operation, TransomError, Tx

from .cipher import Key, new_key, opened, sealed
from .hosts import binding
from .records import TOPIC, Secret, SecretEnv, SecretKey
from .requests import (
    ApproveSecretEnv,
    DeleteSecret,
    ListSecrets,
    RotateSecretKey,
    SecretDone,
    SecretPage,
    SecretView,
    SetSecret,
)
from .vault import Vault

MOST_BYTES: Final = 64 * 1024
MOST_HOSTS: Final = 50
MOST_SECRETS: Final = 1_000
"""How long a value may be, and how many hosts one has and secrets a tenant."""

_TRIES: Final = 3


class _KeyChanged(Exception):
    """Another key came into use between the look at it and the transaction."""


class SecretOperations:
    """SetSecret, ListSecrets, DeleteSecret, ApproveSecretEnv and RotateSecretKey."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def operations(self) -> list[Operation]:
        """Their rows of the table."""
        return [
            Operation(
                name="SetSecret",
                request=SetSecret,
                response=SecretView,
                permission="secrets.manage",
                audit="secret.set",
                handler=self.set,
                command="secret set",
                secret=("value",),
                description="Set a secret: a new one, or a new value, hosts and use of one that is there.",
            ),
            Operation(
                name="ListSecrets",
                request=ListSecrets,
                response=SecretPage,
                permission="secrets.read",
                handler=self.list,
                command="secret list",
                description="The tenant's secrets by name, never their values.",
            ),
            Operation(
                name="DeleteSecret",
                request=DeleteSecret,
                response=SecretDone,
                permission="secrets.manage",
                audit="secret.delete",
                handler=self.delete,
                command="secret delete",
                description="Delete a secret, and what tools were allowed of it.",
            ),
            Operation(
                name="ApproveSecretEnv",
                request=ApproveSecretEnv,
                response=SecretView,
                permission="secrets.allow",
                audit="secret.allow",
                handler=self.allow,
                command="secret allow",
                description="Let a tool have a secret's plain value.",
            ),
            Operation(
                name="RotateSecretKey",
                request=RotateSecretKey,
                response=SecretDone,
                permission="secrets.manage",
                audit="secret.rotate",
                handler=self.rotate,
                command="secret rotate",
                description="Encrypt every tenant's secrets with a new key, at once.",
            ),
        ]

    async def set(self, call: Call, request: SetSecret) -> SecretView:
        """SetSecret."""
        hosts = await anyio.to_thread.run_sync(_checked, request)
        now = self._vault.kernel.clock.now()
        secret = Secret(
            tenant=call.origin.tenant,
            name=request.name,
            hosts=hosts,
            signing=request.signing,
            key="",
            nonce="",
            sealed="",
            created_at=now,
            rotated_at=now,
        )
        details: JsonObject = {"hosts": list(hosts), "signing": request.signing}
        for _ in range(_TRIES):
            key = await self._current()
            row = await anyio.to_thread.run_sync(sealed, secret, request.value, key)
            try:
                await call.transact(partial(_put, row=row, key=key), object=request.name, details=details)
            except _KeyChanged:
                continue
            await self._vault.read()
            return self._view(call, request.name)
        raise TransomError("aborted", "the key of the secrets was changed meanwhile; try again")

    async def _current(self) -> Key:
        """The key that is in use; before the first secret, the first one, which is made when there is none.

        Raises:
            TransomError: failed_precondition when it is not where it should be.
        """
        used, keys = await self._vault.used(), self._vault.keys
        known = await anyio.to_thread.run_sync(keys.read if used else keys.made)
        for key in known:
            if key.id == used or not used:
                return key
        raise TransomError(
            "failed_precondition", f"the secrets' key {used} is missing in {keys.where}; restore that key from a backup"
        )

    async def list(self, call: Call, request: ListSecrets) -> SecretPage:
        """ListSecrets."""
        names = sorted(name for tenant, name in self._vault.snapshot.rows if tenant == call.origin.tenant)
        return SecretPage(secrets=tuple(self._view(call, name) for name in names))

    async def delete(self, call: Call, request: DeleteSecret) -> SecretDone:
        """DeleteSecret."""
        tenant = call.origin.tenant

        def write(tx: Tx) -> None:
            if not tx.system.delete(Secret, tenant, request.name):
                raise _missing(request.name)
            for each in tx.system.select(SecretEnv, "all", {"tenant": tenant}, limit=NEVER):
                if each.name == request.name:
                    tx.system.delete(SecretEnv, tenant, each.tool, each.name)
            tx.touch(TOPIC)

        await call.transact(write, object=request.name)
        await self._vault.read()
        return SecretDone()

    async def allow(self, call: Call, request: ApproveSecretEnv) -> SecretView:
        """ApproveSecretEnv."""
        tenant = call.origin.tenant
        if not NAME.match(request.tool):
            raise TransomError("invalid_argument", f"tool: {request.tool[:63]!r} is no tool's name; leave the function out")

        def write(tx: Tx) -> None:
            if tx.system.get(Secret, tenant, request.name) is None:
                raise _missing(request.name)
            if request.revoke:
                tx.system.delete(SecretEnv, tenant, request.tool, request.name)
            else:
                tx.system.put(SecretEnv(tenant=tenant, tool=request.tool, name=request.name))
            tx.touch(TOPIC)

        await call.transact(write, object=request.name, details={"tool": request.tool, "revoke": request.revoke})
        await self._vault.read()
        return self._view(call, request.name)

    async def rotate(self, call: Call, request: RotateSecretKey) -> SecretDone:
        """RotateSecretKey: the new key is kept beside the old one before a row has it, and the old one until none has it."""
        if call.origin.caller.kind != "operator":
            raise TransomError("permission_denied", "only an operator of the process may change the key of the secrets")
        with anyio.CancelScope(shield=True):
            async with self._vault.locked() as keys:
                await self._vault.read()
                for error in self._vault.snapshot.broken.values():
                    raise error
                known = await anyio.to_thread.run_sync(keys.read)
                new = new_key() if keys.writable else await self._given(known)
                if keys.writable:
                    await anyio.to_thread.run_sync(keys.write, [*known, new])
                count = await call.transact(lambda tx: _all_under(tx, new, known), details={"key": new.id})
                if keys.writable:
                    await anyio.to_thread.run_sync(keys.write, [new])
            await self._vault.read()
        return SecretDone(secrets=count)

    async def _given(self, known: Iterable[Key]) -> Key:
        """The new key, where an operator sets the keys: the first of them."""
        first, where = next(iter(known), None), self._vault.keys.where
        if first is None or first.id == await self._vault.used():
            raise TransomError(
                "failed_precondition",
                f"{where} begins with the key that is in use; put a new one before it, restart every process, and try again",
            )
        return first

    def _view(self, call: Call, name: str) -> SecretView:
        snapshot, tenant = self._vault.snapshot, call.origin.tenant
        row = snapshot.rows.get((tenant, name))
        if row is None:
            raise _missing(name)
        return SecretView(
            name=name,
            hosts=row.hosts,
            signing=row.signing,
            tools=snapshot.tools(tenant, name),
            filtered=snapshot.is_filtered(tenant, name),
            created_at=row.created_at,
            rotated_at=row.rotated_at,
        )


def _checked(request: SetSecret) -> tuple[str, ...]:
    """The hosts of a request that is sound.

    Raises:
        TransomError: invalid_argument; the value is not in it.
    """
    if not NAME.match(request.name):
        raise TransomError(
            "invalid_argument", "name: must be 1 to 63 letters, digits, - and _, and begin with a letter or digit"
        )
    try:
        size = len(request.value.encode())
    except UnicodeEncodeError:
        raise TransomError("invalid_argument", "value: has half a surrogate pair in it, which is no text") from None
    if not 1 <= size <= MOST_BYTES:
        raise TransomError("invalid_argument", f"value: has {size} bytes; it must have 1 to {MOST_BYTES}")
    if not request.value.strip():
        raise TransomError("invalid_argument", "value: is white space alone; give the secret itself")
    if len(request.host) > MOST_HOSTS:
        raise TransomError("invalid_argument", f"host: at most {MOST_HOSTS}")
    if request.signing and not request.host:
        raise TransomError("invalid_argument", "host: a signing secret needs the host that it signs for")
    return tuple(dict.fromkeys(binding(host) for host in request.host))


def _put(tx: Tx, row: Secret, key: Key) -> None:
    """Write a secret, under the key that all are under."""
    used = tx.system.get(SecretKey, "current")
    if used is None or (used.id != key.id and not tx.system.select(Secret, "all", limit=1)):
        tx.system.put(SecretKey(id=key.id))
    elif used.id != key.id:
        raise _KeyChanged
    before = tx.system.get(Secret, row.tenant, row.name)
    if before is None and tx.system.count(Secret, "all", {"tenant": row.tenant}) >= MOST_SECRETS:
        raise TransomError("resource_exhausted", f"the tenant has {MOST_SECRETS} secrets, its limit; delete one first")
    tx.system.put(msgspec.structs.replace(row, created_at=before.created_at) if before else row)
    tx.touch(TOPIC)


def _all_under(tx: Tx, new: Key, known: Iterable[Key]) -> int:
    """Encrypt every secret anew; how many there are."""
    keys = {key.id: key for key in known}
    rows = tx.system.select(Secret, "all", limit=NEVER)
    for row in rows:
        tx.system.put(sealed(row, opened(row, keys), new))
    tx.system.put(SecretKey(id=new.id))
    tx.touch(TOPIC)
    return len(rows)


def _missing(name: str) -> TransomError:
    return TransomError("not_found", f"there is no secret {name!r} here")
