"""How the plugin's operations become rows of the table."""

import inspect
from typing import Any

import msgspec

from transom_hookspecs import Operation


def operation(
    request: type[msgspec.Struct],
    response: type[msgspec.Struct],
    handler: Any,
    permission: str,
    *,
    audit: str = "",
    command: str = "",
    idempotent: bool = False,
    late: bool = False,
    secret: tuple[str, ...] = (),
) -> Operation:
    """A row of the table, named and described as its request is; see `transom_hookspecs.Operation`."""
    return Operation(
        name=request.__name__,
        request=request,
        response=response,
        permission=permission,
        handler=handler,
        audit=audit,
        command=command,
        idempotent=idempotent,
        late=late,
        secret=secret,
        description=inspect.getdoc(request) or "",
    )
