"""What the plugin's parts share: the kernel, the settings' callers, and what was read of members and credentials."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import anyio
import msgspec

from transom_hookspecs import NEVER, SYSTEM, Caller, CallerKind, Kernel, Member, TransomError, Tx

from .cache import Cache
from .callers import Configured
from .records import App, Credential, Key, Person, Team, TeamMember

Known = tuple[Credential, Caller]
"""A credential, and the caller that it makes."""

CREDENTIALS = "keys"
MEMBERS = "people"
"""Topics of changes: credentials that are gone, and members that changed."""

SWEEP = 600.0
"""Seconds between two looks for expired credentials."""

_Dev = TypeVar("_Dev", Person, Key, App, Credential)


class Home:
    """Shared by all parts; `kernel` is set while the plugin runs.

    Parameters:
        configured: the callers of transom.toml.
    """

    kernel: Kernel

    def __init__(self, configured: Configured) -> None:
        self.configured = configured
        self.known: Cache[str, Known] = Cache()
        self.members: Cache[tuple[str, str, str, str], tuple[Member, int]] = Cache()

    async def follow(self) -> None:
        """Forget what another process changed, until cancelled."""

        async def forget(topic: str, clear: Callable[[], None]) -> None:
            with self.kernel.topic(topic) as changed:
                while True:
                    await changed()
                    clear()

        self.kernel.spawn(forget, MEMBERS, self.members.clear, name="changes of people")
        await forget(CREDENTIALS, self.known.clear)

    def now(self) -> int:
        """The time in milliseconds (Unix)."""
        return self.kernel.clock.now()

    def has_store(self) -> bool:
        """Whether there is a store; without one there are the callers of transom.toml, and nobody else."""
        try:
            return self.kernel.store is not None
        except TransomError:
            return False

    def changed(self) -> None:
        """This process changed something: what is known may be old."""
        self.known.clear()
        self.members.clear()

    def shown(self, row: _Dev | None) -> _Dev | None:
        """A row, unless it is of development mode and this is not."""
        return row if row is None or not row.dev or self.kernel.dev else None

    async def sweep(self) -> None:
        """Delete what has expired, every few minutes, until cancelled."""

        def write(tx: Tx) -> bool:
            rows = tx.select(Credential, "expiry")
            expired = [row for row in rows if row.expires_at <= tx.now]
            for row in expired:
                forget_credential(tx, row)
            return bool(rows) and len(expired) == len(rows)

        while True:
            try:
                while await self.kernel.store.transact(SYSTEM, write, relaxed=True):
                    pass
            except TransomError as error:
                self.kernel.report("deleting expired credentials", error)
            await anyio.sleep(SWEEP)

    # -- credentials

    async def credential(self, hash: str) -> Known | None:
        """The credential with this hash, and its caller; None when there is none, or it has expired."""
        known = await self.known.get(hash, self._read_credential)
        return known if known is not None and known[0].expires_at > self.kernel.clock.now() else None

    async def _read_credential(self, hash: str) -> Known | None:
        row = self.shown(await self.kernel.store.get(SYSTEM, Credential, hash))
        return None if row is None else (row, caller_of(row))

    # -- members

    async def member(self, caller: Caller, tenant: str) -> Member | None:
        """What the tenant knows of a caller now."""
        if caller.tenant != tenant or not tenant:
            return None
        via = caller.via if caller.via.startswith(("app:", "key:")) else ""
        found = await self.members.get((tenant, caller.kind, caller.id, via), self._read_member)
        return found[0] if found is not None and found[1] > self.kernel.clock.now() else None

    async def _read_member(self, asked: tuple[str, str, str, str]) -> tuple[Member, int] | None:
        tenant, kind, id, via = asked
        if kind == "person":
            return await self._person(tenant, id, via)
        if kind == "subject":
            of_key = await self._key(tenant, via.removeprefix("key:"))
            if of_key is None:
                return None
            rights = tuple(right for right in of_key[0].rights if right != "capability.subjects")
            return Member(rights=rights, scopes=of_key[0].scopes), of_key[1]
        if kind == "key":
            return await self._key(tenant, id)
        member = self.configured.member(kind, id, tenant)
        return None if member is None else (member, NEVER)

    async def _person(self, tenant: str, id: str, via: str) -> tuple[Member, int] | None:
        scopes = None
        if via:
            app = self.shown(await self.kernel.store.get(tenant, App, via.removeprefix("app:")))
            if app is None:
                return None
            scopes = app.scopes
        member = self.configured.member("person", id, tenant)
        person = None if member else self.shown(await self.kernel.store.get(tenant, Person, id))
        if person is not None and not person.disabled:
            teams = await self.kernel.store.select(tenant, TeamMember, "person", {"person": id})
            names = tuple(each.team for each in teams)
            member = Member(role=person.role, teams=names, content=person.content, rights=person.rights)
        if member is None:
            return None
        return (msgspec.structs.replace(member, scopes=narrower(member.scopes, scopes)), NEVER)

    async def _key(self, tenant: str, name: str) -> tuple[Member, int] | None:
        member = self.configured.member("key", name, tenant)
        if member is not None:
            return member, NEVER
        key = self.shown(await self.kernel.store.get(tenant, Key, name))
        if key is None:
            return None
        rights = tuple(f"capability.{each}" for each in key.capabilities)
        return Member(role=key.role, content=key.content, rights=rights, scopes=key.scopes), key.expires_at

    async def has_team(self, tenant: str, team: str) -> bool:
        """Whether the tenant has such a team."""
        return await self.kernel.store.get(tenant, Team, team) is not None


_KINDS: dict[str, CallerKind] = {"person": "person", "key": "key", "subject": "subject", "app": "service"}


def caller_of(row: Credential) -> Caller:
    """The caller that a credential makes."""
    kind, _, id = row.owner.partition(":")
    via = f"app:{row.app}" if row.app else f"session:{row.id}" if row.form == "ses" else f"key:{row.key}" if row.key else ""
    return Caller(
        kind=_KINDS[kind],
        id=id,
        tenant=row.tenant,
        via=via,
        label=row.label if kind in ("key", "subject") else "",
        scopes=row.scopes,
    )


def narrower(one: Iterable[str] | None, other: Iterable[str] | None) -> tuple[str, ...] | None:
    """What both scopes reach."""
    if one is None or other is None:
        rest = other if one is None else one
        return None if rest is None else tuple(rest)
    return tuple(sorted(set(one) & set(other)))


def owned(tx: Tx, tenant: str, owner: str) -> list[Credential]:
    """The credentials that speak for an owner (`person:anna`), inside a transaction."""
    return tx.system.select(Credential, "owner", {"tenant": tenant, "owner": owner}, limit=NEVER)


def made_by_app(tx: Tx, tenant: str, app: str) -> list[Credential]:
    """The tokens that an app has for people, inside a transaction."""
    return tx.system.select(Credential, "app", {"tenant": tenant, "app": app}, limit=NEVER)


def forget_credential(tx: Tx, row: Credential) -> int:
    """Delete a credential, inside a transaction, and all that were made with it; how many."""
    system = tx.system
    gone = int(system.delete(Credential, row.hash))
    while made := system.select(Credential, "parent", {"parent": row.hash}):
        gone += sum(forget_credential(tx, each) for each in made)
    tx.touch(CREDENTIALS)
    return gone


def add_credential(tx: Tx, row: Credential) -> Credential:
    """Keep a credential, inside a transaction, unless what it is made with is gone by now.

    Raises:
        TransomError: unauthenticated when it is.
    """
    if row.parent and tx.system.get(Credential, row.parent) is None:
        raise TransomError("unauthenticated", "what the credential is made with was revoked a moment ago")
    tx.system.put(msgspec.structs.replace(row, created_at=tx.now))
    return row
