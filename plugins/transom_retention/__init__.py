"""Retention: what is past its time is removed by itself, so thoroughly that nothing of it is left in the store's files.

Job trees and all that belongs to them go after the tenant's `retention_days`, and their IDs are free again. Text deltas
go after a week, their texts stay. The audit trail loses its details after `retention_days` and its oldest entries after
`audit_days`, and still verifies. Read in this order: `sweep` (what is done when), `trees`, `thinning`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, ClassVar

import msgspec

from transom_hookspecs import Kernel, Operation, Record, hookimpl

from .sweep import Sweeper
from .thinning import RECORDS

Seconds = Annotated[float, msgspec.Meta(ge=0)]


class RetentionPlugin:
    """Sweeps by itself, and registers RunRetention."""

    spec: ClassVar[str] = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """Settings.

        Parameters:
            delay: seconds from the start to the first sweep.
            every: seconds between two sweeps.
            thin_days: days after a job's end until its text deltas go; its texts stay.
        """

        delay: Seconds = 60.0
        every: Annotated[float, msgspec.Meta(gt=0)] = 3_600.0
        thin_days: Annotated[int, msgspec.Meta(ge=0)] = 7

    def __init__(self, config: Config) -> None:
        self._config = config
        self._sweeper = Sweeper(config.thin_days)

    @asynccontextmanager
    async def run(self, kernel: Kernel) -> AsyncIterator[None]:
        """Sweep while the process runs."""
        self._sweeper.kernel = kernel
        kernel.spawn(self._sweeper.often, self._config.delay, self._config.every, name="retention")
        yield

    @hookimpl
    def register_records(self) -> list[Record]:
        """How far thinning has come."""
        return RECORDS

    @hookimpl
    def register_operations(self) -> list[Operation]:
        """RunRetention."""
        return [self._sweeper.operation()]


__all__ = ["RetentionPlugin"]
