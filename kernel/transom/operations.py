"""The table of operations, and the one way in: authorize → idempotency → handler → audit."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from transom_hookspecs import (
    Access,
    AuditEntry,
    Caller,
    Job,
    JsonObject,
    Operation,
    Origin,
    Reply,
    Rule,
    TransomError,
    Tx,
    Verdict,
)

from . import schemas
from .auditing import audit
from .dispatch import blamed
from .filters import Filters

if TYPE_CHECKING:
    from .core import Core

T = TypeVar("T")
KEY = re.compile(r"[\x21-\x7e]{1,128}\Z")


class Raced(BaseException):
    """The same Idempotency-Key was committed by another call a moment before."""


class OperationCall:
    """One call of an operation; implements `transom_hookspecs.Call`."""

    def __init__(self, core: "Core", operation: Operation, origin: Origin, digest: str = "") -> None:
        self.core = core
        self.operation = operation
        self.origin = origin
        self._digest = digest

    async def require(self, permission: str, object: str = "", job: Job | None = None, rule: Rule | None = None) -> None:
        """Ask policy; see `transom_hookspecs.Call`."""
        access = Access(
            caller=self.origin.caller, tenant=self.origin.tenant, permission=permission, object=object, job=job, rule=rule
        )
        verdict = await authorize(self.core, access)
        if verdict.ruling != "allow":
            raise refusal(access, verdict)

    async def require_sight(self, permission: str, object: str, job: Job | None = None) -> None:
        """Refuse whoever may not see a job, or look for one, in the same words whether it is there or not."""
        access = Access(caller=self.origin.caller, tenant=self.origin.tenant, permission="jobs.read", object=object, job=job)
        verdict = await authorize(self.core, access)
        if verdict.ruling != "allow":
            raise refusal(msgspec.structs.replace(access, permission=permission), verdict)

    def entry(self, object: str = "", outcome: str = "ok", details: JsonObject | None = None) -> AuditEntry:
        """The audit entry of this call."""
        caller = self.origin.caller
        return AuditEntry(
            action=self.operation.audit,
            caller=f"{caller.kind}:{caller.id}",
            via=caller.via,
            door=self.origin.door,
            object=object,
            outcome=outcome,
            details=details or {},
        )

    async def transact(
        self, fn: Callable[[Tx], T], *, object: str = "", outcome: str = "ok", details: JsonObject | None = None
    ) -> T:
        """Run a transaction that also holds the call's audit entry and its reply; see `transom_hookspecs.Call`.

        An operation that takes an Idempotency-Key returns its response from `fn`.
        """

        def run(tx: Tx) -> T:
            if self._digest and tx.get(Reply, self.origin.caller.principal, self.origin.key):
                raise Raced
            result = fn(tx)
            if self.operation.audit:
                audit(self.core, tx, self.entry(object, outcome, details))
            if self._digest and isinstance(result, self.operation.response):
                tx.put(
                    Reply(
                        principal=self.origin.caller.principal,
                        key=self.origin.key,
                        operation=self.operation.name,
                        digest=self._digest,
                        response=msgspec.to_builtins(result),
                        at=tx.now,
                    )
                )
            return result

        return await self.core.store.transact(self.origin.tenant, run)

    async def audit(self, *, object: str = "", outcome: str = "ok", details: JsonObject | None = None) -> None:
        """Audit a call that wrote nothing."""
        entry = self.entry(object, outcome, details)
        await self.core.store.transact(self.origin.tenant, lambda tx: audit(self.core, tx, entry))


async def authorize(core: "Core", access: Access) -> Verdict:
    """What policy says; with no plugin that has a say, only an operator may."""
    verdict = await core.hooks.strictest("authorize", access)
    if verdict is not None:
        return verdict
    if access.caller.kind in ("operator", "system"):
        return Verdict(ruling="allow")
    return Verdict(ruling="deny", reason="no identity plugin allows it")


def refusal(access: Access, verdict: Verdict) -> TransomError:
    """The error of an access that policy refused."""
    what = f" of {access.object!r}" if access.object else ""
    reason = f": {verdict.reason}" if verdict.reason else ""
    details: JsonObject = {"permission": access.permission, "reason": verdict.reason, "rule": verdict.by}
    if verdict.label:
        details["label"] = verdict.label
    return TransomError("permission_denied", f"{access.permission}{what} is not permitted{reason}", details)


async def call(core: "Core", name: str, request: msgspec.Struct, origin: Origin) -> Any:
    """Call an operation; see `transom_hookspecs.Kernel.call`."""
    operation = core.operations.get(name)
    if operation is None:
        raise TransomError("unimplemented", f"there is no operation {name!r} here")
    if not isinstance(request, operation.request):
        raise TypeError(f"{name} takes a {operation.request.__name__}, not a {type(request).__name__}")
    check_tenant(core, origin)
    check_key(origin.key)
    digest = ""
    if operation.idempotent and not operation.late and origin.key:
        digest = schemas.digest([name, origin.tenant, msgspec.to_builtins(request)])
    made = OperationCall(core, operation, origin, digest)
    try:
        if not operation.late:
            await made.require(operation.permission)
        if digest and (known := await repeated(core, operation, origin, digest)) is not None:
            return known
        with blamed(core.operation_plugins[name], name) if name in core.operation_plugins else nullcontext():
            return await operation.handler(made, request)
    except Raced:
        return await repeated(core, operation, origin, digest)
    except TransomError as error:
        Filters(core.filters, origin.tenant).raised(error)
        if error.code == "permission_denied" and operation.audit:
            await made.audit(object=getattr(request, "id", ""), outcome="refused", details={"reason": error.message})
        raise


def check_tenant(core: "Core", origin: Origin) -> None:
    """The tenant exists, and the caller belongs to it or to none. Which of both fails is not told."""
    caller = origin.caller
    if caller.tenant and caller.tenant != origin.tenant:
        raise TransomError("permission_denied", f"no access to tenant {origin.tenant!r}")
    if origin.tenant not in core.tenants():
        if caller.tenant:
            raise TransomError("permission_denied", f"no access to tenant {origin.tenant!r}")
        raise TransomError("not_found", f"there is no tenant {origin.tenant!r}")


def check_key(key: str) -> None:
    """An Idempotency-Key is 1 to 128 visible ASCII characters."""
    if key and not KEY.match(key):
        raise TransomError("invalid_argument", "Idempotency-Key must be 1 to 128 visible ASCII characters, such as a UUID")


async def repeated(core: "Core", operation: Operation, origin: Origin, digest: str) -> msgspec.Struct | None:
    """What the same call under this key answered before, or None when it was not made."""
    reply = await core.store.get(origin.tenant, Reply, origin.caller.principal, origin.key)
    if reply is None:
        return None
    if reply.operation != operation.name or reply.digest != digest:
        raise TransomError(
            "already_exists",
            "this Idempotency-Key was used for another request; use a new one",
            {"type": "oz0.runtime.v1.IdConflict", "reason": "oz0_id_conflict"},
        )
    return msgspec.convert(reply.response, operation.response)


async def may(
    core: "Core",
    caller: Caller,
    tenant: str,
    permission: str,
    object: str = "",
    job: Job | None = None,
    rule: Rule | None = None,
) -> Verdict:
    """See `transom_hookspecs.Kernel.may`."""
    access = Access(caller=caller, tenant=tenant, permission=permission, object=object, job=job, rule=rule)
    return await authorize(core, access)
