"""A directory whose members a test changes at will, and what people do in a kernel with it."""

from typing import Any

import anyio
import msgspec
import pytest
from kernel_kit import OPERATOR

from transom_hookspecs import (
    Caller,
    DecideApproval,
    Directory,
    Job,
    Member,
    Origin,
    Service,
    StartJob,
    Tenants,
    TenantSettings,
    TransomError,
    Wait,
    hookimpl,
)

PEOPLE = {"rita": "reader", "anna": "member", "ben": "member", "omar": "operator", "olga": "operator", "ada": "admin"}


class People:
    """The services Directory and Tenants, from dictionaries."""

    def __init__(self) -> None:
        self.members = {f"person:{name}": Member(role=role) for name, role in PEOPLE.items()}
        self.members["key:ci"] = Member(role="operator")
        self.members["key:echo_key"] = Member(role="member", scopes=("echo",))
        self.teams = {"desk", "ops"}
        self.settled = TenantSettings()

    def change(self, who: str, **changes: Any) -> None:
        self.members[who] = msgspec.structs.replace(self.members[who], **changes)

    async def member(self, caller: Caller, tenant: str) -> Member | None:
        return self.members.get(f"{caller.kind}:{caller.id}") if caller.tenant == tenant == "default" else None

    async def has_team(self, tenant: str, team: str) -> bool:
        return team in self.teams

    def names(self) -> tuple[str, ...]:
        return ("default", "acme")

    def settings(self, tenant: str) -> TenantSettings:
        return self.settled


def people_plugin(people: People) -> type:
    class PeopleTestPlugin:
        name = "people"
        spec = "1.0"

        def __init__(self, config: object) -> None: ...

        @hookimpl
        def register_services(self) -> list[Service]:
            return [Service(protocol=Directory, provider=people), Service(protocol=Tenants, provider=people)]

    return PeopleTestPlugin


def origin(
    who: str, *, via: str = "", taint: str = "", scopes: tuple[str, ...] | None = None, tenant: str = "default"
) -> Origin:
    if who == "operator":
        return OPERATOR
    kind, colon, name = who.partition(":")
    kind, name = (kind, name) if colon else ("person", who)
    caller = Caller(kind=kind, id=name, tenant=tenant, via=via, scopes=scopes)
    return Origin(tenant="default", caller=caller, door="test", taint=taint)


class House:
    """What a test does, as one of the people (`anna`), keys (`key:ci`), or the process's operator (`operator`)."""

    def __init__(self, kernel: Any, people: People) -> None:
        self.kernel, self.people = kernel, people

    async def do(self, who: str | Origin, request: msgspec.Struct) -> Any:
        asked = who if isinstance(who, Origin) else origin(who)
        return await self.kernel.call(type(request).__name__, request, asked)

    async def refused(self, who: str | Origin, request: msgspec.Struct) -> TransomError:
        with pytest.raises(TransomError) as error:
            await self.do(who, request)
        return error.value

    async def start(self, agent: str, who: str | Origin = "anna", *, job: str = "job", **more: Any) -> str:
        return (await self.do(who, StartJob(agent=agent, id=job, **more))).job.id

    async def job(self, job: str = "job") -> Job:
        return await self.kernel.store.get("default", Job, job)

    async def until(self, job: str = "job", *statuses: str) -> Job:
        with anyio.fail_after(10):
            while (found := await self.job(job)).status not in (statuses or ("completed", "failed", "cancelled", "timed_out")):
                await anyio.sleep(0.005)
            return found

    async def wait(self, job: str = "job") -> Wait:
        """The wait that is open in a job, once one is."""
        with anyio.fail_after(10):
            while not (found := await self.kernel.store.select("default", Wait, "job", {"job": job, "open": True})):
                await anyio.sleep(0.005)
            return found[0]

    async def decide(self, who: str | Origin, wait: Wait, approved: bool | None = True, **more: Any) -> Any:
        return await self.do(who, DecideApproval(wait=wait.id, approved=approved, **more))

    async def audited(self, action: str) -> list[Any]:
        return [row.entry for row in await self.kernel.store.audit("default", limit=10_000) if row.entry.action == action]


def job_of(caller: Caller, agent: str = "echo", **more: Any) -> Job:
    return Job(
        id="j1",
        tree="j1",
        agent=agent,
        definition="version:1",
        caller=caller,
        status="running",
        created_at=1,
        digest="",
        id_from="edge",
        token="t",
        **more,
    )
