"""Tidying: what ended jobs still hold is settled, and counters of windows that are long over go.

What is held counts against its caps like what was used, so nothing depends on when this happens.
"""

from collections.abc import Sequence
from functools import partial
from typing import TypeVar

import msgspec

from transom_hookspecs import Job, Kernel, Store, Tx

from .ledger import settle_as_held
from .records import RECORDS, Counter, Held

R = TypeVar("R", bound=msgspec.Struct)

PAGE = 200
KEPT = 86_400_000
"""Milliseconds for which a counter is kept after its window."""

_KEYS = {record.type: record.key for record in RECORDS}


async def every(store: Store, tenant: str, type: type[R]) -> list[R]:
    """Every record of a type, in the order of its key; for those that are few."""
    found: list[R] = []
    while True:
        after = tuple(getattr(found[-1], part) for part in _KEYS[type]) if found else None
        page = await store.select(tenant, type, "all", after=after, limit=PAGE)
        found += page
        if len(page) < PAGE:
            return found


async def sweep(kernel: Kernel, tenant: str) -> None:
    """Tidy up in one tenant."""
    left = [held for held in await every(kernel.store, tenant, Held) if await _ended(kernel.store, tenant, held.job)]
    if left:
        await kernel.store.transact(tenant, lambda tx: _settle(tx, left))
    over = await kernel.store.select(tenant, Counter, "over", limit=PAGE)
    while over and over[0].ends_at + KEPT < kernel.clock.now():
        await kernel.store.transact(tenant, partial(_remove, over))
        over = await kernel.store.select(tenant, Counter, "over", limit=PAGE)


async def _ended(store: Store, tenant: str, identity: str) -> bool:
    job = await store.get(tenant, Job, identity)
    return job is None or job.ended


def _settle(tx: Tx, left: Sequence[Held]) -> None:
    """Charge what is still held of it; another process may have been faster."""
    settle_as_held(tx, [held for held in left if tx.get(Held, held.job, held.step, held.attempt) is not None])


def _remove(over: Sequence[Counter], tx: Tx) -> None:
    for counter in over:
        if counter.ends_at + KEPT < tx.now:
            tx.delete(Counter, counter.kind, counter.name, counter.what, counter.window, counter.start)
