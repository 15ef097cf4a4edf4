"""Which processes advance jobs on this store: each keeps a row, so that others can tell, and take over when it is gone."""

from typing import TYPE_CHECKING

from transom_hookspecs import SYSTEM, Worker

if TYPE_CHECKING:
    from .core import Core


async def enroll(core: "Core") -> None:
    """Be known as a worker: at the start of one that advances all jobs, else before its first job."""
    if not core.enrolled:
        worker = Worker(id=core.store.worker, started_at=core.clock.now())
        await core.store.transact(SYSTEM, lambda tx: tx.put(worker))
        core.enrolled = True


async def attended(core: "Core") -> bool:
    """Whether another process, which is alive, advances jobs here."""
    for worker in await core.store.select(SYSTEM, Worker, "all"):
        if worker.id != core.store.worker and await core.store.alive(worker.id):
            return True
    return False


async def free(core: "Core") -> None:
    """Free what workers hold whose processes are gone."""
    for worker in await core.store.select(SYSTEM, Worker, "all"):
        if worker.id != core.store.worker and not await core.store.alive(worker.id):
            await core.release(worker.id)
