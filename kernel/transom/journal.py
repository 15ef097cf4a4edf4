"""The journal of one running job: what its steps gave, and the writing of steps and events.

What is recorded waits up to `limits.text_flush` to be written together; whoever needs it to be durable first
(an effect that may not be repeated, the end of the job) calls `write`, which takes along all that waits.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import anyio
import msgspec

from transom_hookspecs import (
    RUNTIME_ERRORS,
    Conversation,
    Cost,
    Event,
    Item,
    Job,
    Json,
    Nondeterminism,
    Step,
    StepState,
    Text,
    TokenCount,
    TransomError,
    Tx,
)

from . import schemas
from .tree import TreeWork, too_many

if TYPE_CHECKING:
    from .core import Core

T = TypeVar("T")


class Batch:
    """What waits to be written."""

    __slots__ = ("costs", "events", "items", "relaxed", "settled", "size", "steps", "taint")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.steps: dict[str, Step] = {}
        self.items: list[Item] = []
        self.costs: list[tuple[str, TokenCount]] = []
        self.settled: list[Callable[[Tx], None]] = []
        self.taint: list[str] = []
        self.size = 0
        self.relaxed = True

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.events or self.steps or self.items or self.costs or self.settled)

    def text(self, job: str, message: str, delta: str) -> None:
        """Add text; the deltas of one batch and message are one event."""
        last = self.events[-1] if self.events else None
        if isinstance(last, Text) and last.message == message and last.job == job:
            self.events[-1] = Text(job=job, message=message, delta=last.delta + delta)
        else:
            self.events.append(Text(job=job, message=message, delta=delta))
        self.size += len(delta)


class Journal:
    """The steps of a job, by key, and what of them is still to be written."""

    def __init__(self, core: "Core", tenant: str, job: Job, epoch: int, steps: list[Step]) -> None:
        self.core, self.tenant, self.job, self.epoch = core, tenant, job, epoch
        self.steps = {step.key: step for step in steps}
        self.failed: Exception | None = None
        self.mismatch: Nondeterminism | None = None
        self._batch = Batch()
        self._lock = anyio.Lock(fast_acquire=True)
        self._armed = False
        self._written = 0.0

    def recorded(self, key: str, kind: str, name: str, arguments: Json = None, *, masked: bool = False) -> Step | None:
        """The record of a step, or None in its first life.

        Arguments are compared too, unless filters changed what was asked, now (`masked`) or when it was recorded.

        Raises:
            Nondeterminism: the record is of another step.
        """
        if self.mismatch is not None:
            raise self.mismatch  # an agent that caught it goes no further
        step = self.steps.get(key)
        if step is None:
            if len(self.steps) >= self.core.config.limits.steps:
                raise too_many("steps", self.core.config.limits.steps, len(self.steps), kind="job", name=self.job.id)
            return None
        same = step.kind == kind and step.name == name
        if not same:
            self.mismatch = Nondeterminism(key, f"{step.kind} {step.name!r}", f"{kind} {name!r}")
            raise self.mismatch
        compared = arguments is not None and step.arguments is not None and not (masked or step.masked)
        if compared and schemas.canonical(step.arguments) != schemas.canonical(arguments):
            self.mismatch = Nondeterminism(key, f"{kind} {name!r} with other arguments", "called again")
            raise self.mismatch
        return step

    def step(
        self,
        key: str,
        kind: str,
        name: str,
        state: StepState,
        *,
        arguments: Json = None,
        call: str = "",
        until: int = 0,
        masked: bool = False,
    ) -> Step:
        """A step that begins now, not yet noted."""
        return Step(
            job=self.job.id,
            key=key,
            kind=kind,
            name=name,
            state=state,
            arguments=arguments,
            call=call,
            until=until,
            masked=masked,
            begun_at=self.core.clock.now(),
        )

    def record(self, step: Step, *events: Event, relaxed: bool = False) -> None:
        """Note a step's new state and what the log says of it."""
        self.steps[step.key] = step
        self._batch.steps[step.key] = step
        self.log(*events, relaxed=relaxed)

    def log(self, *events: Event, relaxed: bool = False) -> None:
        """Note events."""
        self._batch.events.extend(events)
        self._batch.relaxed = self._batch.relaxed and relaxed
        self._arm()

    def item(self, item: Item) -> None:
        """Note an item of the job's conversation; its number is given when it is written."""
        self._batch.items.append(item)

    def cost(self, model: str, usage: TokenCount) -> None:
        """Note what a model call cost."""
        self._batch.costs.append((model, usage))

    def settle(self, write: Callable[[Tx], None]) -> None:
        """Note what an attempt of a model call is charged; `write` runs in the transaction that records its end."""
        self._batch.settled.append(write)
        self._arm()

    def taint(self, reasons: Sequence[str]) -> None:
        """Note why the job holds outside input; it is written with the step that it came by."""
        self._batch.taint.extend(reasons)

    async def text(self, message: str, delta: str, *, first: bool) -> None:
        """Note text that streams in; a message's first is written as soon as its model waits, the rest a little later."""
        limits, batch = self.core.config.limits, self._batch
        batch.text(self.job.id, message, delta)
        if limits.text_flush == 0 or batch.size >= limits.text_flush_bytes:
            await self.write()
        elif first or asyncio.get_running_loop().time() - self._written >= limits.text_flush:
            self._written = asyncio.get_running_loop().time()
            self.core.spawn(self._write_timed, name="the journal of a job")
        else:
            self._arm()

    def log_text(self, message: str, text: str) -> None:
        """Note a whole text."""
        self._batch.text(self.job.id, message, text)
        self._arm()

    def _arm(self) -> None:
        if not self._armed:
            self._armed = True
            self.core.later(self.core.config.limits.text_flush, self._due)

    def _due(self) -> None:
        self._armed = False
        if not self._batch.empty:
            self.core.spawn(self._write_timed, name="the journal of a job")

    async def _write_timed(self) -> None:
        with suppress(TransomError):  # kept in `failed`, and raised by the job's own next call
            await self.write()

    async def write(self, extra: Callable[[TreeWork], T] | None = None) -> T | None:
        """Write all that waits, and `extra` with it, in one transaction.

        What waits is every branch's: a branch that is cancelled meanwhile still sees it written.

        Raises:
            Stale: another worker has the job, or it has ended.
            StoreUnavailable: nothing was written.
        """
        if self.failed is not None:
            raise self.failed
        async with self._lock:
            if extra is None and self._batch.empty:
                return None
            batch, self._batch = self._batch, Batch()
            self._written = asyncio.get_running_loop().time()
            written: T | None = None
            try:
                with anyio.CancelScope(shield=True):
                    written = await self.core.store.transact(
                        self.tenant, lambda tx: self._apply(tx, batch, extra), relaxed=extra is None and batch.relaxed
                    )
            except Exception as error:
                self.failed = error
                raise
            return written

    def spoiled(self) -> TransomError | None:
        """The error of what was to be written (a plugin's part of it failed); it is dropped, and the journal works again."""
        if not isinstance(self.failed, TransomError) or isinstance(self.failed, RUNTIME_ERRORS):
            return None
        failed = self.failed
        self.close()
        return failed

    def close(self) -> None:
        """Drop what waits, and what made it fail."""
        self.failed = None
        self._batch = Batch()

    def _apply(self, tx: Tx, batch: Batch, extra: Callable[[TreeWork], T] | None) -> T | None:
        self.core.fence(tx, self.job.id, self.epoch)
        work = TreeWork(tx, self.job.tree)
        for step in batch.steps.values():
            tx.put(step)
        for model, usage in batch.costs:
            self._add_cost(tx, model, usage)
        for settle in batch.settled:
            settle(tx)
        if batch.items:
            self._add_items(tx, batch.items)
        if batch.taint and (job := tx.get(Job, self.job.id)) is not None:
            work.taint(job, *batch.taint)
        work.log(*batch.events)
        result = extra(work) if extra is not None else None
        work.finish()
        return result

    def _add_cost(self, tx: Tx, model: str, usage: TokenCount) -> None:
        tree, job = self.job.tree, self.job.id
        before = tx.get(Cost, tree, job, model) or Cost(tree=tree, job=job, model=model)
        tx.put(
            msgspec.structs.replace(
                before,
                calls=before.calls + 1,
                input_tokens=before.input_tokens + usage.input_tokens,
                output_tokens=before.output_tokens + usage.output_tokens,
                cached_tokens=before.cached_tokens + usage.cached_tokens,
                micro_usd=before.micro_usd + round(usage.usd * 1_000_000),
            )
        )

    def _add_items(self, tx: Tx, items: list[Item]) -> None:
        conversation = tx.get(Conversation, self.job.conversation)
        if conversation is None:
            return
        number = conversation.items
        for item in items:
            if tx.count(Item, "id", {"conversation": item.conversation, "id": item.id}, limit=1):
                continue  # an earlier life of the job kept it
            number += 1
            tx.put(msgspec.structs.replace(item, number=number))
        tx.update(conversation, items=number, updated_at=tx.now)


def outcome(step: Step) -> Json:
    """What a finished step gives the agent.

    Raises:
        TransomError: what it failed with.
    """
    if step.error is not None:
        raise step.error.error()
    return step.result
