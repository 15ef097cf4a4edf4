"""Reasoning under the three names that servers give it: read as reasoning, kept to go back as it came."""

from transom_hookspecs import Json, JsonObject

from .jsontext import PairJoiner, list_of, object_of, text_of

_TEXTS = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Kinds of details whose text comes in pieces, and the field that grows."""


class _Detail:
    """One of `reasoning_details`, whose text grows."""

    def __init__(self, entry: JsonObject) -> None:
        self.entry = entry
        self.field = _TEXTS.get(text_of(entry.get("type")), "")
        self.texts = [text_of(entry.get(self.field))]

    def goes_on(self, entry: JsonObject) -> bool:
        """Whether the entry is more of this one's text."""
        return bool(self.field) and all(self.entry.get(key) == entry.get(key) for key in ("type", "index"))

    def join(self, entry: JsonObject) -> None:
        """Take more of its text, and what the entry says beside it."""
        self.entry = {**self.entry, **{key: value for key, value in entry.items() if value is not None}}
        self.texts.append(text_of(entry.get(self.field)))

    def whole(self) -> JsonObject:
        """The detail as it goes back."""
        return {**self.entry, self.field: _joined(self.texts)} if self.field else self.entry


class ReasoningCollector:
    """The reasoning of one answer."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._details: list[_Detail] = []
        self._pairs = PairJoiner()

    def feed(self, delta: JsonObject) -> str:
        """Take a delta's reasoning and return its text, once also where it came under two names."""
        texts: list[str] = []
        for name in ("reasoning_content", "reasoning"):
            if text := text_of(delta.get(name)):
                self._texts.setdefault(name, []).append(text)
                texts.append(text)
        details = [object_of(entry) for entry in list_of(delta.get("reasoning_details"))]
        texts.append("".join([self._detail(entry) for entry in details if entry]))
        return self._pairs.feed(texts[0])

    def flush(self) -> str:
        """What was held back, when nothing follows."""
        return self._pairs.flush()

    def fields(self) -> JsonObject:
        """What must go back with the next request, by the provider's own names."""
        fields: JsonObject = {name: _joined(texts) for name, texts in self._texts.items()}
        if self._details:
            fields["reasoning_details"] = [_mended(detail.whole()) for detail in self._details]
        return fields

    def _detail(self, entry: JsonObject) -> str:
        """Keep a detail, joined to the one before when it goes on with its text; returns its text."""
        if self._details and self._details[-1].goes_on(entry):
            self._details[-1].join(entry)
        else:
            self._details.append(_Detail(entry))
        return self._details[-1].texts[-1]


def _joined(texts: list[str]) -> str:
    pairs = PairJoiner()
    return pairs.feed("".join(texts)) + pairs.flush()


def _mended(value: Json) -> Json:
    if isinstance(value, str):
        return _joined([value])
    if isinstance(value, list):
        return [_mended(entry) for entry in value]
    return {key: _mended(entry) for key, entry in value.items()} if isinstance(value, dict) else value
