"""From a response's bytes to the JSON objects of an answer, however the bytes were cut.

Read are event streams (lines ended by LF, CR or CRLF) and, from servers that do not stream, one JSON document.
Nothing is decoded before its line is whole, so a character cut by the network stays whole.
"""

import logging
from collections.abc import Iterator

from transom_hookspecs import Json, JsonObject

from .failures import ProviderError
from .jsontext import decode

LINE_LIMIT = 1 << 20
BODY_LIMIT = 9 << 20
"""For an answer in one JSON document: 8 MiB of answer and what stands around it."""

_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_log = logging.getLogger(__name__)


class ChunkReader:
    """Bytes in, JSON objects out. `done` says that the server itself ended the answer."""

    def __init__(self) -> None:
        self.done = False
        self._head: bytes | None = b""
        self._document: bytearray | None = None
        self._line = bytearray()
        self._after_cr = False
        self._data: list[bytes] = []
        self._data_size = 0
        self._warned = False

    def feed(self, data: bytes) -> list[JsonObject]:
        """The objects that are whole with these bytes.

        Raises:
            ProviderError: a line, an event or a document is too long.
        """
        if self._head is not None:
            data = self._sniff(self._head + data)
        if self._document is None:
            return [chunk for line in self._lines(data) for chunk in self._on_line(line)]
        self._document += data
        _limit(len(self._document), BODY_LIMIT, "an answer")
        return []

    def close(self) -> list[JsonObject]:
        """The objects that were not ended when the response was.

        Raises:
            ProviderError: the document is no JSON.
        """
        if self._document is not None:
            return self._read_document(bytes(self._document))
        line, self._line = bytes(self._line), bytearray()
        return [*self._on_line(line), *self._dispatch()]

    def _sniff(self, data: bytes) -> bytes:
        """Look at the first byte that counts: `{` begins a document, everything else an event stream."""
        data = data.lstrip(_BLANK).removeprefix(_BOM).lstrip(_BLANK)
        if _BOM.startswith(data):
            self._head = data
            return b""
        self._head = None
        if data[:1] in (b"{", b"["):
            self._document = bytearray()
        return data

    def _read_document(self, raw: bytes) -> list[JsonObject]:
        try:
            value = decode(raw)
        except ValueError as error:
            raise ProviderError("unavailable", "the server's answer is cut, or no JSON", again=True) from error
        self.done = True
        return [entry for entry in (value if isinstance(value, list) else [value]) if isinstance(entry, dict)]

    def _lines(self, data: bytes) -> Iterator[bytes]:
        if self._after_cr and data[:1] == b"\n":  # the second half of a CRLF that the network cut
            data = data[1:]
            self._after_cr = False
        for piece in data.splitlines(keepends=True):
            self._line += piece
            _limit(len(self._line), LINE_LIMIT, "a line")
            self._after_cr = piece.endswith(b"\r")
            if piece.endswith((b"\r", b"\n")):
                line, self._line = bytes(self._line).rstrip(b"\r\n"), bytearray()
                yield line

    def _on_line(self, line: bytes) -> list[JsonObject]:
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
            self._data_size += len(value)
            _limit(self._data_size, LINE_LIMIT, "an event")
        return []

    def _dispatch(self) -> list[JsonObject]:
        """The event's data as one object; when that is none, each of its lines that is one."""
        lines, self._data, self._data_size = self._data, [], 0
        if len(lines) > 1 and _is_json(joined := b"\n".join(lines)):
            lines = [joined]
        return [chunk for line in lines for chunk in self._read(line)]

    def _read(self, line: bytes) -> Iterator[JsonObject]:
        if line.strip() == b"[DONE]":
            self.done = True
        elif line.strip() and not self.done:
            try:
                value: Json = decode(line)
            except ValueError:
                value = None
            if isinstance(value, dict):
                yield value
            else:
                self._warn(line)

    def _warn(self, line: bytes) -> None:
        """Say so, once an answer and without its text: it may hold what nobody may read."""
        if not self._warned:
            self._warned = True
            _log.warning("skipped a data line of %d bytes that is no JSON object", len(line))


def _is_json(data: bytes) -> bool:
    try:
        decode(data)
    except ValueError:
        return False
    return True


def _limit(size: int, limit: int, what: str) -> None:
    if size > limit:
        raise ProviderError("failed_precondition", f"the server sent {what} of more than {limit >> 20} MiB; is `url` right?")
