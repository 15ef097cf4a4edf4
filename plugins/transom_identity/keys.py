"""API keys: made, listed and revoked. A key's token is shown once."""

from datetime import UTC, datetime

import msgspec

from transom_hookspecs import NEVER, Call, Operation, Tx

from .checks import (
    check_name,
    check_no_more_than_own,
    check_scopes,
    check_text,
    missing,
    page,
    reads_content,
    seconds_of,
    taken,
    wrong,
)
from .credential_requests import CreatedKey, CreateKey, KeyPage, KeyView, ListKeys, RevokeKey
from .home import MEMBERS, Home, add_credential, forget_credential, owned
from .records import Credential, Key
from .requests import Done
from .rows import operation
from .tokens import digest, make, new_id

CAPABILITIES = ("subjects", "threads", "tooling", "knowledge", "files")
DAY = 86_400_000
LONGEST = 10 * 365 * 86_400
"""Seconds for which a key that expires is good at most."""


class KeyDesk:
    """The handlers of keys' operations."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._days: dict[tuple[str, str], int] = {}

    def operations(self) -> list[Operation]:
        """Their rows of the table."""
        return [
            operation(
                CreateKey, CreatedKey, self.create, "keys.manage", audit="key.create", command="key create", idempotent=True
            ),
            operation(ListKeys, KeyPage, self.list, "keys.manage", command="key list"),
            operation(RevokeKey, Done, self.revoke, "keys.manage", audit="key.revoke", command="key revoke"),
        ]

    async def create(self, call: Call, request: CreateKey) -> CreatedKey:
        """Make a key."""
        tenant, name = call.origin.tenant, check_name("name", request.name)
        scopes, label = check_scopes("scope", request.scope), check_text("label", request.label)
        if unknown := set(request.capability) - set(CAPABILITIES):
            raise wrong("capability", f"{min(unknown)[:40]!r} is none", f"there are {', '.join(CAPABILITIES)}")
        content = reads_content(request.role, request.content)
        await check_no_more_than_own(self._home, call, roles=(request.role,), content=content, scopes=scopes)
        life = seconds_of("expires", request.expires, LONGEST) * 1000 if request.expires else 0
        token = make("key")
        key = Key(
            name=name,
            hash=digest(token),
            role=request.role,
            label=label,
            scopes=scopes,
            content=request.content,
            capabilities=tuple(sorted(set(request.capability))),
        )

        def write(tx: Tx) -> CreatedKey:
            if self._home.shown(tx.get(Key, name)) is not None or self._home.configured.member("key", name, tenant) is not None:
                raise taken("key", name)
            expires = tx.now + life if life else NEVER
            tx.put(msgspec.structs.replace(key, created_at=tx.now, expires_at=expires))
            add_credential(tx, credential_of(key, tenant, expires))
            tx.touch(MEMBERS)  # one of this name may have been revoked
            return CreatedKey(name=name, expires_at=expires if life else 0)

        told = {"role": key.role, "scopes": list(scopes or ()), "capabilities": list(key.capabilities), "label": label}
        made = await call.transact(write, object=name, details=msgspec.to_builtins(told))
        self._home.changed()
        return msgspec.structs.replace(made, token=token)  # after the transaction: nothing that is kept has it

    async def list(self, call: Call, request: ListKeys) -> KeyPage:
        """The keys."""
        rows, cursor = await page(self._home, call.origin.tenant, Key, request)
        return KeyPage(keys=tuple(map(view, rows)), cursor=cursor)

    async def revoke(self, call: Call, request: RevokeKey) -> Done:
        """Revoke a key."""
        tenant = call.origin.tenant
        key = self._home.shown(await self._home.kernel.store.get(tenant, Key, request.name))
        if key is None:
            raise missing("key", request.name)
        await check_no_more_than_own(self._home, call, roles=(key.role,), scopes=key.scopes)

        def write(tx: Tx) -> Done:
            if not tx.delete(Key, key.name):
                raise missing("key", key.name)
            for row in owned(tx, tenant, f"key:{key.name}"):
                forget_credential(tx, row)
            tx.touch(MEMBERS)
            return Done()

        done = await call.transact(write, object=key.name)
        self._home.changed()
        return done

    def used(self, row: Credential) -> None:
        """Note the day on which a key was used last: one write a day and process."""
        kernel, key, day = self._home.kernel, (row.tenant, row.owner), self._home.kernel.clock.now() // DAY
        if self._days.get(key) != day:
            self._days[key] = day
            kernel.spawn(
                self._note, *key, datetime.fromtimestamp(day * DAY / 1000, UTC).date().isoformat(), name="use of a key"
            )

    async def _note(self, tenant: str, owner: str, day: str) -> None:
        def write(tx: Tx) -> None:
            key = tx.get(Key, owner.removeprefix("key:"))
            if key is not None and key.used_on < day:
                tx.update(key, used_on=day)

        await self._home.kernel.store.transact(tenant, write, relaxed=True)


def credential_of(key: Key, tenant: str, expires_at: int = NEVER) -> Credential:
    """What a key's token is known by."""
    return Credential(
        hash=key.hash,
        id=new_id(),
        form="key",
        tenant=tenant,
        owner=f"key:{key.name}",
        label=key.label,
        scopes=key.scopes,
        expires_at=expires_at,
        dev=key.dev,
    )


def view(key: Key) -> KeyView:
    """A key as callers see it."""
    return KeyView(
        name=key.name,
        role=key.role,
        label=key.label,
        scopes=key.scopes,
        content=key.content,
        capabilities=key.capabilities,
        created_at=key.created_at,
        expires_at=0 if key.expires_at == NEVER else key.expires_at,
        used_on=key.used_on,
    )
