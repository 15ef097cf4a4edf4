"""Catalogs of thousands: listed once, and asked about without holding up anybody else."""

import anyio
import pytest
from kernel_kit import OPERATOR, agents_plugin

from transom_hookspecs import Access, Agent, GetCatalog, Verdict, hookimpl

pytestmark = pytest.mark.anyio


async def answer(ctx, input):
    return input


class Judge:
    """Allows all but what it is told to hide."""

    name = "judge"
    spec = "1.0"
    hidden = frozenset[str]()

    def __init__(self, config: object) -> None: ...

    @hookimpl
    def authorize(self, access: Access) -> Verdict:
        return Verdict(ruling="deny" if access.object in self.hidden else "allow", by="test")


def many(count: int) -> type:
    return agents_plugin(*(Agent(name=f"a{n:04}", run=answer) for n in range(count)))


@pytest.mark.req("REST-4")
async def test_the_catalog_is_one_object_until_it_changes(kernel):
    config = {"tenants": ["default", "acme"]}
    async with kernel(plugins=[many(3)], config=config) as k:
        before = k.agents("default")
        assert k.agents("default") is before
        offer = k.catalog.offer("default", "a0000")
        only = type(offer)(agent=Agent(name="new", run=answer), definition="v", plugin="p", tenants=("acme",))
        k.catalog._add(only)
        assert [view.name for view in k.agents("default")] == ["a0000", "a0001", "a0002"]
        assert [view.name for view in k.agents("acme")] == ["a0000", "a0001", "a0002", "new"]


async def test_who_sees_all_gets_the_catalog_itself_and_others_their_part(kernel):
    judge = type("HidingJudge", (Judge,), {})
    async with kernel(plugins=[many(3), judge]) as k:
        assert (await k.call("GetCatalog", GetCatalog(), OPERATOR)).agents is k.agents("default")
        judge.hidden = frozenset({"a0001"})
        seen = (await k.call("GetCatalog", GetCatalog(), OPERATOR)).agents
        assert [view.name for view in seen] == ["a0000", "a0002"]


@pytest.mark.req("REST-4")
async def test_others_go_on_while_a_caller_is_told_what_it_sees(kernel):
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with kernel(plugins=[many(1_000), Judge]) as k, anyio.create_task_group() as tasks:
        tasks.start_soon(others)
        await anyio.lowlevel.checkpoint()
        before = turns
        await k.call("GetCatalog", GetCatalog(), OPERATOR)
        assert turns - before >= 4
        tasks.cancel_scope.cancel()
