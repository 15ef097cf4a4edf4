"""Plain values that every family shares: JSON, time, names."""

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
else:  # msgspec decodes any JSON value into an Any field; it cannot follow the recursive alias
    Json = Any

JsonObject = dict[str, Json]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}\Z")
"""What a tenant, agent, flow, tool or function may be called; use `NAME.match`."""

SYSTEM = "\x00system"
"""The tenant of tenants: keys by hash, leases, workers. Only the kernel and identity plugins may name it."""

NEVER = 1 << 53
"""A time in milliseconds that does not come: 'no timer' in a field that is ordered by."""
