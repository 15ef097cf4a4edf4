"""One life of a job in this process: claim, run the agent's code, rest or end.

`advance` claims a job by raising its epoch, replays the agent over the journal, and lets it go on. When every
branch waits for a person, a child, a timer or an event, the job rests: its state is in the store, and its memory
is given back.
"""

import asyncio
import inspect
import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NoReturn, cast

import anyio
import anyio.to_thread
import msgspec

from transom_hookspecs import (
    RUNTIME_ERRORS,
    SYSTEM,
    Agent,
    Context,
    ErrorInfo,
    Item,
    Job,
    JobFacts,
    Json,
    Lease,
    Stale,
    Step,
    StoreUnavailable,
    TextEnded,
    TransomError,
    Tx,
)

from . import schemas
from .claims import Claim, claim, due, settle_due, timed_out
from .groups import contained, in_words, single
from .journal import Journal
from .tree import Ended, TreeWork

if TYPE_CHECKING:
    from .core import Core

log = logging.getLogger("transom.jobs")


class JobRun:
    """A job that is being advanced here."""

    def __init__(self, core: "Core", tenant: str, claimed: Claim, agent: Agent | None) -> None:
        self.core, self.tenant, self.agent = core, tenant, agent
        self.job, self.epoch, self.input, self.deaths = claimed.job, claimed.epoch, claimed.input, claimed.deaths
        self.journal = Journal(core, tenant, claimed.job, claimed.epoch, list(claimed.steps))
        self.filters = core.filters_for(claimed.job, tenant)
        self.facts = JobFacts(
            id=self.job.id,
            tenant=tenant,
            tree=self.job.tree,
            agent=self.job.agent,
            caller=self.job.caller,
            conversation=self.job.conversation,
            turn=self.job.turn,
        )
        self.live = 1
        self.said = ""
        self._parked: dict[str, asyncio.Future[None]] = {}
        self._scope = anyio.CancelScope()
        self.rested = self.held = self._over = False
        self.critical = 0
        self.not_offered: set[str] = set()
        self._fatal: TransomError | None = None

    # -- the life -----------------------------------------------------------------------------------------

    async def live_on(self) -> None:
        """Run the agent's code until it ends, rests, or belongs to another worker."""
        self._scope.deadline = anyio.current_time() + (self.job.deadline - self.core.clock.now()) / 1000
        try:
            how = await self._outcome()
            if how is not None:
                await self._end(how)
        except Stale:
            log.info("job %s goes on elsewhere or has ended", self.job.id)
        except StoreUnavailable as error:
            log.warning("job %s stops here until the store takes work again: %s", self.job.id, error.message)
        finally:
            self.journal.close()

    async def _outcome(self) -> Ended | None:
        """How the agent's code ended; None when the job rests or was stopped from outside."""
        output: Json = None
        error: BaseException | None = None
        with self._scope:
            try:
                output = await self._agent_code()
            except (Stale, StoreUnavailable):
                raise
            except BaseException as raised:
                if not contained(raised):
                    raise
                error = raised
        if self.rested:
            return None
        if (broken := self._fatal or self.journal.mismatch or self.journal.spoiled()) is not None:
            return self._failed(broken)
        if self._scope.cancelled_caught:
            return timed_out(self.job) if self.core.clock.now() >= self.job.deadline else None
        if self.journal.failed is not None:
            raise self.journal.failed
        if error is not None:
            return self._failed(error)
        try:
            return self._completed(output)
        except Exception as refused:  # noqa: BLE001 - the job fails with it
            return self._failed(refused)

    async def _agent_code(self) -> Json:
        from .context import JobContext
        from .steps import held, missing

        if self.agent is None:
            return await missing(self)
        if self.deaths >= self.core.config.limits.deaths:
            await held(self, f"{self.deaths} workers in a row died with this job; see why, then answer `again`, or fail")
        context = JobContext(self)
        if self.core.hooks.has("around_job"):
            async with self.core.hooks.around("around_job", self.facts):
                return await self._called(context)
        return await self._called(context)

    async def _called(self, context: Context) -> Json:
        assert self.agent is not None
        run = self.agent.run
        if inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(getattr(run, "__call__", None)):  # noqa: B004
            result = run(context, self.input)
        else:
            result = await anyio.to_thread.run_sync(partial(run, context, self.input), abandon_on_cancel=True)
        return await result if inspect.isawaitable(result) else result

    def _completed(self, output: Json) -> Ended:
        """Check an answer and say it, when nobody has heard it yet."""
        assert self.agent is not None
        try:
            encoded = msgspec.json.encode(output)
            plain = cast(Json, msgspec.json.decode(encoded))
        except (TypeError, ValueError, UnicodeError, RecursionError) as error:
            raise TransomError(
                "failed_precondition", f"agent {self.agent.name!r} answered something that is no JSON: {error}"
            ) from error
        most = self.core.config.limits.answer
        if len(encoded) > most:
            raise TransomError("resource_exhausted", f"agent {self.agent.name!r}: its answer has more than {most} bytes")
        plain = self.filters.value("output", plain)
        if self.agent.output_schema is not None and (wrong := schemas.checker(self.agent.output_schema)(plain)):
            raise TransomError(
                "failed_precondition", f"agent {self.agent.name!r}: its answer does not match its output schema {wrong}"
            )
        if isinstance(plain, str) and plain and plain != self.said:
            self.say(f"{self.job.id}:out", plain)
        card = self.agent.card_schema is not None and not schemas.checker(self.agent.card_schema)(plain)
        return Ended(status="completed", output=plain, card=card)

    def _failed(self, error: BaseException | None) -> Ended:
        assert error is not None
        error = single(error)
        if isinstance(error, TransomError):
            info = error.info()
        else:
            log.error("agent %r raised in job %s", self.job.agent, self.job.id, exc_info=error)
            info = ErrorInfo(
                code="internal",
                message=f"agent {self.job.agent!r} raised {in_words(error)}",
                details={"agent": self.job.agent},
            )
        return Ended(status="failed", error=self.filters.error(info))

    async def _end(self, how: Ended) -> None:
        self._over = True
        try:
            await self.journal.write(lambda work: self._write_end(work, how))
        except RUNTIME_ERRORS:
            raise
        except Exception as error:
            log.exception("the end of job %s cannot be written as it is", self.job.id)
            self.journal.close()
            message = "the job's last words cannot be recorded; the server's log has the cause"
            told = error.info() if isinstance(error, TransomError) else ErrorInfo(code="internal", message=message)
            how = Ended(status="failed", error=self.filters.error(told))
            await self.journal.write(lambda work: self._write_end(work, how))

    def _write_end(self, work: TreeWork, how: Ended) -> Job:
        job = work.tx.get(Job, self.job.id)
        assert job is not None
        return work.end(job, how, own=True)

    # -- what steps use -----------------------------------------------------------------------------------

    def taint(self, *reasons: str) -> None:
        """Note why the job holds outside input: its next calls see it, and it is recorded with the step that follows."""
        if new := [reason for reason in reasons if reason not in self.job.taint]:
            self.job = msgspec.structs.replace(self.job, taint=(*self.job.taint, *new))
            self.journal.taint(new)

    def say(self, message: str, text: str) -> None:
        """Log a whole message of the agent's own words."""
        self.journal.log_text(message, text)
        self.journal.log(TextEnded(job=self.job.id, message=message, text=text))
        self.heard(message, text)

    def heard(self, message: str, text: str, calls: tuple[object, ...] = ()) -> None:
        """Keep a finished message of a turn in its conversation."""
        self.said = text
        if self.job.conversation and not self.job.parent:
            self.journal.item(
                Item(
                    conversation=self.job.conversation,
                    number=0,
                    id=message,
                    role="assistant",
                    job=self.job.id,
                    turn=self.job.turn,
                    content=text,
                    calls=cast(tuple[()], calls),
                )
            )

    async def park(self, key: str) -> Step:
        """Hold this branch until its step no longer waits; with nobody else at work, the job rests."""
        while self.journal.steps[key].state == "waiting":
            waker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._parked[key] = waker
            self.live -= 1
            try:
                if self.live == 0:
                    await self._rest()
                else:
                    await self.refresh()  # it may have been decided since the journal was read
                await waker
            finally:
                if self._parked.pop(key, None) is not None:  # cancelled; whoever wakes a branch counts it as live
                    self.live += 1
        step = self.journal.steps[key]
        if step.fatal and step.error is not None:
            await self.abort(step.error.error())
        return step

    async def branch_ended(self) -> None:
        """One of several branches is done; when all others wait, the job rests."""
        self.live -= 1
        if self.live == 0:
            await self._rest()

    async def abort(self, error: TransomError) -> None:
        """End the job with an error that the agent's code cannot catch."""
        self._fatal = error
        self._scope.cancel()
        await anyio.sleep_forever()

    async def _rest(self) -> None:
        while self.live == 0:
            keys = tuple(self._parked)
            at = await self.journal.write(partial(self._write_rest, keys))
            if at is not None:
                self.rested = True
                self.core.rested(self.tenant, self.job.id, at)
                self._scope.cancel()
                return
            await self.refresh()

    def _write_rest(self, keys: Sequence[str], work: TreeWork) -> int | None:
        """Give the job back, due at its next timer; None when one of its branches can go on by now."""
        tx = work.tx
        at = self.job.deadline
        for key in keys:
            step = tx.get(Step, self.job.id, key)
            assert step is not None
            if step.state != "waiting" or (step.until and step.until <= tx.now):
                return None
            at = min(at, step.until or at)
        job = tx.get(Job, self.job.id)
        assert job is not None
        self.give_back(work, job, at)
        return at

    def give_back(self, work: TreeWork, job: Job, at: int) -> None:
        """Leave the job to whoever comes first when it is due."""
        lease = work.tx.system.get(Lease, self.tenant, job.id)
        assert lease is not None
        work.tx.system.update(lease, worker="", at=at, deaths=lease.deaths if self.held else 0)
        work.count(job, status="waiting", counted=False)

    async def refresh(self) -> None:
        """Look again at what the parked branches wait for, let those go on that can, and look again when one is due."""
        now = self.core.clock.now()
        due = [s for s in (self.journal.steps[k] for k in self._parked) if s.until and s.until <= now]
        if due:
            await self.core.store.transact(self.tenant, lambda tx: self._write_due(tx, due))
        over: list[tuple[asyncio.Future[None], Step]] = []
        for key, waker in list(self._parked.items()):
            step = await self.core.store.get(self.tenant, Step, self.job.id, key)
            if step is not None and step.state != "waiting":
                over.append((waker, step))
        if over and (kept := await self.core.store.get(self.tenant, Job, self.job.id)) is not None:
            taint = tuple(dict.fromkeys((*self.job.taint, *kept.taint)))  # a child's answer and an event bring theirs
            self.job = msgspec.structs.replace(self.job, taint=taint)
        for waker, step in over:
            if self._parked.get(step.key) is waker:
                self.journal.steps[step.key] = step
                del self._parked[step.key]
                self.live += 1
                if not waker.done():
                    waker.set_result(None)
        timers = [until for key in self._parked if (until := self.journal.steps[key].until)]
        if timers and self.live:
            self.core.engine.wake(self.tenant, self.job.id, min(timers))

    def _write_due(self, tx: Tx, steps: Sequence[Step]) -> None:
        self.core.fence(tx, self.job.id, self.epoch)
        work = TreeWork(tx, self.job.tree)
        settle_due(work, [s for s in (tx.get(Step, step.job, step.key) for step in steps) if s is not None])
        work.finish()

    async def come_back(self) -> NoReturn:
        """Give the job back and let it be claimed anew at once."""

        def write(work: TreeWork) -> None:
            job = work.tx.get(Job, self.job.id)
            assert job is not None
            self.give_back(work, job, work.tx.now)

        await self.journal.write(write)
        self.rested = True
        self.core.rested(self.tenant, self.job.id, 0)
        self._scope.cancel()
        await anyio.sleep_forever()
        raise AssertionError("unreachable")

    def poke(self) -> None:
        """Something about the job changed in the store."""
        if not self._over:
            self.core.spawn(self._poked, name="the wake of a job")

    async def _poked(self) -> None:
        try:
            if await self.core.store.get(SYSTEM, Lease, self.tenant, self.job.id) is None:
                self.stop()
            await self.refresh()
        except (Stale, StoreUnavailable):
            self.stop()

    def stop(self) -> None:
        """Stop here without a word: the job has ended or is another worker's."""
        self._scope.cancel()


async def advance(core: "Core", tenant: str, identity: str) -> None:
    """Advance a job; see `transom_hookspecs.Kernel.advance`."""
    key = (tenant, identity)
    if (running := core.running.get(key)) is not None:
        running.poke()
    if key in core.advancing:
        return  # the engine advances it once more after this time
    core.advancing.add(key)
    try:
        if (run := await claimed_run(core, tenant, identity)) is None:
            return
        core.running[key] = run
        try:
            await run.live_on()
        finally:
            del core.running[key]
    finally:
        core.advancing.discard(key)
    if run.rested and await due(core, tenant, identity):
        core.engine.wake(tenant, identity)  # it was woken while it went to rest


async def claimed_run(core: "Core", tenant: str, identity: str) -> JobRun | None:
    """Claim a job that is due; None when there is nothing to do here."""
    claimed = core.claims.pop((tenant, identity), None)
    if claimed is None and await due(core, tenant, identity):
        claimed = await core.store.transact(tenant, lambda tx: claim(tx, core.store.worker, identity))
    if claimed is None:
        return None
    agent = await core.catalog.under(core.store, tenant, claimed.job.agent, claimed.job.definition)
    return JobRun(core, tenant, claimed, agent)


__all__ = ["JobRun", "advance"]
