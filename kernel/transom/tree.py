"""What happens to a job tree inside a transaction: counters, wakes, ends, and the log's words about them.

Every transaction that touches a tree goes through one `TreeWork`, so that its events are appended once, in order,
and `tree.waiting` and `tree.running` are said exactly when the last job rests or the first one goes on.
"""

import msgspec

from transom_hookspecs import (
    NEVER,
    CallEnded,
    Conversation,
    EndStatus,
    ErrorInfo,
    Event,
    EventWait,
    Job,
    JobEnded,
    JobOutput,
    Json,
    Lease,
    Refusal,
    Step,
    TransomError,
    Tree,
    TreeRunning,
    TreeWaiting,
    Tx,
    Wait,
    WaitDecided,
)


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ends."""

    status: EndStatus
    output: Json = None
    error: ErrorInfo | None = None
    card: bool = False


def too_many(what: str, most: int, used: int, *, kind: str, name: str) -> TransomError:
    """The refusal of what would pass a limit of the settings.

    Parameters:
        what: the limit's name, as `depth`.
        kind, name: whose limit it is: a tree's, or a job's.
    """
    refusal = Refusal(
        type="oz0_tree_limit",
        scope={"kind": kind, "name": name},
        what=what,
        limit=most,
        used=used,
        reserved=0,
        requested=1,
        could_wait=False,
        raised_by=f"an operator, with the setting limits.{what}",
    )
    whose = "the job" if kind == "job" else "the job tree"
    return refusal.error(f"{whose} is at its limit of {most} ({what}); an operator can raise limits.{what}")


class TreeWork:
    """The changes that one transaction makes to one job tree; `finish` must be its last call."""

    def __init__(self, tx: Tx, tree: str) -> None:
        self.tx = tx
        self.tree = tree
        self.events: list[Event] = []
        self._active = 0
        self._waits = 0
        self._events = 0
        self._before: Tree | None = None

    @property
    def before(self) -> Tree:
        """The tree's counters when the transaction began."""
        if self._before is None:
            self._before = self.tx.get(Tree, self.tree) or Tree(id=self.tree)
        return self._before

    def log(self, *events: Event) -> None:
        """Add events to the tree's log, in this order."""
        self.events.extend(events)

    def started(self, job: Job) -> None:
        """Count a new job that is about to run."""
        self._active += job.counted

    def opened(self, wait: Wait, event: Event) -> None:
        """Keep a new wait."""
        self.tx.put(wait)
        self._waits += 1
        self.log(event)

    def awaits(self, waiting: EventWait) -> None:
        """Keep a new wait for an outside event."""
        self.tx.put(waiting)
        self._events += 1

    def no_longer_awaits(self, waiting: EventWait) -> None:
        """An event came, or nobody waits for it any more."""
        self._events -= self.tx.delete(EventWait, waiting.source, waiting.job, waiting.step)

    def closed(self, wait: Wait, **changes: object) -> Wait:
        """Close an open wait with how it came out."""
        self._waits -= 1
        return self.tx.update(wait, open=False, **changes)

    def count(self, job: Job, **changes: object) -> Job:
        """Write a job's new state, and count it among the tree's active ones when it is."""
        changed = self.tx.update(job, **changes)
        self._active += changed.counted - job.counted
        return changed

    def wake(self, job: Job) -> Job:
        """Make a job that is not over runnable now."""
        if job.ended:
            return job
        lease = self.tx.system.get(Lease, self.tx.tenant, job.id)
        if lease is not None:
            self.tx.system.update(lease, at=self.tx.now)
        self.tx.touch(f"job/{self.tx.tenant}/{job.id}")
        return job if job.counted else self.count(job, counted=True, status="running")

    def taint(self, job: Job, *reasons: str) -> Job:
        """Note why a job holds outside input from here on; its conversation keeps it."""
        taint = tuple(dict.fromkeys((*job.taint, *reasons)))
        if taint == job.taint:
            return job
        conversation = self.tx.get(Conversation, job.conversation) if job.conversation else None
        if conversation is not None:
            self.tx.update(conversation, taint=tuple(dict.fromkeys((*conversation.taint, *reasons))))
        return self.tx.update(job, taint=taint)

    def settle_step(self, step: Step, *, result: Json = None, error: ErrorInfo | None = None, fatal: bool = False) -> None:
        """End a step that waited, and let its job go on."""
        self.tx.put(msgspec.structs.replace(step, state="done", result=result, error=error, fatal=fatal, ended_at=self.tx.now))
        job = self.tx.get(Job, step.job)
        if job is not None:
            self.wake(job)

    def end(self, job: Job, how: Ended, *, own: bool = False) -> Job:
        """End a job and all that it delegated, and tell its parent; the first recorded end stands.

        Parameters:
            own: the job's own worker ends it, so that nobody has to be told to stop.
        """
        if job.ended:
            return job
        ended = self._end(job, how, own=own)
        self._tell_parent(ended, how)
        return ended

    def _end(self, job: Job, how: Ended, *, own: bool = False) -> Job:
        if self.before.jobs > 1:
            for member in self.tx.select(Job, "tree", {"tree": job.tree}, limit=NEVER):
                if member.parent == job.id and not member.ended:
                    self._end(member, Ended(status="cancelled"))
        if self.before.waits + self._waits:
            self._close_waits(job)
        if self.before.events + self._events:
            for waiting in self.tx.select(EventWait, "job", {"job": job.id}, limit=NEVER):
                self.no_longer_awaits(waiting)
        ended = self.count(job, status=how.status, counted=False, ended_at=self.tx.now, error=how.error, card=how.card)
        if how.output is not None:
            self.tx.put(JobOutput(job=job.id, value=how.output))
        self.tx.system.delete(Lease, self.tx.tenant, job.id)
        if not own:
            self.tx.touch(f"job/{self.tx.tenant}/{job.id}")
        self.log(JobEnded(job=job.id, status=how.status, output=how.output, error=how.error, card=how.card))
        return ended

    def _close_waits(self, job: Job) -> None:
        for wait in self.tx.select(Wait, "job", {"job": job.id, "open": True}, limit=NEVER):
            self.closed(wait, outcome="cancelled", decided_by="system:end", decided_at=self.tx.now)
            self.log(WaitDecided(job=job.id, wait=wait.id, outcome="cancelled", by="system:end"))

    def _tell_parent(self, job: Job, how: Ended) -> None:
        """A child's end is its parent's step's result."""
        if not job.parent:
            return
        step = self.tx.get(Step, job.parent, job.parent_step)
        if step is None or step.state != "waiting" or step.child != job.id:
            return
        error = how.error
        if how.status != "completed" and error is None:
            error = ErrorInfo(
                code="deadline_exceeded" if how.status == "timed_out" else "canceled",
                message=f"job {job.id} of agent {job.agent!r} ended {how.status}",
            )
        if job.taint and (parent := self.tx.get(Job, job.parent)) is not None:
            self.taint(parent, *job.taint)
        self.settle_step(step, result=how.output, error=error)
        if step.call:
            self.log(CallEnded(job=job.parent, call=step.call, content=how.output, error=error))

    def finish(self) -> int:
        """Write counters and events; returns the log's last seq (0 when nothing was logged)."""
        if self._active or self._waits or self._events:
            self._settle()
        return self.tx.append(self.tree, self.events) if self.events else 0

    def _settle(self) -> None:
        tree = self.before
        active, waits, waiting = tree.active + self._active, tree.waits + self._waits, tree.waiting
        if active == 0 and waits > 0 and not waiting:
            waits_open = self.tx.select(Wait, "tree", {"tree": self.tree, "open": True}, limit=NEVER)
            self.log(TreeWaiting(job=self.tree, waits=tuple(w.id for w in waits_open)))
            waiting = True
        elif waiting and active > 0:
            self.log(TreeRunning(job=self.tree))
            waiting = False
        events = tree.events + self._events
        self.tx.update(tree, active=active, waits=waits, events=events, waiting=waiting and waits > 0)
