"""The outbound service: one place where requests leave the process.

`operator` addresses come from the operator and go anywhere, through the configured proxy. `guarded` ones come from
tenants, agents and clients: resolved once, every address checked, and the checked address is the one connected to.
"""

import ipaddress
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Self

import anyio
import anyio.to_thread

from transom_hookspecs import Secrets, TransomError, Transport

from .config import Config
from .placeholders import Used, quietly, resolved

if TYPE_CHECKING:
    import httpx

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

NAT64 = ipaddress.ip_network("64:ff9b::/96")
UNICAST = ipaddress.ip_network("2000::/3")
"""All of IPv6 that is public; the rest is local, reserved, or not given out."""

NOT_PUBLIC: tuple[Network, ...] = tuple(
    ipaddress.ip_network(text) for text in ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "3fff::/20")
)
"""What `is_global` of some versions of Python takes for public: protocol assignments (a cloud's metadata among them),
6to4 relays, another cloud's metadata, documentation.
"""


class OutboundService:
    """Implements `transom_hookspecs.Outbound`. `secrets` gives the service that resolves placeholders, if there is one."""

    def __init__(self, config: Config, secrets: Callable[[], Secrets | None] = lambda: None) -> None:
        self._config, self._secrets = config, secrets
        self._allowed = networks(config.outbound.allow_networks)
        self._ssl: ssl.SSLContext | None = None

    def _context(self) -> ssl.SSLContext:
        """One TLS context for all: making one costs tens of milliseconds."""
        if self._ssl is None:
            self._ssl = ssl.create_default_context()
            if self._config.outbound.ca_file:
                self._ssl.load_verify_locations(self._config.outbound.ca_file)
        return self._ssl

    def operator(self, name: str) -> Transport:
        """A transport for addresses that the operator wrote down."""
        import httpx

        direct = httpx.AsyncHTTPTransport(verify=self._context(), retries=0)
        if not self._config.outbound.proxy:
            return direct
        proxied = httpx.AsyncHTTPTransport(verify=self._context(), proxy=self._config.outbound.proxy, retries=0)
        return OperatorTransport(direct, proxied)

    def guarded(self, hosts: Sequence[str] = (), *, tenant: str = "") -> Transport:
        """A transport for addresses that others named; see `Outbound.guarded`."""
        return GuardedTransport(
            self._context(), tuple(hosts), self._allowed, dev=self._config.dev, tenant=tenant, secrets=self._secrets
        )


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Networks in CIDR notation.

    Raises:
        TransomError: invalid_argument, naming the one that is none.
    """
    found: list[Network] = []
    for text in texts:
        try:
            found.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise TransomError("invalid_argument", f"outbound.allow_networks: {error}") from error
    return tuple(found)


def forbidden(address: Address, allowed: Sequence[Network]) -> bool:
    """Whether an address is not public, nor in a network that the operator listed."""
    address = embedded(address)
    if any(address in network for network in allowed):
        return False
    if address.version == UNICAST.version and address not in UNICAST:
        return True
    return not address.is_global or address.is_multicast or any(address in network for network in NOT_PUBLIC)


def embedded(address: Address) -> Address:
    """The IPv4 address that an IPv6 address leads to, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else address)


def host_allowed(host: str, hosts: Sequence[str]) -> bool:
    """Whether a host is one of these, or below one."""
    name = host.rstrip(".").lower()
    return not hosts or any(name == h.lower() or name.endswith(f".{h.lower()}") for h in hosts)


async def resolve(host: str, port: int) -> list[Address]:
    """All addresses of a name, asked for once.

    Raises:
        TransomError: unavailable when it has none.
    """
    try:
        found = await anyio.to_thread.run_sync(lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError) as error:
        raise TransomError("unavailable", f"host {host!r} cannot be resolved") from error
    texts = dict.fromkeys(str(info[4][0]).partition("%")[0] for info in found)
    return [ipaddress.ip_address(text) for text in texts]


def is_loopback(host: str) -> bool:
    """Whether a host is this computer, by its usual name or an address of its own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.rstrip(".").lower() == "localhost"


class OperatorTransport:
    """An httpx transport that goes through the operator's proxy, but to this computer itself."""

    def __init__(self, direct: "httpx.AsyncHTTPTransport", proxied: "httpx.AsyncHTTPTransport") -> None:
        self._direct, self._proxied = direct, proxied

    async def handle_async_request(self, request: "httpx.Request") -> "httpx.Response":
        """Send a request."""
        chosen = self._direct if is_loopback(request.url.host) else self._proxied
        return await chosen.handle_async_request(request)

    async def aclose(self) -> None:
        """Close connections."""
        await self._direct.aclose()
        await self._proxied.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


class GuardedTransport:
    """An httpx transport that connects only to addresses it has checked, and resolves a tenant's placeholders."""

    def __init__(
        self,
        context: ssl.SSLContext,
        hosts: tuple[str, ...],
        allowed: tuple[Network, ...],
        *,
        dev: bool,
        tenant: str = "",
        secrets: Callable[[], Secrets | None] = lambda: None,
    ) -> None:
        self._context, self._hosts, self._allowed, self._dev = context, hosts, allowed, dev
        self._tenant, self._secrets = tenant, secrets
        self._inner: dict[tuple[str, int], httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: "httpx.Request") -> "httpx.Response":
        """Check where the request would go, then send it exactly there, with the name as SNI and Host.

        An address that does not take the connection is followed by the name's next one.

        Raises:
            TransomError: permission_denied for what may not be reached, unavailable for a name without addresses, and
                why a secret cannot go there.
            httpx.TransportError: it could not be sent or answered.
        """
        url = request.url
        self._check(url)
        name = url.raw_host.decode("ascii")
        port = url.port or (443 if url.scheme == "https" else 80)
        addresses = await resolve(name, port)
        if not self._dev and any(forbidden(address, self._allowed) for address in addresses):
            raise TransomError("permission_denied", f"url: host {url.host!r} has an address that is not public")
        if not self._tenant:
            return await self._send(request, name, port, addresses)
        used = Used(self._secrets(), self._tenant, url)
        sent = await resolved(request, used)
        return await quietly(partial(self._send, sent, name, port, addresses), used.values)

    async def _send(self, request: "httpx.Request", name: str, port: int, addresses: Sequence[Address]) -> "httpx.Response":
        """Send a request to the first address that takes the connection."""
        import httpx

        connections = self._connections(name, port)
        for address in addresses[:-1]:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):
                return await connections.handle_async_request(aimed(request, address, port))
        return await connections.handle_async_request(aimed(request, addresses[-1], port))

    def _check(self, url: "httpx.URL") -> None:
        """What can be said of an address without asking for its host."""
        if url.scheme not in ("http", "https"):
            raise TransomError("permission_denied", f"url: scheme {url.scheme!r} is not allowed; use http or https")
        if url.userinfo:
            raise TransomError("permission_denied", "url: user and password in an address are not allowed")
        if not (host_allowed(url.host, self._hosts) or host_allowed(url.raw_host.decode("ascii"), self._hosts)):
            raise TransomError("permission_denied", f"url: host {url.host!r} is not among those that may be reached")

    def _connections(self, name: str, port: int) -> "httpx.AsyncHTTPTransport":
        """The connections of one name: another's, to the same address, were verified for that other name alone."""
        import httpx

        if (name, port) not in self._inner:
            self._inner[name, port] = httpx.AsyncHTTPTransport(verify=self._context, retries=0, trust_env=False)
        return self._inner[name, port]

    async def aclose(self) -> None:
        """Close connections."""
        for connections in self._inner.values():
            await connections.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


def aimed(request: "httpx.Request", address: Address, port: int) -> "httpx.Request":
    """The request, sent to an address of its host; Host and SNI stay the name's."""
    import httpx

    url = request.url
    headers = request.headers.copy()
    headers["Host"] = url.netloc.decode("ascii")
    name = url.raw_host.decode("ascii").rstrip(".")  # an SNI has no dot at its end
    return httpx.Request(
        request.method,
        url.copy_with(host=str(address), port=port),
        headers=headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": name},
    )
