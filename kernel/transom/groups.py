"""Errors that a task group wrapped, as they were raised."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager


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
