"""Tenants: the service that knows them from memory, and the operations that make and change them."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import anyio.to_thread
import msgspec

from transom_hookspecs import SYSTEM, Call, JsonObject, Operation, Origin, TenantSettings, TransomError, Tx

from .checks import check_name, check_text, few, is_operator, limit_of, taken, wrong
from .home import Home
from .origins import origin_of
from .records import Tenant
from .requests import (
    CreateTenant,
    GetTenant,
    ListTenants,
    TenantPage,
    TenantView,
    UpdateTenant,
    UpdateTenantOrigins,
)
from .rows import operation

TOPIC = "tenants"

_HOST = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*")
_BOUNDS: Mapping[str, tuple[int, int]] = {
    "retention_days": (1, 3_650),
    "audit_days": (1, 36_500),
    "wait_seconds": (60, 30 * 86_400),
    "recheck_seconds": (0, 30 * 86_400),
}


class TenantBook:
    """The service Tenants, and the handlers of tenants' operations."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._rows: dict[str, Tenant] = {}
        self._made: tuple[str, ...] = ()

    # -- the service

    def names(self) -> Sequence[str]:
        """The tenants that were made."""
        return self._made

    def settings(self, tenant: str) -> TenantSettings:
        """What a tenant's admins set."""
        row = self._rows.get(tenant)
        return _DEFAULTS if row is None else row.settings

    async def load(self) -> None:
        """Read all tenants."""
        rows: dict[str, Tenant] = {}
        after: tuple[str, ...] | None = None
        while page := await self._home.kernel.store.select(SYSTEM, Tenant, "all", after=after, limit=200):
            rows |= {row.name: row for row in page}
            after = (page[-1].name,)
        self._take(rows)

    async def follow(self) -> None:
        """Read them anew when another process changed one, until cancelled."""
        with self._home.kernel.topic(TOPIC) as changed:
            while True:
                await changed()
                try:
                    await self.load()
                except TransomError as error:
                    self._home.kernel.report("reading the tenants", error)

    def _take(self, rows: dict[str, Tenant]) -> None:
        self._rows = rows
        self._made = tuple(sorted(row.name for row in rows.values() if row.made))

    # -- the operations

    def operations(self) -> list[Operation]:
        """Their rows of the table."""
        return [
            operation(CreateTenant, TenantView, self.create, "tenants.manage", audit="tenant.create", command="tenant create"),
            operation(ListTenants, TenantPage, self.list, "tenants.read", command="tenant list"),
            operation(GetTenant, TenantView, self.get, "tenants.read", command="tenant show"),
            operation(UpdateTenant, TenantView, self.update, "tenants.manage", audit="tenant.update", command="tenant set"),
            operation(UpdateTenantOrigins, TenantView, self.cors, "tenants.manage", audit="tenant.cors", command="tenant cors"),
        ]

    async def create(self, call: Call, request: CreateTenant) -> TenantView:
        """Make a tenant."""
        if not is_operator(call.origin.caller):
            raise TransomError("permission_denied", "tenants are made by an operator of the process")
        name = check_name("name", request.name)
        known = {other.lower().replace("_", "-") for other in self._home.kernel.tenants()}

        def write(tx: Tx) -> Tenant:
            if name.lower().replace("_", "-") in known or tx.system.get(Tenant, name) is not None:
                raise taken("tenant", name)
            row = Tenant(name=name, created_at=tx.now)
            tx.system.put(row)
            tx.touch(TOPIC)
            return row

        row = await call.transact(write, object=name)
        self._take({**self._rows, name: row})
        return view(name, row.settings)

    async def list(self, call: Call, request: ListTenants) -> TenantPage:
        """All tenants, or the caller's."""
        limit = limit_of(request.limit)
        if not is_operator(call.origin.caller):
            return TenantPage(tenants=(view(call.origin.tenant, self.settings(call.origin.tenant)),))
        names = [name for name in sorted(self._home.kernel.tenants()) if name > request.cursor][:limit]
        cursor = names[-1] if len(names) == limit else ""
        return TenantPage(tenants=tuple(view(name, self.settings(name)) for name in names), cursor=cursor)

    async def get(self, call: Call, request: GetTenant) -> TenantView:
        """A tenant's settings."""
        if request.name != call.origin.tenant:
            return await self._elsewhere(call, request, request.name)
        return view(request.name, self.settings(request.name))

    async def update(self, call: Call, request: UpdateTenant) -> TenantView:
        """Change a tenant's settings."""
        if request.name != call.origin.tenant:
            return await self._elsewhere(call, request, request.name)
        changes = {f: v for f in request.__struct_fields__ if f != "name" and (v := getattr(request, f)) is not None}
        if "link_domain" in changes:
            changes["link_domains"] = changes.pop("link_domain")
        await check_settings(changes)
        return await self._change(call, lambda settings: msgspec.structs.replace(settings, **changes), changes)

    async def cors(self, call: Call, request: UpdateTenantOrigins) -> TenantView:
        """Change whose pages may read streams."""
        if request.name != call.origin.tenant:
            return await self._elsewhere(call, request, request.name)
        added = [_origin("allow_origin", each) for each in request.allow_origin]
        removed = {_origin("remove_origin", each) for each in request.remove_origin}
        if not added and not removed:
            return view(request.name, self.settings(request.name))

        def change(settings: TenantSettings) -> TenantSettings:
            kept = [each for each in dict.fromkeys((*settings.allowed_origins, *added)) if each not in removed]
            few("allow_origin", kept)
            return msgspec.structs.replace(settings, allowed_origins=tuple(kept))

        return await self._change(call, change, {"allow": added, "remove": sorted(removed)})

    async def _elsewhere(self, call: Call, request: msgspec.Struct, tenant: str) -> TenantView:
        """The same call about the tenant that it names; an operator of the process belongs to none, so may."""
        origin = call.origin
        if not is_operator(origin.caller):
            raise TransomError("permission_denied", f"no access to tenant {tenant[:63]!r}")
        about = Origin(tenant=tenant, caller=origin.caller, door=origin.door)
        answer: TenantView = await self._home.kernel.call(type(request).__name__, request, about)
        return answer

    async def _change(
        self, call: Call, change: Callable[[TenantSettings], TenantSettings], details: Mapping[str, Any]
    ) -> TenantView:
        name = call.origin.tenant

        def write(tx: Tx) -> Tenant:
            row = tx.system.get(Tenant, name) or Tenant(name=name, made=False, created_at=tx.now)
            row = msgspec.structs.replace(row, settings=change(row.settings))
            tx.system.put(row)
            tx.touch(TOPIC)
            return row

        told: JsonObject = msgspec.to_builtins(dict(details))
        row = await call.transact(write, object=name, details=told)
        self._take({**self._rows, name: row})
        return view(name, row.settings)


_DEFAULTS = TenantSettings()


def view(name: str, settings: TenantSettings) -> TenantView:
    """A tenant as callers see it."""
    return TenantView(name=name, **msgspec.structs.asdict(settings))


async def check_settings(changes: Mapping[str, Any]) -> None:
    """Check settings that were given.

    Raises:
        TransomError: invalid_argument, naming the setting.
    """
    for field, (least, most) in _BOUNDS.items():
        if field in changes and not least <= changes[field] <= most:
            raise wrong(field, f"{changes[field]} will not do", f"choose {least:,} to {most:,}")
    check_text("ai_label", changes.get("ai_label", ""), 40)
    if changes.get("public_url"):
        _check_url("public_url", changes["public_url"])
    domains = changes.get("link_domains", ())
    few("link_domain", domains)
    for domain in domains:
        if len(domain) > 253 or not _HOST.fullmatch(domain):
            raise wrong("link_domain", f"{domain[:60]!r} is no host", "write one such as example.com, in small letters")
    if "time_zone" in changes and not await anyio.to_thread.run_sync(_is_zone, changes["time_zone"]):
        raise wrong("time_zone", f"{changes['time_zone'][:60]!r} is no time zone", "write an IANA name such as Europe/Berlin")


def _check_url(field: str, url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    plain = url.isascii() and url.isprintable() and " " not in url and len(url) <= 500
    if not plain or parts.query or parts.fragment or origin_of(f"{parts.scheme}://{parts.netloc}") is None:
        raise wrong(field, "it is no address", "write one such as https://agents.example.com, without a query")


def _is_zone(name: str) -> bool:
    if name == "UTC":
        return True
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # KeyError: ZoneInfoNotFoundError is one
        return False
    return True


def _origin(field: str, text: str) -> str:
    origin = origin_of(text)
    if origin is None:
        raise wrong(field, f"{text[:60]!r} is no origin", "write scheme, host and perhaps a port, such as https://app.example")
    return origin
