"""Claiming a job: by raising its epoch, in the transaction that also settles what of it is overdue."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from transom_hookspecs import NEVER, SYSTEM, CallEnded, ErrorInfo, EventWait, Job, JobInput, Json, Lease, Step, Tx, Wait

from . import decisions
from .tree import Ended, TreeWork

if TYPE_CHECKING:
    from .core import Core


HOLD = "0"
"""The key of the step that waits for a person before any of the agent's code is run."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A job that this worker may advance, as it stood when it was claimed.

    Parameters:
        deaths: how many workers in a row died with it before it had done another step.
    """

    job: Job
    epoch: int
    input: Json
    steps: tuple[Step, ...] = ()
    deaths: int = 0


def claim(tx: Tx, worker: str, identity: str) -> Claim | None:
    """Take a job that is due; None when it has ended, is not due, or is another worker's.

    What is overdue is settled on the way: the job's own deadline, its waits and its timers.
    """
    lease = tx.system.get(Lease, tx.tenant, identity)
    if lease is None or lease.worker not in ("", worker) or (not lease.worker and lease.at > tx.now):
        return None
    job = tx.get(Job, identity)
    assert job is not None
    work = TreeWork(tx, job.tree)
    if tx.now >= job.deadline:
        work.end(job, timed_out(job))
        work.finish()
        return None
    settle_due(work, tx.select(Step, "job", {"job": identity}, limit=NEVER))
    job = tx.get(Job, identity)
    assert job is not None
    job = work.count(job, status="running", counted=True, started_at=job.started_at or tx.now)
    work.finish()
    given = tx.get(JobInput, identity)
    steps = tx.select(Step, "job", {"job": identity}, limit=NEVER)
    done = sum(step.state == "done" for step in steps if step.key != HOLD)
    deaths = 0 if done > lease.done else lease.deaths
    tx.system.update(lease, epoch=lease.epoch + 1, worker=worker, at=NEVER, deaths=deaths, done=done)
    value = given.value if given else None
    return Claim(job=job, epoch=lease.epoch + 1, input=value, steps=tuple(steps), deaths=deaths)


def settle_due(work: TreeWork, steps: Sequence[Step]) -> None:
    """End what waits past its time: a wait for a person is declined, a timer is over."""
    tx = work.tx
    for step in steps:
        if step.state != "waiting" or not step.until or tx.now < step.until:
            continue
        open_waits = tx.select(Wait, "job", {"job": step.job, "open": True}, limit=NEVER)
        wait = next((w for w in open_waits if w.step == step.key), None)
        if wait is not None:
            decisions.expire_in(work, wait)
        else:
            if step.kind == "event" and (waiting := tx.get(EventWait, step.name, step.job, step.key)):
                work.no_longer_awaits(waiting)
            work.settle_step(step)
            if step.call:
                work.log(CallEnded(job=step.job, call=step.call))


def timed_out(job: Job) -> Ended:
    """How a job ends at its deadline."""
    message = f"job {job.id} did not end within its time"
    return Ended(status="timed_out", error=ErrorInfo(code="deadline_exceeded", message=message))


async def due(core: "Core", tenant: str, identity: str) -> bool:
    """Whether a claim is worth a transaction."""
    if (tenant, identity) in core.starting:
        return False  # the start that just committed it hands over its claim
    lease = await core.store.get(SYSTEM, Lease, tenant, identity)
    return lease is not None and (lease.worker == core.store.worker or (not lease.worker and lease.at <= core.clock.now()))
