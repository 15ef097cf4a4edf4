"""The command line: `transom run`, `dev`, `serve`, `job`, `approval`, `catalog`, `plugins`, `hooks`, `operations`.

Read in this order: `client` (what the commands need of a runtime; `embedded` and `remote` provide it), `session`
(follow a job, ask, decide), `render` (log entries to what a person reads), then `commands`.
"""

from collections.abc import Sequence

import msgspec

from transom_hookspecs import hookimpl


class CliPlugin:
    """Registers the commands; nothing of them is imported before they are asked for."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """The command line has no settings in transom.toml: it has options and environment variables."""

    def __init__(self, config: Config) -> None:
        self.config = config

    @hookimpl
    def register_commands(self) -> Sequence[object]:
        """Return the click commands."""
        from .commands import COMMANDS

        return COMMANDS
