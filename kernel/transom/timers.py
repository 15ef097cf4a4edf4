"""Timers: one task and one heap for all, so that a waiting job costs neither."""

import heapq
from collections.abc import Callable

import anyio

from .log import Signal


class Timer:
    """Something to do at a time; `cancel` takes it back."""

    __slots__ = ("do", "when")

    def __init__(self, when: float, do: Callable[[], None]) -> None:
        self.when = when
        self.do: Callable[[], None] | None = do

    def cancel(self) -> None:
        """It will not be done."""
        self.do = None

    def __lt__(self, other: "Timer") -> bool:
        return self.when < other.when


class Timers:
    """All timers of a kernel. What they do is short and plain; longer work is spawned."""

    def __init__(self, report: Callable[[str, BaseException], None]) -> None:
        self._report = report
        self._heap: list[Timer] = []
        self._signal = Signal()

    def later(self, seconds: float, do: Callable[[], None]) -> Timer:
        """Do something after some seconds."""
        timer = Timer(anyio.current_time() + seconds, do)
        heapq.heappush(self._heap, timer)
        if self._heap[0] is timer:
            self._signal.set()
        return timer

    async def run(self) -> None:
        """Do what is due, for ever."""
        while True:
            seen = self._signal.count
            now = anyio.current_time()
            while self._heap and self._heap[0].when <= now:
                timer = heapq.heappop(self._heap)
                if timer.do is not None:
                    self._do(timer.do)
            wait = self._heap[0].when - now if self._heap else None
            with anyio.move_on_after(wait):
                await self._signal.after(seen)

    def _do(self, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:  # noqa: BLE001 - one timer's failure is no other's
            self._report("a timer", error)
