"""A plugin in one file: the function `lamp.switch`, which agents call. The lamp is a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from transom_hookspecs import Tool, function, hookimpl, tool


class LampPlugin:
    """Registers the tool; the kernel makes one instance."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """`[lamp]` of transom.toml. `file`: where each switch adds a line."""

        file: str = "lamp.txt"

    def __init__(self, config: Config) -> None:
        self._file = Path(config.file)

    @hookimpl
    def register_tools(self) -> Sequence[Tool]:
        """The tool `lamp`. It sends nothing out, so no rule about that need ask a person."""
        return [tool("lamp", function(self.switch, open_world=False))]

    def switch(self, colour: Literal["red", "green", "blue"]) -> str:
        """Switch the lamp to a colour."""
        with self._file.open("a", encoding="utf-8") as lamp:
            lamp.write(f"{colour}\n")
        return f"The lamp is {colour} now."
