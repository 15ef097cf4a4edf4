"""The command line: `transom run`, `dev`, `serve`, `job` … written by hand, and commands made of the table of operations.

Read in this order: `client` (what the commands need of a runtime; `embedded` and `remote` provide it), `session`
(follow a job, ask, decide), `render` (log entries to what a person reads), then `commands`; for those that are made
of operations `commands.made`, `fields` (a request's fields as options) and `answers` (an answer as a table).
"""

from collections.abc import Sequence

import msgspec

from transom_hookspecs import Operation, hookimpl


class CliPlugin:
    """Registers the commands; nothing of them is imported before they are asked for."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """The command line has no settings in transom.toml: it has options and environment variables."""

    def __init__(self, config: Config) -> None:
        self.config = config

    @hookimpl
    def register_commands(self, operations: Sequence[Operation]) -> Sequence[object]:
        """Return the click commands: those written here, and one of each operation that has words for it."""
        from .commands import COMMANDS
        from .commands.made import with_made

        return with_made(COMMANDS, operations)
