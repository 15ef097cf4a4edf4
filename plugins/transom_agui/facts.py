"""What policy says of what a log brings, asked before the encoder needs it; and whether the caller may go on reading."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from time import monotonic

import anyio
from anyio.lowlevel import checkpoint

from transom_hookspecs import (
    Entry,
    GetJobBoard,
    GetWait,
    Job,
    Kernel,
    NotePinned,
    Run,
    TransomError,
    TreeWaiting,
    Tx,
    WaitView,
)

from .runs import kept_of
from .threads import Place, find
from .view import View

CHECK_EVERY = 30.0
"""Seconds after which the right to read is asked again at the latest; a change of policy has it asked at once."""


class Rights:
    """Asks of all open streams whether their callers may still read: when policy changes, and every half minute."""

    def __init__(self) -> None:
        self.changes = 0
        self.watching: set[Asked] = set()

    async def follow(self, kernel: Kernel) -> None:
        """Follow policy until cancelled."""
        with kernel.topic("policy") as changed:
            while True:
                with anyio.move_on_after(CHECK_EVERY):
                    await changed()
                self.changes += 1
                for each in tuple(self.watching):
                    await each.look_again()
                    await checkpoint()


class Asked:
    """Implements `Facts` for one stream, from what the kernel says."""

    def __init__(self, place: Place, view: View, rights: Rights) -> None:
        self._place, self._view, self._rights = place, view, rights
        self._labels: dict[str, str] = {}
        self._seeing: dict[str, bool] = {view.job: True}
        self._mine: set[str] = set()
        self._told = False
        self._seen, self._checked = rights.changes, monotonic()
        self.revoked = False
        self.idle = anyio.CancelScope()
        """What the stream waits in while its log has nothing new; cancelled when the caller may read no longer."""

    def sees(self, job: str) -> bool:
        """See `Facts`."""
        return self._seeing.get(job, False)

    def answers(self, wait: str) -> bool:
        """See `Facts`."""
        return wait in self._mine

    def hidden(self, job: str) -> str:
        """See `Facts`."""
        return self._labels.get(job, "")

    async def next(self, batches: AsyncIterator[Sequence[Entry]]) -> Sequence[Entry]:
        """The log's next batch with all that its encoding needs; nothing at its end, and when the caller may read no longer."""
        batch: Sequence[Entry] = ()
        with anyio.CancelScope() as self.idle, suppress(StopAsyncIteration):
            batch = await anext(batches)
        if self.idle.cancelled_caught or not await self.still_reads():
            self.revoked = True
            return ()
        await self.prepare(batch)
        if not await self.still_reads():
            return ()
        if batch and batch[-1].seq <= self._view.start:
            await checkpoint()  # nothing of it is sent, so that nothing else lets others have their turn
        return batch

    async def prepare(self, batch: Sequence[Entry]) -> None:
        """Ask all that the encoder will want to know of a batch."""
        for entry in batch:
            event = entry.event
            if event.job not in self._seeing:
                await self._look(event.job)
            if isinstance(event, TreeWaiting) and self._view.person:
                for wait in event.waits:
                    await self._ask(wait)
            elif isinstance(event, NotePinned) and self._view.board and not self._told and self.sees(event.job):
                await self._tell()

    async def still_reads(self) -> bool:
        """Whether the caller may still read the thread."""
        if self.revoked or (self._seen == self._rights.changes and monotonic() - self._checked < CHECK_EVERY):
            return not self.revoked
        seen, checked = self._rights.changes, monotonic()
        try:
            await find(self._place.kernel, self._place.origin, self._place.thread)
        except TransomError as error:
            if error.code != "permission_denied":
                raise
            self.revoked = True
            return False
        self._seen, self._checked = seen, checked
        return True

    async def look_again(self) -> None:
        """Ask whether the caller may still read; if not, the stream waits no longer."""
        try:
            if not await self.still_reads():
                self.idle.cancel()
        except Exception as error:  # noqa: BLE001 - it is reported, and the other streams' rights are asked for
            self._place.kernel.report("asking for the rights of a stream's caller", error)

    async def _look(self, job: str) -> None:
        place = self._place
        found = await place.kernel.store.get(place.tenant, Job, job)
        verdict = await place.kernel.may(place.caller, place.tenant, "content.read", job, found)
        self._seeing[job] = verdict.ruling == "allow"
        if verdict.ruling != "allow":
            self._labels[job] = verdict.label

    async def _ask(self, wait: str) -> None:
        if wait in self._view.decided:
            return
        try:
            shown: WaitView = await self._place.kernel.call("GetWait", GetWait(wait=wait), self._place.origin)
        except TransomError as error:
            if error.code not in ("permission_denied", "not_found"):
                raise
            return
        if shown.can_decide:
            self._mine.add(wait)

    async def _tell(self) -> None:
        """Have it audited that notes' words are shown, once a run."""
        place, view = self._place, self._view
        self._told = True
        run = await place.kernel.store.get(place.tenant, Run, view.thread, view.run)
        if run is None or kept_of(run).told:
            return
        await place.kernel.call("GetJobBoard", GetJobBoard(id=view.job), place.origin)

        def write(tx: Tx) -> None:
            current = tx.get(Run, view.thread, view.run)
            if current is not None:
                tx.update(current, view={**current.view, "told": True})

        await place.kernel.store.transact(place.tenant, write)
