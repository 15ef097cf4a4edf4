"""Errors of other people's code: as they were raised, in words, and whether they end where they came from."""

import asyncio
import math
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio


@asynccontextmanager
async def ungrouped() -> AsyncIterator[None]:
    """An error raised inside is raised as it was, not in the groups that the kernel's tasks put around it."""
    try:
        yield
    except BaseExceptionGroup as group:
        only = single(group)
        if only is not group:
            raise only from only.__cause__
        raise


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """The errors in a group, however deep."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from leaves_of(each)
    else:
        yield error


def single(error: BaseException) -> BaseException:
    """The one error in a group, or the error itself."""
    leaves = list(leaves_of(error))
    return leaves[0] if len(leaves) == 1 else error


def contained(error: BaseException) -> bool:
    """Whether an error that somebody's code raised is that code's own affair.

    A cancellation is when nobody cancelled the running task: the code awaited something that was cancelled. So is
    `sys.exit()`; an interrupt is, unless the keyboard may have sent it.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(contained(each) for each in leaves_of(error))
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and not task.cancelling() and anyio.current_effective_deadline() != -math.inf
    if isinstance(error, KeyboardInterrupt):
        return signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    return True


def in_words(error: BaseException) -> str:
    """An error's type and text, bounded; an error that cannot even say what it is says its type.

    Whoever tells it cuts it shorter once it was filtered: a cut before could leave half of what a filter looks for.
    """
    name = type(error).__name__
    try:
        return f"{name}: {error}"[:100_000]
    except Exception:  # noqa: BLE001 - its __str__ raises
        return name
