"""Who may do what: one table of permissions, and the rules that a tenant sets.

`table` has the permissions and the roles that hold them; `judge` says in which order rules decide an access;
`calls` decides about calls of functions. The tenant's own rules (grants, kill switches, tool policy, walls, what
tainted jobs may send) are records (`book`), changed by operations, and held in memory: they are read anew when one
changes, here or in another process. Who a caller is, the service `Directory` knows.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import msgspec

from transom_hookspecs import Access, Directory, Kernel, Operation, Record, ToolUse, TransomError, Verdict, hookimpl

from .book import RECORDS, Book, read
from .calls import judge_call
from .judge import judge
from .operations import Editor


class PolicyPlugin:
    """Judges accesses and calls."""

    spec = "1.0"

    class Config(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
        """No settings: rules are set by operations."""

    def __init__(self, config: Config) -> None:
        self._books: dict[str, Book] = {}
        self._editor = Editor(self._reload)
        self._reading = anyio.Lock()
        self._kernel: Kernel | None = None
        self._directory: Directory | None = None

    @asynccontextmanager
    async def run(self, kernel: Kernel) -> AsyncIterator[None]:
        """Read the rules, and again whenever one changes."""
        self._kernel = self._editor.kernel = kernel
        self._directory = kernel.service(Directory)
        kernel.spawn(self._follow, name="changes of policy")
        yield

    async def _follow(self) -> None:
        kernel = self._running()
        with kernel.topic("policy") as changed:
            while True:
                await changed()
                for tenant in list(self._books):
                    try:
                        await self._reload(tenant)
                    except TransomError as error:
                        kernel.report("reading the rules of policy", error)

    def _running(self) -> Kernel:
        if self._kernel is None:
            raise TransomError("unavailable", "the kernel is not running")
        return self._kernel

    async def _reload(self, tenant: str) -> None:
        """Read a tenant's rules, one at a time so that the last to begin ends last; what cannot be read refuses all."""
        async with self._reading:
            try:
                self._books[tenant] = await read(self._running().store, tenant)
            except BaseException:
                self._books.pop(tenant, None)
                raise

    async def _book(self, tenant: str) -> Book:
        if tenant not in self._books:
            await self._reload(tenant)
        return self._books[tenant]

    @hookimpl
    async def authorize(self, access: Access) -> Verdict | None:
        """What the table and the tenant's rules say; None of callers that nobody knows."""
        tenant = access.tenant
        book = self._books.get(tenant) or await self._book(tenant)
        member = await self._directory.member(access.caller, tenant) if self._directory is not None else None
        audit = access.permission == "audit.read" and self._running().settings(tenant).works_council
        return judge(access, member, book, works_council=audit)

    @hookimpl
    async def before_tool(self, use: ToolUse) -> Verdict | None:
        """What the tool policy says of a call, and whether a tainted job must ask first."""
        caller = use.job.caller
        member = await self._directory.member(caller, use.tenant) if self._directory is not None else None
        return judge_call(use, member, await self._book(use.tenant))

    @hookimpl
    def register_records(self) -> list[Record]:
        """The rules."""
        return list(RECORDS)

    @hookimpl
    def register_operations(self) -> list[Operation]:
        """Setting and showing rules, and having decisions explained."""
        return self._editor.operations()
