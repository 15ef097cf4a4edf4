"""The seam that every text passes before it is recorded.

A job compiles the plugins' filters once. Where none has anything to say, a text costs nothing. A filter that fails masks
the rest of its text; it never passes it on.
"""

import logging
from collections.abc import Sequence
from typing import cast

import msgspec

from transom_hookspecs import ErrorInfo, Filter, FilterScope, Json, JsonObject, Source, TextFilter, TransomError

log = logging.getLogger("transom.filters")

MASK = "[withheld]"

LONGEST_ERROR = 2_000
"""Characters of an error's message that are kept; it is cut after it was filtered, never in the middle of a match."""


class Guarded:
    """A plugin's TextFilter that masks instead of failing."""

    __slots__ = ("_filter", "_plugin")

    def __init__(self, plugin: str, filter: TextFilter) -> None:
        self._plugin = plugin
        self._filter: TextFilter | None = filter

    def feed(self, text: str) -> str:
        """More of the text; nothing passes after a failure."""
        if self._filter is None:
            return ""
        try:
            return self._filter.feed(text)
        except Exception as error:  # noqa: BLE001 - the text is withheld
            return self._failed(error)

    def end(self) -> str:
        """The rest of the text."""
        if self._filter is None:
            return ""
        try:
            return self._filter.end()
        except Exception as error:  # noqa: BLE001 - the text is withheld
            return self._failed(error)

    def _failed(self, error: Exception) -> str:
        log.error("filter of plugin %r failed; the rest of the text is withheld", self._plugin, exc_info=error)
        self._filter = None
        return MASK


class Pipe:
    """One text through all filters, in order; falsy when there are none."""

    __slots__ = ("_filters",)

    def __bool__(self) -> bool:
        return bool(self._filters)

    def __init__(self, filters: Sequence[TextFilter]) -> None:
        self._filters = filters

    def feed(self, text: str) -> str:
        """More of the text; returns what has passed every filter."""
        text = storable(text)
        for each in self._filters:
            text = each.feed(text)
        return text

    def end(self) -> str:
        """What the filters still hold, passed on through those after them."""
        rest = ""
        for each in self._filters:
            rest = (each.feed(rest) if rest else "") + each.end()
        return rest


class Filters:
    """The filters of one job, compiled; or of a tenant's texts that are about no job."""

    def __init__(self, filters: Sequence[tuple[str, Filter]], tenant: str, job: str = "", agent: str = "") -> None:
        self._filters = filters
        self._names = (tenant, job, agent)

    def open(self, source: Source) -> Pipe:
        """A pipe for one text."""
        if not self._filters:
            return Pipe(())
        tenant, job, agent = self._names
        scope = FilterScope(tenant=tenant, job=job, agent=agent, source=source)
        opened: list[TextFilter] = []
        for plugin, each in self._filters:
            try:
                made = each.open(scope)
            except Exception:
                log.exception("filter of plugin %r failed to open; texts are withheld", plugin)
                made = _Withhold()
            if made is not None:
                opened.append(Guarded(plugin, made))
        return Pipe(opened)

    def text(self, source: Source, text: str) -> str:
        """A whole text, such that it can be stored."""
        if not text or not (pipe := self.open(source)):
            return storable(text)
        return pipe.feed(text) + pipe.end()

    def texts(self, source: Source, texts: Sequence[str]) -> tuple[str, ...]:
        """Whole texts."""
        return tuple([self.text(source, text) for text in texts])

    def value(self, source: Source, value: Json) -> Json:
        """Every text of a JSON value, keys too, such that it can be stored."""
        if not self.open(source) and encodes(value):
            return value
        return self._value(source, value)

    def object(self, source: Source, value: JsonObject) -> JsonObject:
        """`value` of what is an object."""
        return cast(JsonObject, self.value(source, value))

    def _value(self, source: Source, value: Json) -> Json:
        if isinstance(value, str):
            return self.text(source, value)
        if isinstance(value, list):
            return [self._value(source, each) for each in value]
        if isinstance(value, dict):
            return {self.text(source, k): self._value(source, v) for k, v in value.items()}
        return value

    def error(self, error: ErrorInfo) -> ErrorInfo:
        """An error as it is told."""
        message = self.text("error", error.message)
        if len(message) > LONGEST_ERROR:
            message = f"{message[:LONGEST_ERROR]}…"
        return msgspec.structs.replace(error, message=message, details=self.object("error", error.details))

    def raised(self, error: TransomError) -> TransomError:
        """The same error, with its words as they are told."""
        told = self.error(error.info())
        error.message, error.details, error.args = told.message, told.details, (told.message,)
        return error


def encodes(value: Json) -> bool:
    """Whether every text of a JSON value has only characters that UTF-8 knows."""
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError:
        return False
    return True


def storable(text: str) -> str:
    """A text with what UTF-8 does not know (half a surrogate pair) replaced; most are as they were."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class _Withhold:
    def feed(self, text: str) -> str:
        return ""

    def end(self) -> str:
        return MASK


__all__ = ["LONGEST_ERROR", "MASK", "Filters", "Pipe"]
