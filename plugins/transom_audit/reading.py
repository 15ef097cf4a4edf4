"""The operations of the audit trail: list, export, verify. Each call is an entry of the trail itself."""

from datetime import UTC, datetime

import msgspec
from anyio import to_thread

from transom_hookspecs import (
    NEVER,
    AuditChain,
    AuditFilter,
    AuditRow,
    Call,
    Kernel,
    Operation,
    Store,
    TransomError,
)

from .head import HeadFile
from .shapes import AuditExport, AuditLine, AuditPage, AuditVerified, AuditView, ExportAudit, ListAudit, VerifyAudit
from .walk import Fault, Walk

PERMISSION = "audit.read"
WINDOW = 50_000
"""Entries that one query of the store looks through at most."""

WINDOWS = 20
"""Windows that are looked through for one page; then it ends, with a cursor, whatever it has."""

SLICE = 1_000
"""Entries that are verified at once."""

NO_CHAIN = AuditChain(number=0, hash="", at=0)


class AuditReader:
    """The handlers; `kernel` and `file` are set while the plugin runs."""

    kernel: Kernel
    file: HeadFile

    def operations(self) -> list[Operation]:
        """Their rows of the table."""
        return [
            Operation(
                name="ListAudit",
                request=ListAudit,
                response=AuditPage,
                permission=PERMISSION,
                audit="audit.read",
                handler=self.listed,
                command="audit list",
                description="Entries of the audit trail, newest first.",
            ),
            Operation(
                name="ExportAudit",
                request=ExportAudit,
                response=AuditExport,
                permission=PERMISSION,
                audit="audit.export",
                handler=self.exported,
                command="audit export",
                description="The whole audit trail as JSON lines, with what is needed to verify it elsewhere.",
            ),
            Operation(
                name="VerifyAudit",
                request=VerifyAudit,
                response=AuditVerified,
                permission=PERMISSION,
                audit="audit.verify",
                handler=self.verified,
                command="audit verify",
                description="Check that nothing in the audit trail was changed, taken out or cut off.",
            ),
        ]

    @property
    def _store(self) -> Store:
        return self.kernel.store

    async def listed(self, call: Call, request: ListAudit) -> AuditPage:
        """ListAudit."""
        _check_limit(request.limit, 200)
        wanted = AuditFilter(
            action=request.action,
            caller=request.caller,
            object=request.object,
            since=_time("since", request.since, 0),
            until=_time("until", request.until, NEVER),
            before=_number(request.cursor, NEVER),
        )
        rows, cursor = await self._find(call.origin.tenant, wanted, request.limit)
        asked = {name: value for name, value in msgspec.to_builtins(request).items() if value and name != "limit"}
        await call.audit(details=asked)
        return AuditPage(entries=tuple(_view(row) for row in rows), cursor=cursor)

    async def _find(self, tenant: str, wanted: AuditFilter, limit: int) -> tuple[list[AuditRow], str]:
        """A page of what a filter wants, and where the next begins."""
        chain = (await self._store.audit_chains()).get(tenant, NO_CHAIN)
        rows: list[AuditRow] = []
        before = min(wanted.before, chain.number + 1)
        for _ in range(WINDOWS):
            if before <= chain.cut + 1:
                return rows, ""
            after = max(chain.cut, before - 1 - WINDOW)
            window = msgspec.structs.replace(wanted, after=after, before=before)
            rows += await self._store.find_audit(tenant, window, limit - len(rows))
            if len(rows) == limit:
                return rows, str(rows[-1].number)
            before = after + 1
        return rows, str(before)

    async def exported(self, call: Call, request: ExportAudit) -> AuditExport:
        """ExportAudit."""
        _check_limit(request.limit, 5_000)
        after = _number(request.cursor, 0)
        rows = await self._store.audit(call.origin.tenant, after, request.limit)
        lines = await to_thread.run_sync(lambda: tuple(map(_line, rows)))
        await call.audit(details={"after": after, "entries": len(rows)})
        return AuditExport(lines=lines, cursor=str(rows[-1].number) if len(rows) == request.limit else "")

    async def verified(self, call: Call, request: VerifyAudit) -> AuditVerified:
        """VerifyAudit.

        Raises:
            TransomError: data_loss, with the kind of the first fault, the entry's number, and how many were good.
        """
        tenant = call.origin.tenant
        walk, witnessed, fault = await self._walk(tenant)
        if fault is not None:
            await call.audit(object=str(fault.number), outcome=fault.kind, details={"entries": walk.checked})
            raise TransomError(
                "data_loss",
                f"the audit trail of tenant {tenant!r} is not whole: {fault.message}",
                {"kind": fault.kind, "number": fault.number, "checked": walk.checked},
            )
        await call.audit(object=str(walk.number), details={"entries": walk.checked})
        return AuditVerified(
            entries=walk.checked, cut=walk.cut, number=walk.number, hash=walk.hash, at=walk.at, head_file=witnessed
        )

    async def _walk(self, tenant: str) -> tuple[Walk, bool, Fault | None]:
        """Walk along the whole chain in slices; with whether the file has a head of it, and the first fault.

        The file is read before the chain, and the chain before its entries: none of them is newer than what follows.
        """
        try:
            witness, damaged = (await to_thread.run_sync(self.file.read)).get(tenant), ""
        except TransomError as error:
            witness, damaged = None, error.message
        walk = Walk(await self._chain(tenant), witness)
        while True:
            rows = await self._store.audit(tenant, walk.number, SLICE)
            fault = await to_thread.run_sync(walk.check, rows)
            if fault is None and len(rows) == SLICE:
                continue
            chain = await self._chain(tenant)
            fault = fault or walk.end(chain)
            if fault is None and damaged:
                fault = Fault(kind="head_file", number=walk.number, message=damaged)
            if fault is None or not walk.jump(chain):
                return walk, witness is not None, fault

    async def _chain(self, tenant: str) -> AuditChain:
        return (await self._store.audit_chains()).get(tenant, NO_CHAIN)


def _view(row: AuditRow) -> AuditView:
    e = row.entry
    return AuditView(
        number=row.number,
        at=e.at,
        action=e.action,
        caller=e.caller,
        door=e.door,
        object=e.object,
        outcome=e.outcome,
        via=e.via,
        details=None if row.purged else e.details,
    )


def _line(row: AuditRow) -> str:
    facts = {name: getattr(row.entry, name) for name in ("at", "action", "caller", "door", "object", "outcome", "via")}
    place = {name: getattr(row, name) for name in ("number", "tenant", "rule", "previous", "digest", "hash", "salt", "details")}
    return msgspec.json.encode(AuditLine(**facts, **place)).decode()


def _check_limit(limit: int, most: int) -> None:
    if not 1 <= limit <= most:
        raise TransomError("invalid_argument", f"limit: must be 1 to {most}")


def _number(cursor: str, default: int) -> int:
    if not cursor:
        return default
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= 15):
        raise TransomError("invalid_argument", "cursor: take it from the last page, or leave it out for the first")
    return int(cursor)


def _time(name: str, text: str, default: int) -> int:
    """A time in milliseconds (Unix)."""
    if not text:
        return default
    try:
        at = datetime.fromisoformat(text)
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise TransomError(
            "invalid_argument", f"{name}: {text[:40]!r} is no time; write it like 2026-03-01 or 2026-03-01T12:00:00Z"
        ) from error
