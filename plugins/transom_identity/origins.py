"""Origins: how one is written, and whether a request that a browser makes comes from this server's own pages."""

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from transom_hookspecs import RequestHead, TransomError

_ORIGIN = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)(?::([1-9][0-9]{0,4}))?")
_DEFAULT_PORTS: Mapping[str, str] = {"http": "80", "https": "443"}
_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))


def origin_of(text: str) -> str | None:
    """An origin as browsers write it (`https://app.example`, `http://localhost:3000`); None when it is none."""
    found = _ORIGIN.fullmatch(text.lower())
    if found is None or int(found[3] or 0) > 65_535:
        return None
    port = "" if found[3] in (None, _DEFAULT_PORTS[found[1]]) else f":{found[3]}"
    return f"{found[1]}://{found[2]}{port}"


def check_own_page(head: RequestHead, public_url: str) -> None:
    """Refuse what another site may have made a browser send: a session's cookie goes along by itself.

    Parameters:
        public_url: where people reach this server; besides it, its own host counts, as the request names it.

    Raises:
        TransomError: permission_denied when an unsafe request does not come from a page of this server.
    """
    if head.method in _SAFE:
        return
    sites = head.headers.get("sec-fetch-site", ())
    if any(site not in ("same-origin", "none") for site in sites) or not _is_own(head, public_url):
        raise TransomError(
            "permission_denied", "a session's request that changes something must come from a page of this server (Origin)"
        )


def is_this_server(head: RequestHead, url: str, public_url: str) -> bool:
    """Whether an address is of this server: of its own host, as the request names it, or of its public address."""
    origin, hosts = _origin_of_url(url), head.headers.get("host", ())
    if origin is None or len(hosts) != 1:
        return False
    scheme = origin.partition(":")[0]
    return origin == origin_of(f"{scheme}://{hosts[0]}") or (bool(public_url) and origin == _origin_of_url(public_url))


def _is_own(head: RequestHead, public_url: str) -> bool:
    """Whether the Origin, or without one the Referer's, is this server's; no more than one of each may be there."""
    origins = head.headers.get("origin") or head.headers.get("referer", ())
    return len(origins) == 1 and is_this_server(head, origins[0], public_url)


def _origin_of_url(url: str) -> str | None:
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return origin_of(f"{parts.scheme}://{parts.netloc}")


def speaks_tls(head: RequestHead, scheme: str, public_url: str) -> bool:
    """Whether the browser speaks TLS, to this process or to the proxy before it."""
    host = "".join(head.headers.get("host", ()))
    return scheme == "https" or (public_url.startswith("https:") and _origin_of_url(public_url) == origin_of(f"https://{host}"))
