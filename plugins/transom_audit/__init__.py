"""The audit trail, for its auditors: list, export and verify it, and a file beside the store that has its last hashes.

The kernel writes the entries, in the transactions of what they tell of, and the store chains them (see
`transom_hookspecs.trail`). Read in this order: `walk` (checking a chain), `reading` (the operations), `head` (the file).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar

import msgspec
from anyio import CancelScope

from transom_hookspecs import Kernel, Operation, hookimpl

from .head import HeadKeeper
from .reading import AuditReader


class AuditPlugin:
    """Registers ListAudit, ExportAudit and VerifyAudit, and keeps `audit.head`."""

    spec: ClassVar[str] = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """No settings."""

    def __init__(self, config: Config) -> None:
        self._reader = AuditReader()

    @asynccontextmanager
    async def run(self, kernel: Kernel) -> AsyncIterator[None]:
        """Keep the file about once a second, and once more at the end."""
        keeper = HeadKeeper(kernel)
        self._reader.kernel, self._reader.file = kernel, keeper.file
        if not keeper.has_store:
            yield
            return
        kernel.spawn(keeper.often, name="audit.head")
        try:
            yield
        finally:
            with CancelScope(shield=True):
                await keeper.keep()

    @hookimpl
    def register_operations(self) -> list[Operation]:
        """The operations of the audit trail."""
        return self._reader.operations()


__all__ = ["AuditPlugin"]
