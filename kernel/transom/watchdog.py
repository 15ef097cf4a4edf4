"""A thread that notices when something blocks the event loop, and says what.

Code that blocks cannot be stopped from inside; the watchdog logs its stack once it has blocked for a second, and
health stays bad for half a minute after it.
"""

import asyncio
import logging
import sys
import threading
import time
import traceback

log = logging.getLogger("transom.watchdog")

BLOCKED_AFTER = 1.0
BAD_FOR = 30.0
EVERY = 0.25


class Watchdog:
    """Watches one event loop from a thread of its own."""

    def __init__(self) -> None:
        self._beat = time.monotonic()
        self._stop = threading.Event()
        self._last_block = 0.0
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Watch the running loop."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._beat = time.monotonic()
        self._thread = threading.Thread(target=self._watch, name="transom-watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stop.set()

    def problem(self) -> str:
        """What health says of it, or nothing."""
        ago = time.monotonic() - self._last_block
        if self._last_block and ago < BAD_FOR:
            return f"something blocked the event loop {ago:.0f} s ago; the log has its stack"
        return ""

    def _mark(self) -> None:
        self._beat = time.monotonic()

    def _watch(self) -> None:
        reported = 0.0
        while not self._stop.wait(EVERY):
            try:
                self._loop.call_soon_threadsafe(self._mark)
            except RuntimeError:  # the loop is closed
                return
            late = time.monotonic() - self._beat
            if late < BLOCKED_AFTER:
                continue
            self._last_block = time.monotonic()
            if reported != self._beat:
                reported = self._beat
                self._report(late)

    def _report(self, late: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - the documented way to another thread's stack
        stack = "".join(traceback.format_stack(frame)) if frame else "(no stack)"
        log.error("the event loop is blocked for %.1f s by:\n%s", late, stack)
