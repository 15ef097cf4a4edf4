"""The tool `http`: HTTP requests to addresses that an agent names, through the kernel's guarded way out.

`http.get` only reads and `http.request` can do anything, so that policy can tell them apart. `requests` checks what an
agent asks for, `exchange` sends it.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from transom_hookspecs import CallContext, Json, Tool, function, hookimpl, tool

from .exchange import Answer, exchange
from .requests import Method, checked


class HttpToolPlugin:
    """The tool `http`."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """Settings.

        Parameters:
            hosts: the only hosts that may be reached, each with its subdomains; empty means every public one.
            timeout: seconds for a whole exchange.
            max_bytes: how much of an answer's body is read; the rest is left out, and `truncated` says so.
        """

        hosts: tuple[str, ...] = ()
        timeout: Annotated[float, msgspec.Meta(gt=0, le=600)] = 30.0
        max_bytes: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)] = 1 << 20

    def __init__(self, config: Config) -> None:
        self._config = config

    @hookimpl
    def register_tools(self) -> Sequence[Tool]:
        """Return the tool `http`."""
        longer = self._config.timeout + 5.0  # the exchange ends itself, with a better message
        get = function(self.get, read_only=True, timeout=longer)
        request = function(self.request, timeout=longer)
        return [tool("http", get, request, description="HTTP requests.")]

    async def get(self, context: CallContext, url: str, headers: dict[str, str] | None = None) -> Answer:
        """Read an http or https address. Answers with status, headers and body; redirects are not followed."""
        request = checked("GET", url, headers or {})
        return await exchange(context, request, self._config.hosts, self._config.timeout, self._config.max_bytes)

    async def request(
        self,
        context: CallContext,
        method: Method,
        url: str,
        headers: dict[str, str] | None = None,
        body: str | dict[str, Json] | list[Json] | None = None,
    ) -> Answer:
        """Send an HTTP request. A body that is no text is sent as JSON; redirects are not followed."""
        request = checked(method, url, headers or {}, body, context.idempotency_key)
        return await exchange(context, request, self._config.hosts, self._config.timeout, self._config.max_bytes)
