"""The operations that set and list prices, quotas and budgets. What is set is checked here, so that a slip harms nobody."""

from collections.abc import Callable, Mapping
from typing import Any, get_args

import msgspec

from transom_hookspecs import NAME, NEVER, Call, CallerKind, Directory, JsonObject, Operation, TransomError, Tx, Where

from .book import TOPIC, Books
from .ledger import Cap, counter_at
from .money import MILLION, amount, price_of, shown, wrong_price
from .records import Budget, Counter, Price, Quota
from .requests import (
    BudgetList,
    BudgetView,
    DeleteBudget,
    DeleteQuota,
    ListBudgets,
    ListPrices,
    ListQuotas,
    PriceList,
    PriceView,
    QuotaList,
    QuotaView,
    SetBudget,
    SetPrice,
    SetQuota,
)
from .sweep import every, sweep

MANAGE, READ = "spend.manage", "spend.read"
MAX_MODEL = 200


class SpendOperations:
    """Their handlers.

    Parameters:
        prices: of transom.toml.
    """

    def __init__(self, books: Books, prices: Mapping[str, Price]) -> None:
        self._books, self._given = books, prices

    def table(self) -> list[Operation]:
        """Their rows."""
        return [
            _row(SetPrice, PriceView, self.set_price, "price set", MANAGE, "price.set"),
            _row(ListPrices, PriceList, self.list_prices, "price list"),
            _row(SetQuota, QuotaView, self.set_quota, "quota set", MANAGE, "quota.set"),
            _row(ListQuotas, QuotaList, self.list_quotas, "quota list"),
            _row(DeleteQuota, QuotaView, self.delete_quota, "quota delete", MANAGE, "quota.delete"),
            _row(SetBudget, BudgetView, self.set_budget, "budget set", MANAGE, "budget.set"),
            _row(ListBudgets, BudgetList, self.list_budgets, "budget list"),
            _row(DeleteBudget, BudgetView, self.delete_budget, "budget delete", MANAGE, "budget.delete"),
        ]

    async def _write(self, call: Call, write: Callable[[Tx], Any], object: str, details: JsonObject) -> None:
        """Write a change; it holds from the next request on."""

        def told(tx: Tx) -> None:
            write(tx)
            tx.touch(TOPIC)

        await call.transact(told, object=object, details=details)
        self._books.forget()

    # -- prices -------------------------------------------------------------------------------------------

    async def set_price(self, call: Call, request: SetPrice) -> PriceView:
        """SetPrice."""
        given = {
            "input_usd_per_million": request.input_usd_per_million,
            "output_usd_per_million": request.output_usd_per_million,
            "cached_usd_per_million": request.cached_usd_per_million,
        }
        for field, value in given.items():
            if value is not None and (wrong := wrong_price(value)):
                raise TransomError("invalid_argument", f"{field}: it {wrong}")
        if request.input_usd_per_million is None or request.output_usd_per_million is None:
            raise TransomError(
                "invalid_argument", "input_usd_per_million, output_usd_per_million: give both; 0 for a model that is free"
            )
        if not request.model or len(request.model) > MAX_MODEL or not request.model.isprintable():
            raise TransomError("invalid_argument", f"model: 1 to {MAX_MODEL} printable characters, as agents name it")
        price = price_of(
            request.model, request.input_usd_per_million, request.output_usd_per_million, request.cached_usd_per_million
        )
        details: JsonObject = {"input": price.input, "output": price.output, "cached": price.cached, "unit": "micro_usd"}
        await self._write(call, lambda tx: tx.put(price), price.model, details)
        return _price(price, "set")

    async def list_prices(self, call: Call, request: ListPrices) -> PriceList:
        """ListPrices."""
        own = await every(self._books.kernel.store, call.origin.tenant, Price)
        views = {model: _price(price, "settings") for model, price in self._given.items()}
        views |= {price.model: _price(price, "set") for price in own}
        return PriceList(prices=tuple(views[model] for model in sorted(views)))

    # -- quotas -------------------------------------------------------------------------------------------

    async def set_quota(self, call: Call, request: SetQuota) -> QuotaView:
        """SetQuota."""
        await self._check_scope(call.origin.tenant, request.kind, request.name)
        if request.what == "jobs" and request.policy == "wait":
            raise TransomError("invalid_argument", "policy: a start cannot wait; a quota of jobs can only refuse")
        quota = Quota(
            kind=request.kind,
            name=_name(call, request),
            what=request.what,
            window=request.window,
            limit=amount(request.limit, request.what, "limit"),
            policy=request.policy,
        )
        details: JsonObject = {"limit": request.limit, "policy": request.policy}
        await self._write(call, lambda tx: tx.put(quota), _spelled(quota), details)
        return (await self._standings(call.origin.tenant, quota, 1))[0]

    async def _check_scope(self, tenant: str, kind: str, name: str) -> None:
        """Refuse a name that is nobody's: a quota that never counts anything caps nothing, in silence."""
        if name == "*":
            return
        if kind == "caller":
            known, _, identity = name.partition(":")
            if known not in get_args(CallerKind) or not identity:
                raise TransomError("invalid_argument", f"name: {name!r} is no caller; write it as person:anna or key:ci, or *")
        elif kind == "team":
            directory = self._books.kernel.service(Directory)
            if not NAME.match(name) or (directory is not None and not await directory.has_team(tenant, name)):
                raise TransomError("not_found", f"name: there is no team {name!r} in tenant {tenant!r}")
        elif kind == "agent" and self._books.kernel.agent(tenant, name) is None:
            raise TransomError("not_found", f"name: there is no agent {name!r} in tenant {tenant!r}")
        elif kind == "tenant" and name != tenant:
            raise TransomError("invalid_argument", f"name: a quota of the tenant is for {tenant!r} itself; write that, or *")

    async def list_quotas(self, call: Call, request: ListQuotas) -> QuotaList:
        """ListQuotas."""
        if not 1 <= request.limit <= 200:
            raise TransomError("invalid_argument", "limit: must be 1 to 200")
        tenant, kernel = call.origin.tenant, self._books.kernel
        await sweep(kernel, tenant)
        found: list[QuotaView] = []
        for quota in await every(kernel.store, tenant, Quota):
            found += await self._standings(tenant, quota, request.limit)
        return QuotaList(quotas=tuple(found))

    async def _standings(self, tenant: str, quota: Quota, most: int) -> list[QuotaView]:
        """A quota as it stands; one for each of its kind once for each of those who used some of it."""
        kernel = self._books.kernel
        book = await self._books.of(tenant)
        cap = Cap(kind=quota.kind, name=quota.name, what=quota.what, window=quota.window, rule=quota.name)
        key, end = cap.key(kernel.clock.now(), book.zone)
        if quota.name != "*":
            return [_quota(quota, await kernel.store.get(tenant, Counter, *key) or counter_at(key, end))]
        others = book.stand_ins(quota)
        where: Where = {"kind": quota.kind, "what": quota.what, "window": quota.window, "start": key[4]}
        counters = await kernel.store.select(tenant, Counter, "most", where, limit=most + len(others))
        found = [_quota(quota, counter) for counter in counters if counter.name not in others]
        return found[:most] or [_quota(quota, counter_at(key, end))]

    async def delete_quota(self, call: Call, request: DeleteQuota) -> QuotaView:
        """DeleteQuota."""
        key = (request.kind, _name(call, request), request.what, request.window)
        quota = await self._books.kernel.store.get(call.origin.tenant, Quota, *key)
        if quota is None:
            raise TransomError("not_found", f"there is no quota {' '.join(key)}; quota list shows those there are")
        last = (await self._standings(call.origin.tenant, quota, 1))[0]
        await self._write(call, lambda tx: tx.delete(Quota, *key), _spelled(quota), {})
        return last

    # -- budgets ------------------------------------------------------------------------------------------

    async def set_budget(self, call: Call, request: SetBudget) -> BudgetView:
        """SetBudget."""
        if not NAME.match(request.name):
            raise TransomError("invalid_argument", f"name: {request.name!r} is no name; use letters, digits, - and _")
        if request.usd is None and request.tokens is None:
            raise TransomError(
                "invalid_argument", "usd, tokens: give one of them, or both; a budget without a cap caps nothing"
            )
        if request.agent and not request.default:
            raise TransomError("invalid_argument", "agent: says whose default it is; set default too, or leave agent out")
        if request.agent and self._books.kernel.agent(call.origin.tenant, request.agent) is None:
            raise TransomError("not_found", f"agent: there is no agent {request.agent!r} in tenant {call.origin.tenant!r}")
        budget = Budget(
            name=request.name,
            micro_usd=None if request.usd is None else amount(request.usd, "usd", "usd"),
            tokens=None if request.tokens is None else amount(request.tokens, "tokens", "tokens"),
            policy=request.policy,
            agent=request.agent,
            default=request.default,
        )
        details: JsonObject = {
            "usd": request.usd,
            "tokens": request.tokens,
            "policy": request.policy,
            "default": request.default,
        }
        await self._write(call, lambda tx: _put_budget(tx, budget), budget.name, {**details, "agent": request.agent})
        return _budget(budget)

    async def list_budgets(self, call: Call, request: ListBudgets) -> BudgetList:
        """ListBudgets."""
        budgets = await every(self._books.kernel.store, call.origin.tenant, Budget)
        return BudgetList(budgets=tuple(_budget(budget) for budget in budgets if not budget.deleted))

    async def delete_budget(self, call: Call, request: DeleteBudget) -> BudgetView:
        """DeleteBudget."""
        budget = await self._books.kernel.store.get(call.origin.tenant, Budget, request.name)
        if budget is None or budget.deleted:
            raise TransomError("not_found", f"there is no budget {request.name!r}; budget list shows those there are")
        gone = msgspec.structs.replace(budget, deleted=True, default=False, agent="")
        await self._write(call, lambda tx: tx.put(gone), budget.name, {})
        return _budget(budget)


def _row(
    request: type[msgspec.Struct],
    response: type[msgspec.Struct],
    handler: Callable[[Call, Any], Any],
    command: str,
    permission: str = READ,
    audit: str = "",
) -> Operation:
    return Operation(
        name=request.__name__,
        request=request,
        response=response,
        permission=permission,
        handler=handler,
        audit=audit,
        command=command,
        description=(request.__doc__ or "").strip(),
    )


def _put_budget(tx: Tx, budget: Budget) -> None:
    """Keep a budget; of two defaults for the same jobs the newer one stands."""
    for other in tx.select(Budget, "all", limit=NEVER) if budget.default else ():
        if other.default and other.agent == budget.agent and other.name != budget.name:
            tx.update(other, default=False, agent="")
    tx.put(budget)


def _name(call: Call, request: SetQuota | DeleteQuota) -> str:
    """The name under which a quota is kept; the tenant's own has one only."""
    return call.origin.tenant if request.kind == "tenant" else request.name


def _spelled(quota: Quota) -> str:
    return f"{quota.kind} {quota.name} {quota.what} {quota.window}"


def _price(price: Price, source: str) -> PriceView:
    return PriceView(
        model=price.model,
        input_usd_per_million=price.input / MILLION,
        output_usd_per_million=price.output / MILLION,
        cached_usd_per_million=price.cached / MILLION,
        source=source,
    )


def _quota(quota: Quota, counter: Counter) -> QuotaView:
    return QuotaView(
        kind=quota.kind,
        name=counter.name,
        rule=quota.name,
        what=quota.what,
        window=quota.window,
        limit=shown(quota.limit, quota.what),
        policy=quota.policy,
        used=shown(counter.used, quota.what),
        reserved=shown(counter.reserved, quota.what),
        extra=shown(counter.extra, quota.what),
        excess=shown(counter.excess, quota.what),
        resets_at=counter.ends_at if quota.window != "total" else 0,
    )


def _budget(budget: Budget) -> BudgetView:
    return BudgetView(
        name=budget.name,
        usd=None if budget.micro_usd is None else budget.micro_usd / MILLION,
        tokens=budget.tokens,
        policy=budget.policy,
        agent=budget.agent,
        default=budget.default,
    )
