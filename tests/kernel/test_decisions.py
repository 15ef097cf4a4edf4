"""Decisions are held to what was checked, whatever changes or is decided at the same moment."""

import time

import anyio
import pytest
from job_kit import decide, ended, hooks_plugin, on_disk, open_waits, resting, start
from kernel_kit import OPERATOR, agents_plugin

from transom_hookspecs import EditWait, Rule, ToolCall, TransomError, Verdict, function, tool
from transom_sqlite import SqliteStore

pytestmark = pytest.mark.anyio


async def test_a_question_cannot_be_approved_only_answered_or_declined(kernel) -> None:
    async def asker(ctx, input):
        return await ctx.ask("colour?", choices=["red", "blue"])

    async with kernel(**on_disk(agents_plugin(asker))) as k:
        await start(k, "asker")
        (question,) = await open_waits(k)
        with pytest.raises(TransomError, match="is a question") as refused:
            await decide(k, question, approved=True, answer="blue")
        assert refused.value.code == "invalid_argument"
        await decide(k, question, answer="blue")
        assert (await ended(k)).output == "blue"


async def test_a_decision_that_falls_into_a_replay_takes_effect_beside_a_call_that_runs_long(kernel) -> None:
    lives, replaying, go = [], anyio.Event(), anyio.Event()
    ran_at: list[float] = []

    async def slow() -> str:
        await anyio.sleep(0.6)
        return "slow"

    async def fast() -> str:
        ran_at.append(time.monotonic())
        return "fast"

    async def caller(ctx, input):
        lives.append(1)
        if len(lives) == 2:  # woken by the first decision; it has read the journal, and comes to the calls only later
            replaying.set()
            await go.wait()
        calls = [ToolCall(id=name, function=f"t.{name}", arguments={}) for name in ("slow", "fast")]
        return [result.content for result in await ctx.tools(calls)]

    functions = [function(call, idempotent=True, approval=Rule()) for call in (slow, fast)]
    async with kernel(**on_disk(agents_plugin(caller, tools=(tool("t", *functions),)))) as k:
        await start(k, "caller")
        waits = {wait.function: wait for wait in await open_waits(k, count=2)}
        await resting(k)
        await decide(k, waits["t.slow"], approved=True)
        with anyio.fail_after(5):
            await replaying.wait()
        await decide(k, waits["t.fast"], approved=True)
        await anyio.sleep(0.05)  # whatever the decision told the running job, it was told by now
        released = time.monotonic()
        go.set()
        assert (await ended(k)).output == ["slow", "fast"]
    assert ran_at[0] - released < 0.4, "it waited for the long call"


class EditedMeanwhile(SqliteStore):
    """A store in which somebody edits a wait right before the next write."""

    edit = None

    async def transact(self, tenant, fn, *, relaxed=False):
        edit, self.edit = self.edit, None
        if edit is not None:
            await edit()
        return await super().transact(tenant, fn, relaxed=relaxed)


@pytest.mark.req("IDN-10")
async def test_typing_a_value_confirms_nothing_when_the_arguments_change_meanwhile(kernel) -> None:
    removed = []

    async def remove(name: str) -> str:
        removed.append(name)
        return name

    async def remover(ctx, input):
        return await ctx.call("t.remove", {"name": "old"})

    tools = (tool("t", function(remove, approval=Rule(typed="name", edit=True))),)
    store = EditedMeanwhile()
    async with kernel(**on_disk(agents_plugin(remover, tools=tools), store=store)) as k:
        await start(k, "remover")
        (wait,) = await open_waits(k)
        everything = EditWait(wait=wait.id, arguments={"name": "everything"})
        store.edit = lambda: k.call("EditWait", everything, OPERATOR)
        with pytest.raises(TransomError, match="changed since it was shown"):
            await decide(k, wait, approved=True, confirm="old")
        (kept,) = await open_waits(k)
    assert kept.arguments == {"name": "everything"}
    assert not removed


@pytest.mark.req("IDN-12")
async def test_edited_arguments_pass_the_same_policy_as_the_first(kernel) -> None:
    def before_tool(use):
        return Verdict(ruling="deny", reason="never") if use.arguments["path"] == "/etc" else None

    removed = []

    async def remove(path: str) -> str:
        removed.append(path)
        return "removed"

    async def remover(ctx, input):
        return await ctx.call("t.remove", {"path": "/tmp"})

    tools = (tool("t", function(remove, approval=Rule(edit=True))),)
    plugins = [agents_plugin(remover, tools=tools), hooks_plugin(before_tool=before_tool)]
    async with kernel(**on_disk(*plugins)) as k:
        await start(k, "remover")
        (wait,) = await open_waits(k)
        with pytest.raises(TransomError, match="not permitted with these arguments: never") as refused:
            await k.call("EditWait", EditWait(wait=wait.id, arguments={"path": "/etc"}), OPERATOR)
        assert refused.value.code == "permission_denied"
        await decide(k, wait, approved=True)
        await ended(k)
    assert removed == ["/tmp"]


async def test_arguments_of_a_function_that_is_gone_cannot_be_edited(kernel, tmp_path) -> None:
    """There is no schema any more that they could be checked against."""

    async def remove(path: str) -> str:
        return "removed"

    async def remover(ctx, input):
        return await ctx.call("t.remove", {"path": "/tmp"})

    tools = (tool("t", function(remove, approval=Rule(edit=True))),)
    async with kernel(**on_disk(agents_plugin(remover, tools=tools), data=str(tmp_path))) as k:
        await start(k, "remover")
        (wait,) = await open_waits(k)
        await resting(k)
    async with kernel(**on_disk(agents_plugin(remover), data=str(tmp_path))) as k:
        with pytest.raises(TransomError, match=r"there is no function 't\.remove' any more") as refused:
            await k.call("EditWait", EditWait(wait=wait.id, arguments={"path": "/etc"}), OPERATOR)
    assert refused.value.code == "failed_precondition"
