"""Why a caller may do something, or may not: the same question that an operation asks, answered in words."""

import re

import msgspec

from transom_hookspecs import Caller, Job, Kernel, Rule, TransomError, Wait

from .requests import ExplainPermission, Explanation, Permissions
from .table import NAMES_AGENTS, PERMISSIONS

CALLER = re.compile(r"(person|subject|key|service):([^@\s]+)(?:@(app:\S+))?")


def permissions() -> Permissions:
    """The table."""
    return Permissions(permissions=PERMISSIONS)


async def explain(kernel: Kernel, tenant: str, request: ExplainPermission) -> Explanation:
    """Ask policy in a caller's place.

    Raises:
        TransomError: invalid_argument for what is no caller, not_found for what is no agent, job or wait here.
    """
    match = CALLER.fullmatch(request.caller)
    if match is None:
        raise TransomError(
            "invalid_argument",
            f"caller: {request.caller!r} is none; write person:<id>, person:<id>@app:<name> or key:<name>",
        )
    kind, name, via = match.groups()
    caller = msgspec.convert({"kind": kind, "id": name, "tenant": tenant, "via": via or ""}, Caller)
    operation = kernel.operations.get(request.action)
    permission = operation.permission if operation is not None else request.action
    job, rule = await _about(kernel, tenant, permission, request.object)
    verdict = await kernel.may(caller, tenant, permission, request.object, job, rule)
    allowed = verdict.ruling == "allow"
    about = f" {request.object!r}" if request.object else ""
    because = verdict.reason or f"rule {verdict.by or 'of another plugin'}"
    return Explanation(
        allowed=allowed,
        permission=permission,
        rule=verdict.by,
        reason=verdict.reason,
        label=verdict.label,
        why=f"{request.caller} {'may' if allowed else 'may not'} do {permission}{about}: {because}.",
    )


async def _about(kernel: Kernel, tenant: str, permission: str, name: str) -> tuple[Job | None, Rule | None]:
    """The job, and the wait's rule, that an object is the name of."""
    if not name:
        return None, None
    if permission in NAMES_AGENTS:
        if kernel.agent(tenant, name) is None:
            raise TransomError("not_found", f"object: there is no agent or flow {name!r} here")
        return None, None
    wait = await kernel.store.get(tenant, Wait, name)
    job = await kernel.store.get(tenant, Job, wait.job if wait is not None else name)
    if job is None and (permission.startswith("jobs.") or permission in ("content.read", "feeds.read")):
        raise TransomError("not_found", f"object: there is no job or wait {name!r} here")
    return job, wait.rule if wait is not None else None
