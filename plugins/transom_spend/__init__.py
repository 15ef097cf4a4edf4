"""Spend: what callers, teams, agents, tenants and job trees may use, held before a model call and charged after it.

Read `records` (what is kept), `ledger` (the counters) and `spending` (what a start and a model call take from them); `book`
is what of it is in memory. `operations` sets prices, quotas and budgets. Prices may also stand in transom.toml:

    [spend.prices."gpt-5"]
    input = 1.25
    output = 10.0
    cached = 0.125
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from transom_hookspecs import Admission, Kernel, ModelUse, Operation, Record, Reservation, Spending, hookimpl

from .book import Books
from .money import PriceConfig
from .operations import SpendOperations
from .records import RECORDS
from .spending import admit, before_model


class SpendPlugin:
    """Keeps quotas and budgets: in `admit` for starts, in `before_model` for model calls. Nobody is exempt."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """Settings.

        Parameters:
            prices: of models by the names that agents use, in every tenant; those that an admin sets stand in for them.
        """

        prices: dict[str, PriceConfig] = {}

    def __init__(self, config: Config) -> None:
        prices = {model: price.price(model) for model, price in config.prices.items()}
        self._books = Books(prices)
        self._operations = SpendOperations(self._books, prices)

    @asynccontextmanager
    async def run(self, kernel: Kernel) -> AsyncIterator[None]:
        """Serve a kernel."""
        with self._books.open(kernel):
            yield

    @hookimpl
    async def admit(self, admission: Admission) -> Reservation | None:
        """What a start takes of quotas, and the budget that it gets."""
        return await admit(self._books, admission)

    @hookimpl
    async def before_model(self, use: ModelUse) -> Spending | None:
        """What an attempt of a model call may use."""
        return await before_model(self._books, use)

    @hookimpl
    def register_operations(self) -> list[Operation]:
        """Setting and listing prices, quotas and budgets."""
        return self._operations.table()

    @hookimpl
    def register_records(self) -> list[Record]:
        """Prices, quotas, budgets, counters, and what is held."""
        return list(RECORDS)
