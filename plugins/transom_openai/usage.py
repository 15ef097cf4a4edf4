"""What a call used: as the server says it, or else an upper bound, so that a budget still holds."""

from typing import TYPE_CHECKING

import msgspec

from transom_hookspecs import Json, JsonObject, ModelRequest, TokenCount

from .jsontext import object_of

if TYPE_CHECKING:
    from .settings import Prices

PER_MESSAGE = 16
"""Tokens that a chat template writes around one message, at the most."""
PER_REQUEST = 128
"""Tokens of a system text that templates add where there is none."""
PER_FUNCTIONS = 1024
"""Tokens of the instructions that templates add when functions are offered."""


def input_bound(request: ModelRequest, body: JsonObject) -> int:
    """An upper bound of input tokens: one a byte of the request's body, and what a template adds."""
    overhead = PER_REQUEST + PER_MESSAGE * len(request.messages) + (PER_FUNCTIONS if request.functions else 0)
    return len(msgspec.json.encode(body)) + overhead


def reported(usage: JsonObject) -> TokenCount | None:
    """The server's own count; None when it gives none."""
    if not _is_count(usage.get("prompt_tokens")) and not _is_count(usage.get("completion_tokens")):
        return None
    details = object_of(usage.get("prompt_tokens_details"))
    return TokenCount(
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
        cached_tokens=_count(details.get("cached_tokens")) or _count(usage.get("prompt_cache_hit_tokens")),
    )


def priced(count: TokenCount, prices: "Prices | None") -> TokenCount:
    """The count with what it cost."""
    return msgspec.structs.replace(count, usd=prices.usd(count)) if prices else count


def _is_count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _count(value: Json) -> int:
    return value if isinstance(value, int) and _is_count(value) else 0
