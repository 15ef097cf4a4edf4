"""Hosts that a secret is bound to, and whether an address is at one of them."""

import ipaddress
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from transom_hookspecs import TransomError

if TYPE_CHECKING:
    import httpx

_WRITTEN: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s/\\:?#@*%\[\]]+)(?::(?P<port>[1-9][0-9]{0,4}))?", re.ASCII)
_USUAL: Final = {"https": 443, "http": 80}
_LONGEST: Final = 253


def binding(text: str) -> str:
    """A host as it is kept: `host` or `host:port`, in lower case, an international name in its ASCII form.

    Raises:
        TransomError: invalid_argument.
    """
    import httpx

    written = _WRITTEN.fullmatch(text)
    try:
        name = _name(httpx.URL(f"https://{written['host']}")) if written and len(text) <= _LONGEST else ""
    except httpx.InvalidURL:
        name = ""
    if not written or not name or int(written["port"] or 0) > 65_535:
        raise TransomError(
            "invalid_argument",
            f"host: {text[:_LONGEST]!r} is no host; write api.example.com or api.example.com:8443, without scheme and path",
        )
    return f"{name}:{written['port']}" if written["port"] else name


def bound(hosts: Sequence[str], url: "httpx.URL", *, signing: bool = False) -> bool:
    """Whether an address is at one of these hosts.

    A host without a port is meant with each of its ports, but what is sent in clear (`http`) goes only to this
    computer, or to a port that was named. A signature gives nothing away, so that for one the scheme is no matter.
    """
    name, port = _name(url), url.port or _USUAL.get(url.scheme, 0)
    if f"{name}:{port}" in hosts:
        return True
    return name in hosts and (signing or url.scheme == "https" or _is_here(url.host))


def _name(url: "httpx.URL") -> str:
    host = url.raw_host.decode("ascii").rstrip(".").lower()
    return f"[{host}]" if ":" in host else host


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.rstrip(".") == "localhost"
