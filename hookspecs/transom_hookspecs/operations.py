"""The table of operations: every act, whichever door asked, is a row of it.

`kernel.call(name, request, origin)` does authorize → idempotency → handler → audit for all of them. Doors map
rows to their wire, and hold no rule. The permission matrix, the CLI and the Connect service are read from it.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from .callers import Origin
from .events import Rule
from .markers import hookspec
from .records import Job
from .stores import Tx
from .values import JsonObject

T = TypeVar("T")


class Call(Protocol):
    """One call of an operation, as its handler sees it."""

    origin: Origin

    async def transact(
        self, fn: Callable[[Tx], T], *, object: str = "", outcome: str = "ok", details: JsonObject | None = None
    ) -> T:
        """Run a transaction that also holds the call's audit entry and, under an Idempotency-Key, its reply.

        Parameters:
            object: what it was done to (an ID or a name).
            outcome: how it came out, in a word.
            details: the rest, without content and secrets; they are purged earlier than the entry.
        """

    async def audit(self, *, object: str = "", outcome: str = "ok", details: JsonObject | None = None) -> None:
        """Audit a call that wrote nothing."""

    async def require(self, permission: str, object: str = "", job: Job | None = None, rule: Rule | None = None) -> None:
        """Ask policy; for operations whose permission depends on the object.

        Raises:
            TransomError: permission_denied, with policy's reason.
        """


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table.

    Parameters:
        name: the method's name, unique (`StartJob`).
        request, response: Structs.
        permission: what the caller needs (`jobs.start`); the handler asks for what depends on the object.
        audit: the action's name in the audit trail (`run.start`); empty when the operation writes nothing.
        idempotent: whether it takes an Idempotency-Key and answers a repeated one as the first.
        stream: whether it only checks, and the door then watches.
        late: the handler asks for the permission itself, because it depends on the object (a job, an agent), and
            sees to repeated keys itself where the operation is idempotent.
        command: its words on the command line (`key create`), which is made of the request Struct: required fields are
            arguments, the others options; empty when it has no command of its own.
        secret: fields of the request that are secrets: asked for at the terminal or read from standard input, never shown.
    """

    name: str
    request: type[msgspec.Struct]
    response: type[msgspec.Struct]
    permission: str
    handler: "Callable[[Call, Any], Awaitable[msgspec.Struct]]"
    audit: str = ""
    idempotent: bool = False
    stream: bool = False
    late: bool = False
    command: str = ""
    secret: tuple[str, ...] = ()
    description: str = ""


class OperationHooks:
    """Hooks of the operation family."""

    @hookspec
    def register_operations(self) -> Sequence[Operation]:  # type: ignore[empty-body]
        """Return operations; every door that maps the table serves them."""
