"""Followers: everything that waits for a commit hangs on the store's one iterator of changes.

A tree's followers share a tail: its last events, decoded once. Only who is behind it reads the store.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from transom_hookspecs import (
    AnyEvent,
    CallEnded,
    CallStarted,
    Change,
    Entry,
    JobEnded,
    Json,
    Store,
    Text,
    TextEnded,
    WaitOpened,
)

TAIL = 1_000
TAIL_BYTES = 4 * 1024 * 1024
SLICE = 200
YOUNG = 64
"""Trees that just began whose events are kept although nobody follows them yet."""


class Signal:
    """Wakes whoever waits for something to change; a change while nobody waits is not lost on the next wait."""

    __slots__ = ("count", "waiters")

    def __init__(self) -> None:
        self.count = 0
        self.waiters: set[asyncio.Future[None]] = set()

    def set(self) -> None:
        """Something changed."""
        self.count += 1
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.waiters.clear()

    async def after(self, count: int) -> int:
        """Wait until there was a change since `count`; returns the new count."""
        while self.count == count:
            waiter = asyncio.get_running_loop().create_future()
            self.waiters.add(waiter)
            try:
                await waiter
            finally:
                self.waiters.discard(waiter)
        return self.count


class Tail:
    """The last events of a tree that somebody follows, or that just began.

    `foreign` counts the commits that others made, whose entries only the store has; it begins at 1 for a tree whose
    beginning the tail has not seen. `gone`: the tree was removed; one that comes under its name is another.
    """

    __slots__ = ("_size", "_sizes", "entries", "followers", "foreign", "gone", "signal")

    def __init__(self, *, whole: bool = False) -> None:
        self.entries: deque[Entry] = deque()
        self._sizes: deque[int] = deque()
        self._size = 0
        self.signal = Signal()
        self.followers = 0
        self.gone = False
        self.foreign = 0 if whole else 1

    def extend(self, entries: Sequence[Entry]) -> None:
        """Take what was committed here; what another process committed comes with no entries."""
        if not entries:
            self.foreign += 1
        elif not self.entries or entries[0].seq == self.entries[-1].seq + 1:
            self._keep(entries)
        elif entries[-1].seq > self.entries[-1].seq:
            self.entries.clear()
            self._sizes.clear()
            self._size = 0
            self._keep(entries)
        self.signal.set()

    def _keep(self, entries: Sequence[Entry]) -> None:
        """Add entries at the end; those at the beginning go when there are too many, or they are too large."""
        self.entries.extend(entries)
        sizes = [size_of(entry.event) for entry in entries]
        self._sizes.extend(sizes)
        self._size += sum(sizes)
        while len(self.entries) > TAIL or (self._size > TAIL_BYTES and len(self.entries) > 1):
            self.entries.popleft()
            self._size -= self._sizes.popleft()

    def after(self, seq: int) -> list[Entry] | None:
        """The entries after a seq, or None when they do not follow on it without a gap."""
        if not self.entries or self.entries[0].seq > seq + 1:
            return None
        start = seq + 1 - self.entries[0].seq
        if start >= len(self.entries):
            return []
        return [self.entries[i] for i in range(start, min(start + SLICE, len(self.entries)))]


def size_of(event: AnyEvent) -> int:
    """About how much memory the texts of an event take, in bytes; what is always small counts as nothing."""
    if isinstance(event, Text):
        return len(event.delta)
    if isinstance(event, TextEnded):
        return len(event.text)
    if isinstance(event, CallEnded):
        return weight(event.content)
    if isinstance(event, CallStarted):
        return weight(event.arguments)
    if isinstance(event, JobEnded):
        return weight(event.output)
    return weight(event.shown) if isinstance(event, WaitOpened) else 0


def weight(value: Json) -> int:
    """About how much memory a JSON value takes, in bytes."""
    if isinstance(value, str):
        return len(value)
    return len(msgspec.json.encode(value)) if isinstance(value, dict | list) else 0


class Hub:
    """Hands out the store's changes: to tails, to topics, and to the kernel for jobs."""

    def __init__(
        self,
        store: Store,
        on_job: Callable[[str, str], None],
        on_wake: Callable[[], None],
        on_ended: Callable[[str, str], None] | None = None,
    ) -> None:
        self._store = store
        self._on_job, self._on_wake, self._on_ended = on_job, on_wake, on_ended
        self._tails: dict[str, Tail] = {}
        self._young: deque[str] = deque()
        self._topics: dict[str, Signal] = {}
        self._closed = False

    async def run(self) -> None:
        """Hand out changes until cancelled."""
        async for changes in self._store.changes():
            for change in changes:
                self._take(change)

    def _take(self, change: Change) -> None:
        kind, _, rest = change.topic.partition("/")
        if kind == "tree":
            self._grown(rest, change.entries)
        elif kind == "job":
            tenant, _, job = rest.partition("/")
            self._on_job(tenant, job)
        elif kind == "dropped":
            if tail := self._tails.pop(rest, None):
                tail.gone = True
                tail.signal.set()
        elif kind == "*":
            self.everything()
        elif signal := self._topics.get(change.topic):
            signal.set()

    def _grown(self, key: str, entries: Sequence[Entry]) -> None:
        """A tree's log has more entries; those that another process wrote are not given."""
        if self._on_ended is not None:
            for entry in entries:
                if isinstance(entry.event, JobEnded):
                    self._on_ended(key.partition("/")[0], entry.event.job)
        if tail := self._tails.get(key):
            tail.extend(entries)
        elif entries and entries[0].seq == 1:
            self._begin(key, entries)

    def _begin(self, key: str, entries: Sequence[Entry]) -> None:
        """Keep the beginning of a tree that starts here for those who follow it in a moment."""
        self._tails[key] = tail = Tail(whole=True)
        tail.extend(entries)
        self._young.append(key)
        if len(self._young) > YOUNG:
            self._forget(self._young.popleft())

    def _forget(self, key: str) -> None:
        if (tail := self._tails.get(key)) is not None and not tail.followers:
            del self._tails[key]

    def everything(self) -> None:
        """Anything may have changed: all followers look again."""
        for tail in self._tails.values():
            tail.extend(())
        for signal in self._topics.values():
            signal.set()
        self._on_wake()

    def close(self) -> None:
        """End every follower: each `follow` returns after what it has."""
        self._closed = True
        for tail in self._tails.values():
            tail.signal.set()

    async def follow(self, tenant: str, tree: str, after: int) -> AsyncIterator[Sequence[Entry]]:
        """A tree's log after a seq, in batches, as it grows."""
        with self._tail(f"{tenant}/{tree}") as tail:
            looked = 0
            while not (self._closed or tail.gone):
                seen, foreign = tail.signal.count, tail.foreign
                batch = tail.after(after)
                if not batch and (looked != foreign or (batch is None and tail.entries)):
                    batch = await self._store.read(tenant, tree, after, SLICE)
                    if not batch:
                        looked = foreign  # what is committed from now on comes through the tail
                if batch:
                    after = batch[-1].seq
                    yield batch
                else:
                    await tail.signal.after(seen)

    @contextmanager
    def _tail(self, key: str) -> Iterator[Tail]:
        tail = self._tails.setdefault(key, Tail())
        tail.followers += 1
        try:
            yield tail
        finally:
            tail.followers -= 1
            self._forget(key)

    @contextmanager
    def topic(self, topic: str) -> Iterator[Callable[[], Awaitable[None]]]:
        """Follow a topic; see `Kernel.topic`."""
        signal = self._topics.setdefault(topic, Signal())
        count = signal.count

        async def changed() -> None:
            nonlocal count
            count = await signal.after(count)

        yield changed
