"""What the tests of quotas and budgets share: a model whose usage the test says, and a house with everything set up."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from job_kit import ended, hooks_plugin, start
from kernel_kit import OPERATOR, agents_plugin

from transom_hookspecs import (
    Access,
    Caller,
    Context,
    ModelEnd,
    ModelRequest,
    Origin,
    TextDelta,
    TokenCount,
    TransomError,
    Verdict,
)
from transom_spend import SpendPlugin
from transom_spend.records import Counter, Held
from transom_spend.requests import ListQuotas, QuotaView, SetBudget, SetPrice, SetQuota

ANNA = Origin(tenant="default", caller=Caller(kind="person", id="anna", tenant="default"), door="test")
ADA = Origin(tenant="default", caller=Caller(kind="person", id="ada", tenant="default"), door="test")


class Meant:
    """A model that answers what the test means it to: usages, errors, or functions that are awaited first.

    Its prompt is always 10 tokens; what it is asked for at the most is the request's `max_tokens`.
    """

    name = "m"

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.asked: list[ModelRequest] = []

    def count(self, request: ModelRequest) -> int:
        return 10

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        self.asked.append(request)
        answer = self.answers.pop(0) if self.answers else TokenCount(input_tokens=10, output_tokens=5)
        if callable(answer):
            answer = await answer()
        if isinstance(answer, tuple):  # some text, then what follows
            yield TextDelta(answer[0])
            await anyio.sleep(0.05)
            answer = answer[1]
        if isinstance(answer, TransomError):
            raise answer
        yield TextDelta("ok")
        yield ModelEnd(usage=answer)


async def asker(ctx: Context, input: Any) -> Any:
    """Ask the model, so many times one after the other."""
    said = [(await ctx.model("m", [], max_tokens=90)).text for _ in range(input or 1)]
    return " ".join(said)


async def idler(ctx: Context, input: Any) -> Any:
    """Answer without a model."""
    return input


async def boss(ctx: Context, input: Any) -> Any:
    """Delegate to another agent, and answer what it answers."""
    return await ctx.delegate(input["agent"], input.get("input"))


def judge(access: Access) -> Verdict:
    """Everybody may do everything but read what others spend, which is ada's and the operator's."""
    allowed = access.permission != "spend.read" or access.caller.id in ("ada", "local")
    if access.rule is not None and access.rule.deciders:
        allowed = access.caller.id == "ada"
    return Verdict(ruling="allow" if allowed else "deny", reason="" if allowed else "not yours")


class House:
    """A kernel with quotas and budgets, and short words for what the tests do."""

    def __init__(self, kernel: Any, model: Meant) -> None:
        self.kernel, self.model = kernel, model

    async def call(self, request: Any, who: Origin = OPERATOR) -> Any:
        return await self.kernel.call(type(request).__name__, request, who)

    async def quota(self, kind: str, name: str, what: str, window: str, limit: float, **more: Any) -> QuotaView:
        return await self.call(SetQuota(kind=kind, name=name, what=what, window=window, limit=limit, **more))

    async def budget(self, name: str, **more: Any) -> None:
        await self.call(SetBudget(name=name, **more))

    async def price(self, input: float = 10_000.0, output: float = 10_000.0, model: str = "m") -> None:
        """10,000 USD for a million tokens make one token 0.01 USD."""
        await self.call(SetPrice(model=model, input_usd_per_million=input, output_usd_per_million=output))

    async def start(self, agent: str = "asker", job: str = "job", who: Origin = ANNA, **more: Any) -> None:
        await start(self.kernel, agent, job, who, **more)

    async def ran(self, agent: str = "asker", job: str = "job", who: Origin = ANNA, **more: Any) -> Any:
        await self.start(agent, job, who, **more)
        return await ended(self.kernel, job)

    async def refused(self, agent: str = "asker", who: Origin = ANNA, **more: Any) -> TransomError:
        with pytest.raises(TransomError) as refusal:
            await self.start(agent, "refused", who, **more)
        return refusal.value

    async def quotas(self) -> list[QuotaView]:
        return list((await self.call(ListQuotas())).quotas)

    async def used(self) -> float:
        (only,) = await self.quotas()
        return only.used

    async def counters(self, kind: str = "", what: str = "") -> list[Counter]:
        rows = await self.kernel.store.select("default", Counter, "over", limit=200)
        return [row for row in rows if (not kind or row.kind == kind) and (not what or row.what == what)]

    async def holds(self) -> list[Held]:
        return await self.kernel.store.select("default", Held, "all")

    async def audited(self, action: str) -> list[Any]:
        return [row.entry for row in await self.kernel.store.audit("default") if row.entry.action == action]


@pytest.fixture
def model() -> Meant:
    return Meant()


@pytest.fixture
def house(kernel: Any, model: Meant) -> Callable[..., Any]:
    """Houses: `async with house(agent, …, clock=…) as h`; jobs run, and prices are set by the test."""

    @asynccontextmanager
    async def opened(*agents: Any, plugins: tuple[Any, ...] = (), **options: Any) -> AsyncIterator[House]:
        mine = [
            agents_plugin(*(agents or (asker, idler, boss))),
            hooks_plugin(register_models=lambda: [model], authorize=judge),
            SpendPlugin,
            *plugins,
        ]
        if "store" in options:
            from job_kit import on_disk

            options = on_disk(*mine, **options)
        else:
            options["plugins"] = mine
        async with kernel(**options) as k:
            yield House(k, model)

    return opened
