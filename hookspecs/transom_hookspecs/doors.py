"""The door family: how requests come in. A door translates; it holds no rule."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from .events import Entry
from .markers import hookspec
from .operations import Operation

CERTIFICATE = "transom.certificate"
"""Where in an ASGI scope's `state` a server puts the peer's certificate, see `RequestHead`."""

ABORT = "transom.abort"
"""Where in an ASGI scope's `state` a server puts a function that drops the connection with all that is unsent."""


class RequestHead(msgspec.Struct, frozen=True, kw_only=True):
    """A request without its body: all that `authenticate` may see.

    Parameters:
        headers: names in lower case, as bytes came (latin-1); a header sent twice has two values.
        query: the raw query string.
        client: the peer's address, or empty.
        certificate: `sha256:<hex>` of the peer's certificate (DER), on the listener that asks for one; empty elsewhere. No
            header sets it: a server puts it into the state of an ASGI scope under the key CERTIFICATE.
    """

    method: str
    path: str
    headers: Mapping[str, tuple[str, ...]]
    query: str = ""
    client: str = ""
    certificate: str = ""


class Encoder(Protocol):
    """A pure, synchronous state machine from log entries to a protocol's bytes: no clock, no request, no HTTP."""

    def on(self, entry: Entry) -> Sequence[bytes]:
        """The protocol events that one log entry becomes, each whole (with its id, where the protocol has ids)."""


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """A door: a name, and Litestar route handlers (or routers), which are checked at start."""

    name: str
    handlers: Sequence[object]


class DoorHooks:
    """Hooks of the door family."""

    @hookspec
    def register_doors(self) -> Sequence[Door]:  # type: ignore[empty-body]
        """Return doors; their handlers are served on the runtime API's port."""

    @hookspec
    def register_commands(self, operations: Sequence[Operation]) -> Sequence[object]:  # type: ignore[empty-body]
        """Return click commands for the `transom` command line; `operations` is the table that commands may be made of."""
