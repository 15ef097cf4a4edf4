"""Branches of a job that run at once, and what becomes of those that lose."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import anyio
import msgspec

from transom_hookspecs import (
    RUNTIME_ERRORS,
    CallEnded,
    ErrorInfo,
    EventWait,
    Job,
    Step,
    TransomError,
    Wait,
    WaitDecided,
)

from .groups import in_words
from .tree import Ended, TreeWork

if TYPE_CHECKING:
    from .run import JobRun


ABANDONED = ErrorInfo(code="canceled", message="another branch ended first", details={"reason": "abandoned"})

log = logging.getLogger("transom.jobs")


async def fan_out(run: "JobRun", branches: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Run branches at once and wait for all; the first error, cleaned of its group, is raised."""
    if not branches:
        return
    others = len(branches) - 1
    run.live += others

    async def one(branch: Callable[[], Awaitable[None]]) -> None:
        nonlocal others
        await branch()
        if others:
            others -= 1
            await run.branch_ended()

    try:
        async with anyio.create_task_group() as group:
            for branch in branches:
                group.start_soon(one, branch)
    except BaseExceptionGroup as errors:
        raise first_error(errors) from errors
    finally:
        run.live -= others


async def record_failure(run: "JobRun", key: str, kind: str, error: Exception) -> TransomError:
    """Record that branches failed, so that every replay fails the same; returns the error to raise.

    What a branch raised that is no TransomError becomes one, in the first life too.
    """
    if isinstance(error, RUNTIME_ERRORS):
        raise error
    if not isinstance(error, TransomError):
        log.error("a branch of job %s raised", run.job.id, exc_info=error)
        error = TransomError("internal", f"a branch raised {in_words(error)}")
    error = run.filters.raised(error)
    step = msgspec.structs.replace(run.journal.step(key, kind, "", "done"), error=error.info())
    await record_and_abandon(run, key, step, keep=-1)
    return error


async def record_and_abandon(run: "JobRun", key: str, step: Step, *, keep: int) -> None:
    """Record how branches ended, and cancel what those that lost still wait for or were about to do."""
    lost = [
        s
        for s in run.journal.steps.values()
        if s.state != "done" and s.key.startswith(f"{key}.") and not s.key.startswith(f"{key}.{keep + 1}.")
    ]
    run.journal.record(step)
    for each in lost:
        run.journal.steps[each.key] = msgspec.structs.replace(each, state="done", error=ABANDONED)
    if lost:
        await run.journal.write(lambda work: abandon(work, lost))


def abandon(work: TreeWork, steps: Sequence[Step]) -> None:
    """Cancel the children and waits of steps that nobody waits for any more."""
    tx = work.tx
    for step in steps:
        kept = tx.get(Step, step.job, step.key) or step
        child = tx.get(Job, kept.child) if kept.child else None
        if kept.state != "done":
            tx.put(msgspec.structs.replace(kept, state="done", error=ABANDONED, ended_at=tx.now))
            if kept.call:
                work.log(CallEnded(job=kept.job, call=kept.call, error=ABANDONED))
        if child is not None:
            work.end(child, Ended(status="cancelled"))
        for wait in tx.select(Wait, "job", {"job": step.job, "open": True}):
            if wait.step == step.key:
                work.closed(wait, outcome="cancelled", decided_by="system:first", decided_at=tx.now)
                work.log(WaitDecided(job=wait.job, wait=wait.id, outcome="cancelled", by="system:first"))
        for waiting in tx.select(EventWait, "job", {"job": step.job}):
            if waiting.step == step.key:
                work.no_longer_awaits(waiting)


def first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended a group; a cancellation only when there is nothing else."""
    for error in errors.exceptions:
        found = first_error(error) if isinstance(error, BaseExceptionGroup) else error
        if isinstance(found, Exception):
            return found
    return errors.exceptions[0]
