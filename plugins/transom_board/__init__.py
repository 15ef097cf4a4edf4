"""The board: notes that the jobs of a tree pin for one another, and for whoever looks on.

An agent pins with `ctx.note`, a model with the function `oz.board_write`; the kernel calls the service `Board`
inside the step's transaction and appends the event. People read the whole board with GetJobBoard.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import msgspec

from transom_hookspecs import Board, Index, Kernel, Operation, Record, Service, hookimpl

from .notes import Note, NoteBoard
from .reading import BoardReader

Count = Annotated[int, msgspec.Meta(ge=1)]


class BoardPlugin:
    """Provides the service Board, its record and the operation GetJobBoard."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """Settings: the longest note, in bytes of UTF-8, and how many notes a job tree may have."""

        note_bytes: Count = 16_384
        notes_per_tree: Count = 1_000

    def __init__(self, config: Config) -> None:
        self._board = NoteBoard(note_bytes=config.note_bytes, notes_per_tree=config.notes_per_tree)
        self._reader = BoardReader()

    @asynccontextmanager
    async def run(self, kernel: Kernel) -> AsyncIterator[None]:
        """Give the reader its kernel."""
        self._reader.kernel = kernel
        yield

    @hookimpl
    def register_services(self) -> list[Service]:
        """The board."""
        return [Service(protocol=Board, provider=self._board)]

    @hookimpl
    def register_records(self) -> list[Record]:
        """The notes, in the order of their numbers."""
        return [Record(type=Note, key=("tree", "number"), indexes=(Index("board", ("tree", "number")),), belongs=("tree",))]

    @hookimpl
    def register_operations(self) -> list[Operation]:
        """GetJobBoard."""
        return [self._reader.operation()]
