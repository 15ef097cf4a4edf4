"""The turn's text messages: begun, continued, ended, and what becomes of them when part of the stream is gone."""

from collections.abc import Callable

from transom_hookspecs import Json

from .view import View
from .wire import TextContent, TextEnd, TextStart, Wire, text_of


class Texts:
    """Says text messages, each of them begun once and ended once.

    When entries are missing, the message that is open ends there and gets nothing more; after that a message is said
    only when all of it is known. What was left out comes with the whole answer, as a message of its own.

    Parameters:
        say: takes each event.
    """

    def __init__(self, view: View, say: Callable[[Wire], None]) -> None:
        self._view, self._say = view, say
        self._open: set[str] = set()
        self._over: set[str] = set()
        self._gone = self._torn = False
        self._last = ""
        self.seen: set[str] = set()
        """IDs of the messages that were begun, results of calls among them."""

    def begin(self) -> None:
        """The run begins: what was said before it is no part of it."""
        self._over |= self._open
        self._open.clear()
        self._gone = self._torn = False
        self._last = ""

    def more(self, message: str, delta: str) -> None:
        """A piece of a message; an empty one is none."""
        if message in self._open:
            if delta:
                self._say(TextContent(message_id=message, delta=delta))
        elif delta and not self._gone and message not in self._over:
            self._start(message, delta)
            self._open.add(message)

    def goes_on(self, message: str) -> bool:
        """Whether a message is open."""
        return message in self._open

    def end(self, message: str, text: str) -> None:
        """A message is whole."""
        if message in self._open:
            self._end(message)
        elif self._torn:
            self._torn = False
            self._end(message)
        elif text and message not in self._over:
            self._start(message, text)
            self._end(message)
            self._last = text

    def cut(self, message: str) -> None:
        """A message gets nothing more, although it is not whole."""
        if message in self._open or self._torn:
            self._torn = False
            self._end(message)

    def close(self) -> None:
        """End what is open."""
        for message in sorted(self._open):
            self._end(message)

    def gap(self, *, torn: bool) -> None:
        """Entries are missing. `torn`: among them the last one that the client has, so that a message is open there."""
        self.close()
        self._gone, self._torn = True, torn

    def answer(self, output: Json) -> None:
        """The turn's answer, where part of the text is missing and it was not said whole as the last."""
        text = "" if output is None else text_of(output)
        if self._gone and text and text != self._last:
            self.close()
            message = f"{self._view.job}:answer"
            self._start(message, text)
            self._end(message)

    def _start(self, message: str, text: str) -> None:
        self.seen.add(message)
        self._say(TextStart(message_id=message, role="assistant"))
        self._say(TextContent(message_id=message, delta=self._view.mark + text))

    def _end(self, message: str) -> None:
        self._open.discard(message)
        self._over.add(message)
        self._say(TextEnd(message_id=message))
