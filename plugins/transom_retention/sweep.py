"""A sweep: everything of one tenant that retention removes, in short transactions, and what it came to."""

import logging
from collections.abc import Callable, Mapping
from functools import partial

import anyio
import msgspec

from transom_hookspecs import AuditEntry, Job, Kernel, Operation, StoreUnavailable, Tx
from transom_hookspecs import Call as OperationCall

from .thinning import PAGE, Thinning
from .trees import BUDGET, is_old, remove_replies, remove_slice

DAY = 86_400_000
CALLER, DOOR = "system:retention", "runtime"
SCRUB = 30.0
"""Seconds that other processes may keep the store's files from being scrubbed; they are later, in any case."""

log = logging.getLogger(__name__)


class RunRetention(msgspec.Struct, frozen=True, kw_only=True):
    """Remove now what is past its time; it is done by itself every hour."""


class RetentionDone(msgspec.Struct, frozen=True, kw_only=True):
    """What was removed.

    Parameters:
        trees, jobs: job trees, and how many jobs they had.
        deltas: text deltas whose text stays.
        replies: answers under Idempotency-Keys.
        details: details of audit entries that stay.
        entries: audit entries.
    """

    trees: int = 0
    jobs: int = 0
    deltas: int = 0
    replies: int = 0
    details: int = 0
    entries: int = 0

    @property
    def counts(self) -> Mapping[str, int]:
        """What is not zero."""
        return {name: count for name in self.__struct_fields__ if (count := getattr(self, name))}


class Sweeper:
    """Sweeps tenants, one after the other.

    Parameters:
        thin_days: how long a job has ended when its text deltas go.
    """

    kernel: Kernel
    """Set while the plugin runs."""

    def __init__(self, thin_days: int) -> None:
        self._thin_days = thin_days
        self._lock = anyio.Lock()

    def operation(self) -> Operation:
        """The row of RunRetention."""
        return Operation(
            name="RunRetention",
            request=RunRetention,
            response=RetentionDone,
            permission="retention.run",
            audit="retention.purge",
            handler=self.asked,
            command="retention run",
            description="Remove now what is past its time.",
        )

    async def asked(self, call: OperationCall, request: RunRetention) -> RetentionDone:
        """RunRetention: sweep the caller's tenant, and audit that whatever it came to."""
        done = await self.sweep(call.origin.tenant)
        await call.audit(details=dict(done.counts))
        return done

    async def often(self, delay: float, every: float) -> None:
        """Sweep every tenant after a delay and then every so often (seconds), until cancelled."""
        await anyio.sleep(delay)
        while True:
            for tenant in self.kernel.tenants():
                try:
                    await self._by_itself(tenant)
                except StoreUnavailable as error:
                    log.warning("retention of tenant %r goes on the next time: %s", tenant, error.message)
                except Exception as error:  # noqa: BLE001 - it is reported, and the other tenants have their turn
                    self.kernel.report(f"retention of tenant {tenant!r}", error)
            await anyio.sleep(every)

    async def _by_itself(self, tenant: str) -> None:
        done = await self.sweep(tenant)
        if done.counts:
            entry = AuditEntry(action="retention.purge", caller=CALLER, door=DOOR, details=dict(done.counts))
            await self.kernel.store.transact(tenant, lambda tx: _audit(tx, entry))

    async def sweep(self, tenant: str) -> RetentionDone:
        """Remove what is past its time, and wait until nothing of it is left in the store's files."""
        now, settings, store = self.kernel.clock.now(), self.kernel.settings(tenant), self.kernel.store
        before = now - settings.retention_days * DAY
        cut_before = (now - settings.audit_days * DAY) // DAY * DAY  # whole days, so that there is one cut a day
        async with self._lock:
            trees, jobs = await self._remove_trees(tenant, before)
            done = RetentionDone(
                trees=trees,
                jobs=jobs,
                replies=await self._in_slices(tenant, lambda tx: remove_replies(tx, before)),
                deltas=await Thinning(store, tenant, now - self._thin_days * DAY).run(),
                details=await self._in_slices(tenant, lambda tx: tx.audit_purge(before, BUDGET)),
                entries=await self._in_slices(tenant, lambda tx: _cut(tx, cut_before), relaxed=False),
            )
            if done.counts:
                with anyio.move_on_after(SCRUB) as late:
                    await store.scrub()
                if late.cancelled_caught:
                    log.warning("another process reads the store all the time; its files are scrubbed when it pauses")
        return done

    async def _remove_trees(self, tenant: str, before: int) -> tuple[int, int]:
        """Remove the trees that ended before a time: how many, and how many jobs they had."""
        store = self.kernel.store
        trees = jobs = 0
        after: tuple[int, str] = (before, "")  # what ended before it was created before it
        while page := await store.select(tenant, Job, "recent", {"top": True}, after=after, limit=PAGE):
            after = (page[-1].created_at, page[-1].id)
            for root in page:
                if is_old(root, before) and (had := await self._remove_tree(tenant, root.id, before)):
                    trees, jobs = trees + 1, jobs + had
        return trees, jobs

    async def _remove_tree(self, tenant: str, tree: str, before: int) -> int:
        remove = partial(remove_slice, records=self.kernel.records, tree=tree, before=before)
        while (had := await self.kernel.store.transact(tenant, remove, relaxed=True)) is None:
            pass
        return had

    async def _in_slices(self, tenant: str, remove: Callable[[Tx], int], *, relaxed: bool = True) -> int:
        """Remove until a slice is not full; returns how many went.

        Parameters:
            relaxed: a loss of power may bring the last of it back, for the next sweep; no audit entry may be in it.
        """
        total = 0
        while count := await self.kernel.store.transact(tenant, remove, relaxed=relaxed):
            total += count
            if count < BUDGET:
                break
        return total


def _cut(tx: Tx, before: int) -> int:
    cut = tx.audit_cut(before, BUDGET)
    if cut is None:
        return 0
    _audit(tx, cut.entry(CALLER, DOOR))
    return cut.entries


def _audit(tx: Tx, entry: AuditEntry) -> None:
    tx.audit(entry)
    tx.touch("audit")
