"""The outbound service: the one way out, with two doors.

Both hand out an httpx transport (typed by shape, so that this package needs no httpx), so that what is true of every
request is in one place.
"""

from collections.abc import Sequence
from typing import Any, Protocol


class Transport(Protocol):
    """An `httpx.AsyncBaseTransport`: `httpx.AsyncClient(transport=…)` takes it."""

    async def handle_async_request(self, request: Any) -> Any:
        """Send an httpx.Request, return an httpx.Response."""

    async def aclose(self) -> None:
        """Close idle connections."""


class Outbound(Protocol):
    """The kernel's outbound service."""

    def operator(self, name: str) -> Transport:
        """For addresses that the operator wrote down (transom.toml, the command line): any address, the configured
        proxy and CA. `name` says on whose behalf, for traces and errors.
        """

    def guarded(self, hosts: Sequence[str] = (), *, tenant: str = "") -> Transport:
        """For addresses that a tenant, agent, routine, card or client named.

        The name is resolved once, every address is checked (no private, loopback or link-local one, unless listed
        or in dev mode), and the checked address is the one connected to. No redirects, no proxy.

        `{{secret:NAME}}` in a header's value, in the query or in the body becomes the value of that secret of the
        tenant's, when the address is at a host that the secret is bound to; else nothing is sent. A body whose length
        is not known beforehand is sent as it is.

        Parameters:
            hosts: exact hosts or parents of subdomains that may be reached; empty means any public one.
            tenant: on whose behalf; without one no placeholder is resolved.
        """
