"""Random names. The operating system is asked for randomness in blocks: each question costs as much as a query."""

import os
from threading import Lock

BLOCK = 4096


class Randomness:
    """Random bytes of the operating system, read ahead; each byte is given out once."""

    def __init__(self) -> None:
        self._block = b""
        self._at = 0
        self._lock = Lock()

    def take(self, count: int) -> bytes:
        """Some bytes that nobody had before."""
        with self._lock:
            if self._at + count > len(self._block):
                self._block, self._at = os.urandom(BLOCK), 0
            self._at += count
            return self._block[self._at - count : self._at]


_randomness = Randomness()
os.register_at_fork(after_in_child=_randomness.__init__)  # type: ignore[misc]


def token(count: int) -> str:
    """Random hex digits, two a byte."""
    return _randomness.take(count).hex()


def new_id(kind: str) -> str:
    """A new ID, `<kind>-` and a random UUID (version 4)."""
    made = bytearray(_randomness.take(16))
    made[6] = made[6] & 0x0F | 0x40
    made[8] = made[8] & 0x3F | 0x80
    text = made.hex()
    return f"{kind}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
