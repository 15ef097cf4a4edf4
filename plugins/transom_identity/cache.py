"""What was read from the store a moment ago: kept until somebody changes something."""

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

MOST = 50_000
"""Values that are kept at most; then all are read anew."""


class Cache(Generic[K, V]):
    """Values by key. What is not there is not kept, so that nobody fills it with guesses."""

    def __init__(self) -> None:
        self._kept: dict[K, V] = {}
        self._age = 0

    async def get(self, key: K, read: Callable[[K], Awaitable[V | None]]) -> V | None:
        """The value, read when it is not kept."""
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        age = self._age
        value = await read(key)
        if value is not None and age == self._age:  # else it may be older than the last change
            if len(self._kept) >= MOST:
                self._kept.clear()
            self._kept[key] = value
        return value

    def clear(self) -> None:
        """Something changed: read everything anew, also what is being read now."""
        self._age += 1
        self._kept.clear()
