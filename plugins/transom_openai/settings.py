"""What transom.toml says of one model: `[openai.models.<name>]`."""

import math
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from transom_hookspecs import JsonObject, ModelPrice, TokenCount, TransomError

from .body import RESERVED

Usd = Annotated[float, msgspec.Meta(ge=0, le=10_000)]


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """USD per million tokens. `cached` is for input tokens that the server had cached; None prices them as input."""

    input: Usd
    output: Usd
    cached: Usd | None = None

    def usd(self, count: TokenCount) -> float:
        """What this many tokens cost."""
        cached = min(count.cached_tokens, count.input_tokens)
        cached_price = self.input if self.cached is None else self.cached
        fresh = (count.input_tokens - cached) * self.input
        return (fresh + cached * cached_price + count.output_tokens * self.output) / 1_000_000

    @property
    def price(self) -> ModelPrice:
        """The same as budgets count it: in micro-USD, a part of one counting as one."""
        cached = self.input if self.cached is None else self.cached
        input, output, cached = (math.ceil(usd * 1_000_000) for usd in (self.input, self.output, cached))
        return ModelPrice(input=input, output=output, cached=cached)


class ModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One model of an OpenAI-compatible server.

    Parameters:
        url: the server's base, as `http://127.0.0.1:8080/v1`; `/chat/completions` is added.
        model: what the server calls it.
        api_key_env: the environment variable that holds the key, read at each request; empty sends none.
        tools: `native` function calls, or `schema` for a model that has none: it chooses through structured output.
        stream_options: ask for the usage at the stream's end. A server that refuses this is asked again without.
        think_tags: take `<think>…</think>` at the very start of an answer for reasoning.
        timeout: seconds without a byte after which a request has failed.
        tries: requests in all, while nothing of the answer was passed on.
        max_tokens_field: the name under which the server takes the upper bound of output tokens.
        extra: more fields for each request's body (`top_p`, `parallel_tool_calls`, …).
        prices: for the cost of a call; None costs nothing.
    """

    url: str
    model: str
    api_key_env: str = ""
    tools: Literal["native", "schema"] = "native"
    stream_options: bool = True
    think_tags: bool = True
    timeout: Annotated[float, msgspec.Meta(gt=0)] = 120.0
    tries: Annotated[int, msgspec.Meta(ge=1, le=10)] = 3
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    extra: JsonObject = {}
    prices: Prices | None = None

    def __post_init__(self) -> None:
        """Refuse what would fail at the first request, or leak."""
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("`url` must start with http:// or https:// and name a host, as http://127.0.0.1:8080/v1")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("`url` must hold no credential, query or fragment: name the key's variable in `api_key_env`")
        if taken := sorted(RESERVED & self.extra.keys()):
            raise ValueError(f"`extra` may not set {', '.join(taken)}: this plugin writes them itself")

    @property
    def endpoint(self) -> str:
        """Where chat completions are asked for."""
        return self.url.rstrip("/") + "/chat/completions"


def refuse_reserved(options: JsonObject) -> None:
    """Check the fields that an agent adds to a request's body.

    Raises:
        TransomError: invalid_argument when it would change what the plugin, or the budget, decided.
    """
    if taken := sorted(RESERVED & options.keys()):
        raise TransomError("invalid_argument", f"options: {', '.join(taken)} may not be set; leave them out")
