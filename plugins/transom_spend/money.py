"""Money: amounts in micro-USD, prices, and what tokens cost."""

import math
from decimal import Decimal

import msgspec

from transom_hookspecs import ModelPrice, TokenCount, TransomError

from .records import Price

MILLION = 1_000_000
MOST_PER_MILLION = 10_000.0
"""USD for a million tokens; a higher price is taken for a slip."""
MOST_USD, MOST_COUNT = 1e9, 1e15


class PriceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A model's price in transom.toml: USD for a million tokens.

    Parameters:
        input, output: of the prompt and of the answer.
        cached: of input tokens that the provider had cached; left out, as `input`.
    """

    input: float
    output: float
    cached: float | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be a price, when the settings are read."""
        for name in ("input", "output", "cached"):
            if (value := getattr(self, name)) is not None and (wrong := wrong_price(value)):
                raise ValueError(f"`{name}` {wrong}")

    def price(self, model: str) -> Price:
        """The price as it is kept."""
        return price_of(model, self.input, self.output, self.cached)


def wrong_price(usd: float) -> str:
    """Why this is no price in USD for a million tokens; empty when it is one."""
    if not 0 <= usd <= MOST_PER_MILLION:
        return f"is {usd!r}, and must be from 0 to {MOST_PER_MILLION:,.0f} USD for a million tokens"
    return ""


def price_of(model: str, input: float, output: float, cached: float | None) -> Price:
    """A price of numbers that were checked."""
    read = _micro(input)
    return Price(model=model, input=read, output=_micro(output), cached=read if cached is None else _micro(cached))


def _micro(usd: float) -> int:
    return math.ceil(Decimal(repr(float(usd))) * MILLION)


def amount(value: float, what: str, field: str) -> int:
    """A limit as it is kept: whole jobs and tokens, or micro-USD.

    Raises:
        TransomError: invalid_argument for what is no such number.
    """
    most = MOST_USD if what == "usd" else MOST_COUNT
    if not 0 <= value <= most:
        raise TransomError("invalid_argument", f"{field}: {value!r} is none from 0 to {most:,.0f}")
    if what == "usd":
        return int(Decimal(repr(float(value))) * MILLION)
    if value != int(value):
        raise TransomError("invalid_argument", f"{field}: {what} are counted whole, and {value!r} is not")
    return int(value)


def shown(amount: int, what: str) -> int | float:
    """An amount as programs are told: USD, or a count."""
    return amount / MILLION if what == "usd" else amount


def spelled(amount: int, what: str) -> str:
    """An amount in words."""
    if what != "usd":
        return f"{amount:,} {what if amount != 1 else what.removesuffix('s')}"
    whole, _, part = f"{amount / MILLION:.6f}".partition(".")
    return f"{int(whole):,}.{part.rstrip('0').ljust(2, '0')} USD"


class Meter:
    """What tokens of one model cost.

    Parameters:
        own: the model's own price; `given`: the one that was set for it. Where there are both, the given one prices what
            the model leaves unpriced, and the upper bound is that of the dearer.
    """

    def __init__(self, own: ModelPrice | None, given: Price | None) -> None:
        self._prices = tuple(each for each in (given, own) if each is not None)

    @property
    def known(self) -> bool:
        """Whether there is a price."""
        return bool(self._prices)

    def most(self, input_tokens: int, output_tokens: int) -> int:
        """The upper bound of a call's cost."""
        costs = (input_tokens * max(p.input, p.cached) + output_tokens * p.output for p in self._prices)
        return max((_up(cost) for cost in costs), default=0)

    def cost(self, count: TokenCount) -> int:
        """What a call costs by the price that was set, else by the model's own."""
        if not self._prices:
            return 0
        price, cached = self._prices[0], min(count.cached_tokens, count.input_tokens)
        return _up((count.input_tokens - cached) * price.input + cached * price.cached + count.output_tokens * price.output)


def _up(product: int) -> int:
    """Tokens times price, in whole micro-USD; a part counts as one."""
    return -(-product // MILLION)
