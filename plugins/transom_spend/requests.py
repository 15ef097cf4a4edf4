"""What the operations take and give. Money is in USD; times are milliseconds (Unix)."""

import msgspec

from .records import Kind, Policy, What, Window


class SetPrice(msgspec.Struct, frozen=True, kw_only=True):
    """Set what a model costs, in USD for a million tokens; 0 for one that is free.

    Parameters:
        model: the name that agents use.
        input_usd_per_million, output_usd_per_million: both are needed.
        cached_usd_per_million: of input tokens that the provider had cached; left out, as input.
    """

    model: str
    input_usd_per_million: float | None = None
    output_usd_per_million: float | None = None
    cached_usd_per_million: float | None = None


class PriceView(msgspec.Struct, frozen=True, kw_only=True):
    """A model's price, in USD for a million tokens; `source`: `set` by an admin, or of the `settings` of the server."""

    model: str
    input_usd_per_million: float
    output_usd_per_million: float
    cached_usd_per_million: float
    source: str


class ListPrices(msgspec.Struct, frozen=True, kw_only=True):
    """The prices that were set, and those of the settings that none stands in for."""


class PriceList(msgspec.Struct, frozen=True, kw_only=True):
    """Prices by model."""

    prices: tuple[PriceView, ...]


class SetQuota(msgspec.Struct, frozen=True, kw_only=True):
    """Cap what a caller, a team, an agent or the tenant may use in a window.

    Parameters:
        kind, name: whose: `caller person:anna`, `team research`, `agent echo`; the name `*` is each of its kind for itself.
        limit: jobs, tokens or USD.
        policy: `wait` lets a job whose model call finds no room wait for an admin, instead of refusing the call.
    """

    kind: Kind
    name: str
    what: What
    window: Window
    limit: float
    policy: Policy = "refuse"


class DeleteQuota(msgspec.Struct, frozen=True, kw_only=True):
    """Take a quota away; what was counted stays, should it be set again in the same window."""

    kind: Kind
    name: str
    what: What
    window: Window


class QuotaView(msgspec.Struct, frozen=True, kw_only=True):
    """A quota and how it stands in its present window.

    Parameters:
        rule: the quota's own name, `*` for each; `name` is then one of those who used some of it, or `*` when nobody did.
        extra: granted on top of the limit in this window.
        excess: what of the used was above its reservation, because a provider reported more than its upper bound.
        resets_at: the window's end; 0 for `total`.
    """

    kind: Kind
    name: str
    rule: str
    what: What
    window: Window
    limit: float
    policy: Policy
    used: float = 0
    reserved: float = 0
    extra: float = 0
    excess: float = 0
    resets_at: int = 0


class ListQuotas(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas, and what is used of each; `limit` is of rows for one quota that is for each of its kind."""

    limit: int = 100


class QuotaList(msgspec.Struct, frozen=True, kw_only=True):
    """Quotas by kind, name, what and window; those who use most of one for each come first."""

    quotas: tuple[QuotaView, ...]


class SetBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Set what a job and all that it delegates to may use together, when it names this budget.

    Parameters:
        usd, tokens: the caps; one at least is needed.
        policy: `wait` lets a job whose model call finds no room wait for an admin, instead of refusing the call.
        default: jobs that name no budget get it; the default before it is one no longer.
        agent: with `default`: only jobs of this agent.
    """

    name: str
    usd: float | None = None
    tokens: int | None = None
    policy: Policy = "refuse"
    agent: str = ""
    default: bool = False


class DeleteBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Take a budget away: no job can name it any more. Jobs that have it are held to it until they end."""

    name: str


class BudgetView(msgspec.Struct, frozen=True, kw_only=True):
    """A budget."""

    name: str
    usd: float | None = None
    tokens: int | None = None
    policy: Policy = "refuse"
    agent: str = ""
    default: bool = False


class ListBudgets(msgspec.Struct, frozen=True, kw_only=True):
    """The budgets that a job can name."""


class BudgetList(msgspec.Struct, frozen=True, kw_only=True):
    """Budgets by name."""

    budgets: tuple[BudgetView, ...]
