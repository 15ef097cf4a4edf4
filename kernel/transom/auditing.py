"""Telling audit receivers: each has a cursor of its own, and gets every entry at least once, in order."""

from typing import TYPE_CHECKING

import anyio
import msgspec

from transom_hookspecs import SYSTEM, AuditCursor, AuditEntry, JsonObject, Origin, TransomError, Tx

from .dispatch import OFF_AFTER, Impl, log
from .filters import Filters

if TYPE_CHECKING:
    from .core import Core

LOOK = 5.0
"""Seconds between two looks at what other processes audited; what this one audits is told at once."""


def audit(core: "Core", tx: Tx, entry: AuditEntry) -> None:
    """Add an entry to the trail, its words filtered, and wake those who are told of it."""
    details = Filters(core.filters, tx.tenant).object("person", entry.details)
    tx.audit(msgspec.structs.replace(entry, details=details))
    if core.hooks.has("on_audit"):
        tx.touch("audit")


async def audit_refusal(core: "Core", origin: Origin, error: TransomError, object: str, details: JsonObject) -> None:
    """Audit that a start or a step found no room under a cap; `object` is the job."""
    caller = origin.caller
    entry = AuditEntry(
        action="run.refused",
        caller=f"{caller.kind}:{caller.id}",
        via=caller.via,
        door=origin.door,
        object=object,
        outcome="refused",
        details={**details, **error.details},
    )
    await core.store.transact(origin.tenant, lambda tx: audit(core, tx, entry))


async def tell(core: "Core") -> None:
    """Tell every receiver of what is new, until cancelled."""
    async with anyio.create_task_group() as tasks:
        for impl in core.hooks.impls["on_audit"]:
            tasks.start_soon(_tell_one, core, impl)


async def _tell_one(core: "Core", impl: Impl) -> None:
    with core.topic("audit") as changed:
        while impl.failures < OFF_AFTER:
            try:
                told = [await _tell_of(core, impl, tenant) for tenant in core.tenants()]
            except TransomError as error:
                log.warning("audit receivers go on when the store takes work again: %s", error.message)
                told = []
            if not any(told):
                with anyio.move_on_after(LOOK):
                    await changed()
    core.hooks.switched_off.append(f"plugin {impl.plugin!r}: on_audit is off after {OFF_AFTER} failures in a row")


async def _tell_of(core: "Core", impl: Impl, tenant: str) -> bool:
    """Tell a receiver of a page of one tenant's new entries; whether there were any."""
    cursor = await core.store.get(SYSTEM, AuditCursor, impl.plugin, tenant)
    rows = await core.store.audit(tenant, cursor.number if cursor else 0)
    if not rows:
        return False
    try:
        await impl.call(tenant, rows) if impl.is_async else impl.call(tenant, rows)
    except Exception:  # noqa: BLE001 - logged and counted; it is told of them again
        impl.failures += 1
        log.exception("plugin %r failed in on_audit (%d in a row)", impl.plugin, impl.failures)
        await anyio.sleep(2**impl.failures / 10)
        return True
    impl.failures = 0
    done = AuditCursor(plugin=impl.plugin, tenant=tenant, number=rows[-1].number)
    try:
        await core.store.transact(SYSTEM, lambda tx: tx.put(done), relaxed=True)
    except TransomError as error:
        log.warning("plugin %r is told of the same audit entries again: %s", impl.plugin, error.message)
    return True
