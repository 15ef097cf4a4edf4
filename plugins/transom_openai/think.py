"""`<think>…</think>` at the start of an answer: models without a field of their own for reasoning write it there."""

from typing import Literal

OPEN = "<think>"
CLOSE = "</think>"
BLANKS = 256
"""White space that is held back before a tag at the most."""


class ThinkSplitter:
    """Splits text, as it comes, into reasoning and answer; tags may be cut anywhere.

    Only a tag at the very start (after white space) opens: later ones are the answer's own words.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._state: Literal["start", "inside", "after", "answer"] = "start" if enabled else "answer"
        self._held = ""

    def feed(self, text: str) -> tuple[str, str]:
        """The reasoning and the answer's text that are certain now; what may still become a tag is held back."""
        if self._state == "answer":
            return "", text
        self._held += text
        reasoning = ""
        if self._state == "start":
            self._open()
        if self._state == "inside":
            reasoning = self._close()
        if self._state == "after":  # the line ends that follow the tag belong to it
            self._held = self._held.lstrip()
            self._state = "answer" if self._held else "after"
        return reasoning, self._take() if self._state == "answer" else ""

    def flush(self) -> tuple[str, str]:
        """What was held back, when nothing follows."""
        held = self._take()
        return (held, "") if self._state == "inside" else ("", "" if self._state == "after" else held)

    def _open(self) -> None:
        start = self._held.lstrip()
        if start.startswith(OPEN):
            self._state, self._held = "inside", start[len(OPEN) :]
        elif not OPEN.startswith(start) or len(self._held) > BLANKS:
            self._state = "answer"

    def _close(self) -> str:
        reasoning, tag, rest = self._held.partition(CLOSE)
        if tag:
            self._state, self._held = "after", rest
            return reasoning
        certain = len(reasoning) - _overlap(reasoning, CLOSE)
        self._held = reasoning[certain:]
        return reasoning[:certain]

    def _take(self) -> str:
        held, self._held = self._held, ""
        return held


def _overlap(text: str, tag: str) -> int:
    """How many characters at the end of `text` are the beginning of `tag`."""
    return next((size for size in range(min(len(text), len(tag) - 1), 0, -1) if text.endswith(tag[:size])), 0)
