"""Server-sent events, read as the HTML standard says: a pure parser from bytes to events, for any split of the bytes."""

import codecs

import msgspec


class ServerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event: its type, its data, and the last event ID as it stands after it."""

    event: str
    data: str
    id: str


class SseParser:
    """Give it bytes as they come; it gives back the events that are whole.

    Parameters:
        last_id: the ID to begin with, when a stream is resumed. Afterwards `last_id` is that of the last whole event:
            a stream that breaks off inside an event is resumed before it.
        limit: how many characters one line or one event's data may have.

    Raises:
        ValueError: from `feed`, when a line or an event is longer than `limit`.
    """

    def __init__(self, last_id: str = "", *, limit: int = 64 << 20) -> None:
        self.last_id = last_id
        self._id = last_id
        self._limit = limit
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._started = False
        self._after_cr = False
        self._data: list[str] = []
        self._size = 0
        self._event = ""

    def feed(self, chunk: bytes) -> list[ServerEvent]:
        """The events that end in this chunk."""
        *lines, self._rest = (self._rest + self._text(chunk)).split("\n")
        events = [event for line in lines if (event := self._line(line)) is not None]
        if len(self._rest) > self._limit:
            raise ValueError(f"a line of the event stream has more than {self._limit} characters")
        return events

    def _text(self, chunk: bytes) -> str:
        """The chunk's text with every line end (CRLF, LF, CR) as LF; a CR ends its line at once, whatever follows."""
        text = self._decoder.decode(chunk)
        if not text:
            return ""
        if not self._started:
            self._started = True
            text = text.removeprefix("\ufeff")
        begun = text.removeprefix("\n") if self._after_cr else text
        self._after_cr = text.endswith("\r")
        return begun.replace("\r\n", "\n").replace("\r", "\n")

    def _line(self, line: str) -> ServerEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        self._field(name, value.removeprefix(" "))
        return None

    def _field(self, name: str, value: str) -> None:
        """Take one field; a comment has an empty name, and unknown fields are ignored."""
        if name == "data":
            self._data.append(value)
            self._size += len(value) + 1
            if self._size > self._limit:
                raise ValueError(f"an event of the stream has more than {self._limit} characters of data")
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value

    def _dispatch(self) -> ServerEvent | None:
        data, event = self._data, self._event
        self._data, self._event, self._size = [], "", 0
        self.last_id = self._id
        return ServerEvent(event=event or "message", data="\n".join(data), id=self.last_id) if data else None
