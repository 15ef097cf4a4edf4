"""Services: objects that plugins offer one another by a Protocol of this package, one provider each."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from .events import NotePinned
from .markers import hookspec
from .records import Job
from .stores import Tx
from .values import Json, JsonObject


class NewNote(msgspec.Struct, frozen=True, kw_only=True):
    """A note to pin; `supersedes` is the number of the note that it replaces, or 0."""

    text: str
    kind: str = "note"
    tags: tuple[str, ...] = ()
    supersedes: int = 0


@runtime_checkable
class Board(Protocol):
    """The shared notes of a job tree."""

    def pin(self, tx: Tx, job: Job, note: NewNote, call: str = "") -> NotePinned:
        """Pin a note inside a transaction and return its event, which the caller appends.

        Raises:
            TransomError: invalid_argument for a note that is too long or supersedes none of the tree's,
                resource_exhausted when the board is full.
        """


@runtime_checkable
class Outputs(Protocol):
    """The safe outputs of a fire."""

    async def queue(self, tenant: str, job: Job, step: str, output: str, arguments: JsonObject) -> Json:
        """Check and queue one output's request; returns what the agent is told."""


@runtime_checkable
class DevTokens(Protocol):
    """Tokens of a development server's people, for its one line of output."""

    def tokens(self) -> dict[str, str]:
        """Name to bearer token."""


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A provider of one service Protocol."""

    protocol: type
    provider: object


class ServiceHooks:
    """Hooks of the service family."""

    @hookspec
    def register_services(self) -> Sequence[Service]:  # type: ignore[empty-body]
        """Return services; `kernel.service(Protocol)` gives the one provider or None."""
