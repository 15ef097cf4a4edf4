"""The filter family: every text passes filters before it is recorded.

A filter is a factory; each message, argument or result gets a TextFilter of its own. One that fails masks its
text and never passes it on.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from .markers import hookspec

Source = Literal["input", "model", "arguments", "tool", "person", "note", "error", "output"]


class FilterScope(msgspec.Struct, frozen=True, kw_only=True):
    """Where a text comes from."""

    tenant: str
    job: str
    agent: str
    source: Source


class TextFilter(Protocol):
    """One text on its way; it may hold back only what may still become a match."""

    def feed(self, text: str) -> str:
        """More of the text; returns what may pass by now."""

    def end(self) -> str:
        """The text is whole; returns the rest."""


class Filter(Protocol):
    """Makes a TextFilter for a text, or None where it has nothing to say; asked for each text anew."""

    name: str

    def open(self, scope: FilterScope) -> TextFilter | None:
        """A filter for one text of this scope."""


class FilterHooks:
    """Hooks of the filter family."""

    @hookspec
    def register_filters(self) -> Sequence[Filter]:  # type: ignore[empty-body]
        """Return filters, applied in the plugins' order."""
