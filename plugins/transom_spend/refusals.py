"""Refusals: what a program and a person are told of a cap that has no room, with the numbers that were used."""

from datetime import UTC, datetime

import msgspec

from transom_hookspecs import NEVER, Directory, Job, Kernel, Refusal, TransomError

from .ledger import Cap, Standing
from .money import shown, spelled

_WINDOWS = {"minute": "a minute", "hour": "an hour", "day": "a day", "week": "a week", "month": "a month", "total": "in all"}


async def with_sight(kernel: Kernel, tenant: str, job: Job, caps: list[Cap]) -> list[Cap]:
    """The caps, each with whether the job's caller may read its figures: its own, its team's, or all with `spend.read`."""
    kinds = {cap.kind for cap in caps} - {"caller", "tree"}
    if not kinds or (await kernel.may(job.caller, tenant, "spend.read")).ruling == "allow":
        return caps
    hidden = set(kinds)
    if "team" in kinds and (directory := kernel.service(Directory)) is not None:
        member = await directory.member(job.caller, tenant)
        if member is not None and job.team in member.teams:
            hidden.discard("team")
    return [msgspec.structs.replace(cap, seen=cap.kind not in hidden) for cap in caps]


def refused(standing: Standing, *, could_wait: bool) -> TransomError:
    """The refusal of what was asked for on top of what a counter had."""
    cap, counter = standing.cap, standing.counter
    figures: dict[str, int | float] = {}
    if cap.seen:
        figures = {
            "limit": shown(standing.limit, cap.what),
            "used": shown(_used(standing), cap.what),
            "reserved": shown(_reserved(standing), cap.what),
        }
    refusal = Refusal(
        type="oz0_budget_exceeded" if cap.is_budget else "oz0_quota_exceeded",
        scope={"kind": cap.kind, "name": cap.name},
        what=cap.what,
        requested=shown(standing.amount, cap.what),
        could_wait=could_wait,
        raised_by="an admin of the tenant",
        window=cap.window,
        resets_at=rfc3339(counter.ends_at) if cap.window != "total" else "",
        resets_at_ms=counter.ends_at if cap.window != "total" else 0,
        **figures,
    )
    return refusal.error(_message(standing))


def _used(standing: Standing) -> int:
    counter = standing.counter
    return counter.used - (standing.amount if standing.cap.what == "jobs" else 0)


def _reserved(standing: Standing) -> int:
    return standing.counter.reserved - (standing.amount if standing.cap.what != "jobs" else 0)


def _message(standing: Standing) -> str:
    cap = standing.cap
    window = _WINDOWS[cap.window]
    whose = f"budget {cap.rule!r} of job {cap.name}" if cap.is_budget else f"quota of {cap.kind} {cap.name!r}"
    figures = f"{cap.what} {window}"
    if cap.seen:
        used, reserved = (spelled(each, cap.what).partition(" ")[0] for each in (_used(standing), _reserved(standing)))
        figures = f"{used} used and {reserved} reserved of {spelled(standing.limit, cap.what)} {window}"
    wanted = f"no room for {spelled(standing.amount, cap.what)}" if standing.amount else "nothing is left"
    resets = f"it starts anew at {rfc3339(standing.counter.ends_at)}, and " if cap.window != "total" else ""
    return f"{whose}: {wanted} ({figures}); {resets}an admin of the tenant can raise it"


def rfc3339(ms: int) -> str:
    """A time in milliseconds (Unix) as `2026-03-01T12:00:00.000Z`; empty for one that never comes."""
    if ms >= NEVER:
        return ""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
