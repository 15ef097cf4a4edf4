"""uvicorn's HTTP protocol, with bounds on what a request may send before anybody has looked at it, and with what doors may
know and do of its connection.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from transom_hookspecs import ABORT, CERTIFICATE

from .tls import fingerprint

MAX_HEAD = 64 * 1024
MAX_HEADERS = 200
HEAD_SECONDS = 20.0
"""A request's head may have so many bytes and lines, and must be whole after so long."""


class BoundedHttp(HttpToolsProtocol):
    """Refuses a head that is too long, and closes a connection whose head does not come.

    Each scope's `state` has the peer's certificate, which nothing that is sent can set, and how to drop the connection.
    """

    _head_bytes = 0
    _in_head = True
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """A client is there: its first request's head is due."""
        super().connection_made(transport)
        certificate = fingerprint(transport.get_extra_info("ssl_object"))
        self.app_state = {**self.app_state, CERTIFICATE: certificate, ABORT: transport.abort}
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._head_is_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a client's; those of a head that is not whole are counted."""
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD:
                self._refuse()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._head_bytes = 0
        self._wait_for_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """One line of a head."""
        super().on_header(name, value)
        if len(self.headers) > MAX_HEADERS:
            raise ValueError("too many headers")

    def on_headers_complete(self) -> None:
        """A head is whole."""
        self._head_is_there()
        super().on_headers_complete()

    def _wait_for_head(self) -> None:
        self._head_is_there()
        self._in_head = True
        self._late = self.loop.call_later(HEAD_SECONDS, self._close)

    def _head_is_there(self) -> None:
        self._in_head = False
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _refuse(self) -> None:
        self.transport.write(b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        self._close()

    def _close(self) -> None:
        self._head_is_there()
        self.transport.close()
