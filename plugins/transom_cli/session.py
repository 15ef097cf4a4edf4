"""Follow a job: show what it does, ask when it waits, and say how it ended. The heart of `run` and `job watch`."""

import signal
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Literal, Protocol

import anyio
import msgspec

from transom_hookspecs import (
    DecideApproval,
    Entry,
    JobEnded,
    JobView,
    TransomError,
    TreeRunning,
    TreeWaiting,
    WaitView,
)

from . import exits
from .client import Client

Ask = Callable[[WaitView], Awaitable[DecideApproval | None]]
Item = Sequence[Entry] | Literal["interrupt", "abandoned"]
"""What a session takes in: a batch of the log, an interrupt, or that nobody is left who goes on with the job."""
LOOK_AGAIN = 5.0
"""Seconds after which one who only watches looks again whether somebody goes on with the job."""


class View(Protocol):
    """Where a session shows what it sees."""

    def entries(self, batch: Sequence[Entry]) -> None:
        """New entries of the log."""

    def refused(self, error: TransomError) -> None:
        """A decision that was not taken."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a session came out.

    Parameters:
        outcome: the job's final status, or why it is not followed to its end.
        waits: what waits for a person, when it does.
    """

    outcome: Literal["completed", "failed", "cancelled", "timed_out", "waiting", "interrupted", "abandoned"]
    waits: tuple[WaitView, ...] = ()
    interrupted: bool = False

    @property
    def code(self) -> int:
        """The exit code."""
        if self.interrupted:
            return exits.INTERRUPTED
        return exits.BY_OUTCOME[self.outcome]


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How a session behaves.

    Parameters:
        standing: decides at once what may be decided so (--yes, --no), or None.
        ask: asks a person, or None when nobody is there.
        only_watch: a job that waits is followed on; nothing is decided here.
        cancels: an interrupt cancels the job, rather than leaving it alone.
    """

    standing: Callable[[WaitView], DecideApproval | None] | None = None
    ask: Ask | None = None
    only_watch: bool = False
    cancels: bool = False


class Session:
    """One following of one job.

    Parameters:
        client: the runtime.
        job: the job, as its start answered it.
    """

    def __init__(self, client: Client, job: JobView, view: View, manner: Manner) -> None:
        self._client = client
        self._job = job
        self._view = view
        self._manner = manner
        self._inbox = _Inbox()
        self._waiting = False
        self._settled: set[tuple[str, str]] = set()  # waits that were dealt with here, as they were shown
        self._interrupts = 0
        self._ending: Ending | None = None

    async def follow(self) -> Ending:
        """Follow the job until it ends, waits for somebody who is not here, or is interrupted.

        Raises:
            TransomError: the job cannot be followed.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._pump)
            tasks.start_soon(self._listen)
            if self._manner.only_watch:
                tasks.start_soon(self._mind)
            while self._ending is None:
                if self._must_decide():
                    await self._decide()
                else:
                    await self._take(await self._inbox.next())
            tasks.cancel_scope.cancel()
        assert self._ending is not None
        return self._ending

    def _must_decide(self) -> bool:
        """Whether the tree waits, as far as the log was read, and it is on this session to do something about it."""
        return self._waiting and not (self._manner.only_watch or self._interrupts or self._inbox)

    async def _pump(self) -> None:
        async with aclosing(self._client.events(self._job)) as batches:
            async for batch in batches:
                self._inbox.put(batch)
        self._inbox.put("abandoned")  # unless the job has ended, and nobody looks here any more

    async def _listen(self) -> None:
        with anyio.open_signal_receiver(signal.SIGINT) as signals:
            async for _ in signals:
                self._inbox.put("interrupt")

    async def _mind(self) -> None:
        """Notice when whoever went on with the job is gone."""
        await anyio.sleep(LOOK_AGAIN)
        while await self._client.attended(self._job):  # noqa: ASYNC110 - nothing tells of a process that dies
            await anyio.sleep(LOOK_AGAIN)
        self._inbox.put("abandoned")

    async def _take(self, item: Item) -> None:
        """Show a batch and learn from it, or do what there is to do about the rest."""
        if item == "interrupt":
            return await self._interrupt()
        if item == "abandoned":
            return await self._abandon()
        self._view.entries(item)
        for entry in item:
            event = entry.event
            if isinstance(event, JobEnded) and event.job == self._job.id:
                self._ending = Ending(outcome=event.status, interrupted=self._interrupts > 0)
            elif isinstance(event, TreeWaiting | TreeRunning):
                self._waiting = isinstance(event, TreeWaiting)
        return None

    async def _interrupt(self) -> None:
        """The first interrupt cancels the job, where that is asked for, and its end is waited for; another one leaves."""
        self._interrupts += 1
        if self._manner.cancels and self._interrupts == 1:
            await self._client.cancel(self._job.id, "interrupted at the terminal")
        else:
            self._ending = Ending(outcome="interrupted", interrupted=True)

    async def _abandon(self) -> None:
        """Nobody goes on with the job: what waits for a person is told, so that there is something to do."""
        waits = await self._open_waits() if self._waiting else ()
        if self._ending is None:
            self._ending = Ending(outcome="waiting" if waits else "abandoned", waits=tuple(waits))

    async def _decide(self) -> None:
        """Decide what can be decided here; what is left then waits for others, and the session is over."""
        waits = await self._open_waits()
        moved = False
        for wait in waits:
            if (wait.id, wait.token) in self._settled:
                continue
            step = await self._settle(wait)
            if step == "again":
                return
            moved = moved or step == "moved"
        if waits and not moved:
            self._ending = Ending(outcome="waiting", waits=tuple(waits))
        elif self._ending is None:
            await self._take(await self._inbox.next())

    async def _open_waits(self) -> Sequence[WaitView]:
        """What is open now: the log that was read may be behind, then nothing is."""
        try:
            return await self._client.waits(self._job.id, tree=True)
        except TransomError as error:
            if error.code != "permission_denied":
                raise
            self._view.refused(error)  # one who may follow the job, but not see what waits
            self._ending = Ending(outcome="waiting")
            return ()

    async def _settle(self, wait: WaitView) -> Literal["moved", "left", "again"]:
        """Deal with one wait: `moved` when it is decided, `left` waiting, `again` when things are to be looked at anew."""
        answer = self._manner.standing(wait) if self._manner.standing else None
        asked = answer is None and self._manner.ask is not None
        if asked:
            answers = await self._ask(wait)
            if not answers:
                return "again"
            (answer,) = answers
        if answer is None:
            self._settled.add((wait.id, wait.token))
            return "left"
        return await self._send(wait, answer, asked=asked)

    async def _ask(self, wait: WaitView) -> list[DecideApproval | None]:
        """Ask a person, unless something happens meanwhile: then the question is taken back and nothing returned."""
        ask, answers = self._manner.ask, list[DecideApproval | None]()
        assert ask is not None

        async def prompt() -> None:
            answers.append(await ask(wait))
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(prompt)
            await self._inbox.arrived()
            tasks.cancel_scope.cancel()
        return answers

    async def _send(self, wait: WaitView, answer: DecideApproval, *, asked: bool) -> Literal["moved", "left", "again"]:
        try:
            decided = await self._client.decide(answer)
        except TransomError as error:
            if error.details.get("reason") == "already_decided":
                return "moved"
            if error.code == "unavailable":
                raise
            self._view.refused(error)
            if asked and error.code in ("invalid_argument", "failed_precondition"):
                return "again"  # a slip of the keyboard, or shown arguments that changed
            self._settled.add((wait.id, wait.token))
            return "left"
        self._settled.add((wait.id, wait.token))
        return "left" if decided.result == "acknowledged" else "moved"


class _Inbox:
    """What came and was not looked at."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._some = anyio.Event()

    def __bool__(self) -> bool:
        return bool(self._items)

    def put(self, item: Item) -> None:
        """Add one."""
        self._items.append(item)
        self._some.set()

    async def arrived(self) -> None:
        """Wait until there is one."""
        await self._some.wait()

    async def next(self) -> Item:
        """Wait for one and take it."""
        await self._some.wait()
        item = self._items.popleft()
        if not self._items:
            self._some = anyio.Event()
        return item
