"""Conversations: what a turn leaves behind in them, and whose they are."""

import pytest
from job_kit import hooks_plugin, on_disk, ran, start
from kernel_kit import agents_plugin

from transom_hookspecs import Caller, Item, Origin, TransomError, Verdict, function, tool

pytestmark = pytest.mark.anyio


async def test_a_calls_result_is_kept_though_a_note_is_pinned_right_after_it(kernel) -> None:
    """A note is a transaction of its own; what waits in the journal must be written before it."""

    async def send() -> str:
        return "sent"

    async def pinner(ctx, input):
        await ctx.call("t.send")
        await ctx.note("x")
        await ctx.now()
        return "done"

    async with kernel(**on_disk(agents_plugin(pinner, tools=(tool("t", function(send)),)), "board")) as k:
        await ran(k, "pinner", conversation="c")
        items = await k.store.select("default", Item, "latest", {"conversation": "c"})
    assert [item.content for item in items if item.role == "tool"] == ["sent"]


def only_ones_own(access) -> Verdict:
    """A policy that lets nobody into a conversation of somebody else."""
    return Verdict(ruling="deny" if access.permission == "conversations.continue" else "allow")


def by(kind: str, name: str) -> Origin:
    return Origin(tenant="default", caller=Caller(kind=kind, id=name, tenant="default"), door="test")


async def echo(ctx, input):
    return input


@pytest.mark.parametrize(
    "other",
    [by("person", "anna@evil.example"), by("person", "bo"), by("key", "anna")],
    ids=["whose name begins like hers", "another", "a key of her name"],
)
async def test_a_persons_conversation_is_for_nobody_else(kernel, other) -> None:
    async with kernel(**on_disk(agents_plugin(echo), hooks_plugin(authorize=only_ones_own))) as k:
        await ran(k, "echo", who=by("person", "anna"), input="a secret", conversation="c")
        with pytest.raises(TransomError, match=r"conversations\.continue") as refused:
            await start(k, "echo", "other", who=other, input="what was said?", conversation="c")
    assert refused.value.code == "permission_denied"


async def test_a_keys_conversation_is_for_those_alone_who_may_read_what_was_said_in_it(kernel) -> None:
    """It is the tenant's, and no person's."""

    def not_for_b(access) -> Verdict:
        return Verdict(ruling="deny" if (access.permission, access.caller.id) == ("content.read", "b") else "allow")

    async with kernel(**on_disk(agents_plugin(echo), hooks_plugin(authorize=not_for_b))) as k:
        await ran(k, "echo", "first", who=by("key", "a"), input="a secret", conversation="c")
        with pytest.raises(TransomError, match=r"content\.read of 'first'") as refused:
            await start(k, "echo", "second", who=by("key", "b"), input="what was said?", conversation="c")
        job = await ran(k, "echo", "third", who=by("key", "c"), input="hello", conversation="c")
    assert refused.value.code == "permission_denied"
    assert job.output == "hello"


async def test_who_began_a_conversation_goes_on_with_it(kernel) -> None:
    anna = by("person", "anna")
    async with kernel(**on_disk(agents_plugin(echo), hooks_plugin(authorize=only_ones_own))) as k:
        await ran(k, "echo", who=anna, input="one", conversation="c")
        job = await ran(k, "echo", "next", who=anna, input="two", conversation="c")
    assert job.output == "two"
