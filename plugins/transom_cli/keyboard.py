"""Lines typed at a terminal, without a thread: a prompt can be taken back when what it asks for is decided elsewhere."""

import asyncio
import os

import anyio


class Keyboard:
    """Reads lines of a terminal in its line mode, where a read gives whole lines.

    Parameters:
        fd: the terminal's file descriptor.
    """

    def __init__(self, fd: int = 0) -> None:
        self._fd = fd
        self._typed = b""

    async def line(self) -> str | None:
        """The next line without its end; None at the end of input (Ctrl-D)."""
        while b"\n" not in self._typed:
            await self._readable()
            more = os.read(self._fd, 4096)  # does not block: the terminal has a line
            if not more:
                return None
            self._typed += more
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode(errors="replace").rstrip("\r")

    async def _readable(self) -> None:
        loop, typed = asyncio.get_running_loop(), anyio.Event()
        loop.add_reader(self._fd, typed.set)
        try:
            await typed.wait()
        finally:
            loop.remove_reader(self._fd)
