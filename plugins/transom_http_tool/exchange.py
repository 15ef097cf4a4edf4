"""One request and its answer, through the guarded transport, within bounds of time and size."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import anyio
import msgspec

from transom_hookspecs import CallContext, TransomError

from .requests import Request

if TYPE_CHECKING:
    import httpx


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What came back: header names in lower case, the body as text; `truncated` when there was more of it."""

    status: int
    headers: dict[str, str]
    body: str
    truncated: bool = False


async def exchange(context: CallContext, request: Request, hosts: Sequence[str], timeout: float, max_bytes: int) -> Answer:
    """Send a request and read its answer, whatever its status.

    Parameters:
        hosts: the only hosts that may be reached; empty means every public one.
        timeout: seconds for all of it.
        max_bytes: how much of the body is read.

    Raises:
        TransomError: deadline_exceeded, unavailable when the connection failed, failed_precondition for a body that is
            compressed all the same, and what the guarded transport refuses with.
    """
    import httpx

    transport = cast("httpx.AsyncBaseTransport", context.outbound(hosts))
    client = httpx.AsyncClient(transport=transport, timeout=timeout, trust_env=False)
    try:
        with anyio.fail_after(timeout):
            return await _send(client, request, max_bytes)
    except (TimeoutError, httpx.TimeoutException) as error:
        message = f"{request.host} did not answer within {timeout:g} s; try again later"
        raise TransomError("deadline_exceeded", message) from error
    except httpx.HTTPError as error:
        message = f"the connection to {request.host} failed ({type(error).__name__}); check the address, or try again later"
        raise TransomError("unavailable", message) from error
    finally:
        await client.aclose()


async def _send(client: "httpx.AsyncClient", request: Request, max_bytes: int) -> Answer:
    sending = client.stream(request.method, request.url, headers=request.headers, content=request.content)
    async with sending as response:
        if packed := _packed(response):
            message = f"{request.host} sends a body in the encoding {packed!r}, which was not asked for; use another address"
            raise TransomError("failed_precondition", message)
        body = await _read(response, max_bytes)
        return Answer(
            status=response.status_code,
            headers=dict(response.headers),
            body=_text(body[:max_bytes], response.charset_encoding),
            truncated=len(body) > max_bytes,
        )


def _packed(response: "httpx.Response") -> str:
    """The encoding of a body that would have to be unpacked, which can make a large body of a small one; else empty."""
    encoding: str = response.headers.get("content-encoding", "identity").lower()
    empty = response.headers.get("content-length") == "0" or response.status_code in (204, 304)
    return "" if encoding == "identity" or empty or response.request.method == "HEAD" else encoding


async def _read(response: "httpx.Response", max_bytes: int) -> bytes:
    """The body; of a longer one a little more than `max_bytes`."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk[: max_bytes + 1 - len(body)]
        if len(body) > max_bytes:
            break
    return bytes(body)


def _text(body: bytes, charset: str | None) -> str:
    try:
        return body.decode(charset or "utf-8", "replace")
    except (LookupError, UnicodeError):
        return body.decode("utf-8", "replace")
