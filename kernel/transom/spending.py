"""What attempts of model calls may use: plugins hold it before the call and charge it after, in the job's transactions.

`held` asks the hook `before_model` and reserves in one transaction, which also notes the attempt in the journal: whoever
finds it there after a crash makes the next attempt, and the one before stays charged. Where a cap has no room and
could wait, the step waits for an admin. Without a plugin that has a say, nothing of this costs a transaction.
"""

from functools import partial
from typing import TYPE_CHECKING

import anyio
import msgspec

from transom_hookspecs import (
    REFUSALS,
    JsonObject,
    Model,
    ModelRequest,
    ModelUse,
    Origin,
    Rule,
    Spending,
    Step,
    TokenCount,
    TransomError,
    Tx,
)

from . import permits, steps, waits
from .auditing import audit_refusal
from .dispatch import blamed

if TYPE_CHECKING:
    from .run import JobRun

HELD = "held"
"""The result of a step in flight for which something is held and of which nothing was heard yet."""

IN_DOUBT = frozenset({"deadline_exceeded", "internal", "unknown", "canceled", "data_loss"})
"""Errors of a call that was not answered, after which the provider may have worked all the same."""

DECIDERS = ("role:admin",)


class Hold:
    """What is held for one attempt, by every plugin that has a say."""

    def __init__(self, parts: list[tuple[str, Spending]]) -> None:
        self._parts = parts
        self.capped = any(part.capped for _, part in parts)

    def reserve(self, tx: Tx, granted: str) -> None:
        """Hold it; see `Spending.reserve`."""
        for plugin, part in self._parts:
            with blamed(plugin, "before_model (its reservation)"):
                if part.capped:
                    part.reserve(tx, granted=granted)

    def settle(self, usage: TokenCount | None, tx: Tx) -> None:
        """Charge it; see `Spending.settle`."""
        for plugin, part in self._parts:
            with blamed(plugin, "before_model (its settlement)"):
                if part.capped:
                    part.settle(tx, usage)

    def priced(self, usage: TokenCount) -> TokenCount:
        """The usage with what was left out; see `Spending.priced`."""
        for plugin, part in self._parts:
            with blamed(plugin, "before_model (its prices)"):
                usage = part.priced(usage)
        return usage


FREE = Hold([])


async def held(run: "JobRun", model: Model, request: ModelRequest, begun: Step, granted: str = "") -> Hold:
    """Hold what an attempt may use, after a wait for an admin where that is the policy.

    Parameters:
        granted: who said yes, when the step waited for that already.

    Raises:
        TransomError: the refusal.
    """
    if not run.core.hooks.has("before_model"):
        return FREE
    while True:
        hold = await _asked(run, model, request, begun)
        if not hold.capped:
            return hold
        try:
            await _reserve(run, hold, begun, granted)
        except TransomError as error:
            if error.details.get("type") not in REFUSALS:
                raise
            origin = Origin(tenant=run.tenant, caller=run.job.caller, door="runtime")
            what: JsonObject = {"agent": run.job.agent, "step": begun.key, "model": model.name}
            await audit_refusal(run.core, origin, error, run.job.id, what)
            if error.details.get("could_wait") is not True:
                raise
            granted = await _wait(run, begun, error)
            await permits.go_on(run.core, run.tenant, run.job)
        else:
            return hold


async def _asked(run: "JobRun", model: Model, request: ModelRequest, begun: Step) -> Hold:
    use = ModelUse(
        tenant=run.tenant,
        job=run.job,
        step=begun.key,
        attempt=begun.attempt,
        model=model.name,
        count=partial(_count, run, model, request),
        max_tokens=request.max_tokens,
        price=getattr(model, "price", None),  # as a `Priced` has it; isinstance with a Protocol costs 15 µs
    )
    return Hold(await run.core.hooks.every("before_model", use))


def _count(run: "JobRun", model: Model, request: ModelRequest) -> int:
    with blamed(run.core.catalog.model_plugins[model.name], f"model {model.name} (its count)"):
        return model.count(request)


async def _reserve(run: "JobRun", hold: Hold, begun: Step, granted: str) -> None:
    """Hold, and note the attempt in the journal; a refusal leaves the journal usable."""
    await run.journal.write()
    noted = msgspec.structs.replace(begun, result=HELD)

    def write(tx: Tx) -> None:
        run.core.fence(tx, run.job.id, run.epoch)
        hold.reserve(tx, granted)
        tx.put(noted)

    with anyio.CancelScope(shield=True):  # what was held is known here
        await run.core.store.transact(run.tenant, write)
    run.journal.steps[begun.key] = noted


async def _wait(run: "JobRun", begun: Step, error: TransomError) -> str:
    """Wait for an admin's word; returns who said yes.

    Raises:
        TransomError: the refusal, after a no.
    """
    info = run.filters.error(error.info())
    wait = waits.make_wait(
        run.core,
        run.tenant,
        run.job,
        begun,
        kind="budget",
        message=f"{info.message}. A yes raises what is capped by what this call needs.",
        rule=Rule(deciders=DECIDERS, reason="budget"),
        arguments=msgspec.to_builtins(info),
        shown=info.details,
        schema={},
        seconds=run.core.config.limits.budget_wait,
    )
    await steps.open_wait(run, begun, wait)
    return granted_by(await run.park(begun.key))


def granted_by(step: Step) -> str:
    """Who said yes to a step that waited for money; empty for one that did not wait.

    Raises:
        TransomError: the refusal, after a no.
    """
    if step.error is not None:
        raise step.error.error()
    return step.verdict if step.state == "ready" else ""


def end_badly(run: "JobRun", hold: Hold, error: TransomError, *, began: bool) -> None:
    """Charge an attempt that failed: as it was held, or nothing when the provider refused before it began to answer."""
    nothing = not began and error.code not in IN_DOUBT
    settle(run, hold, TokenCount() if nothing else None)


def settle(run: "JobRun", hold: Hold, usage: TokenCount | None) -> None:
    """Charge an attempt in the transaction that records its end."""
    if hold.capped:
        run.journal.settle(partial(hold.settle, usage))
