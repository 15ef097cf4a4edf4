"""The SQLite store: everything in one file of the data folder.

Read in this order: `store` (what the kernel calls), `writer` (group commit), `tx` (a transaction), `tables` and
`fields` (Structs as rows), then `schema`, `reader`, `changes`, `workers`, `trail`, `scrub`, `files`.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from transom_hookspecs import Store, hookimpl

from .store import SqliteStore


class SqlitePlugin:
    """Offers the store `sqlite`."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """Settings.

        Parameters:
            path: the database's file, relative to the data folder.
            synchronous: what survives a loss of power: `full` everything acknowledged, `normal` what the disk had
                by then, `needed` everything but the last text deltas and results that may be made again.
        """

        path: str = "transom.db"
        synchronous: Literal["full", "needed", "normal"] = "needed"

    def __init__(self, config: Config) -> None:
        self._config = config

    @hookimpl
    def register_stores(self) -> Sequence[Store]:
        """The store, not yet opened."""
        return [SqliteStore(self._config.path, self._config.synchronous)]


__all__ = ["SqlitePlugin", "SqliteStore"]
