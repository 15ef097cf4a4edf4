"""A job from its start to its end, in a kernel with a store in memory."""

import pytest
from kernel_kit import OPERATOR, agents_plugin

from transom_hookspecs import GetJob, JobEnded, StartJob, TextEnded, TransomError

pytestmark = pytest.mark.anyio


async def hello(ctx, input):
    return f"Hello, {input}!"


async def test_a_job_answers_and_its_log_tells_of_it(kernel, events) -> None:
    async with kernel(plugins=[agents_plugin(hello)]) as k:
        answer = await k.call("StartJob", StartJob(agent="hello", input="Ann"), OPERATOR)
        log = await events(k, answer.job.id)
        assert log.kinds == ["job.started", "text", "text.ended", "job.ended"]
        assert log.of(TextEnded)[0].text == "Hello, Ann!"
        job = await k.call("GetJob", GetJob(id=answer.job.id), OPERATOR)
        assert (job.status, job.output, answer.retried) == ("completed", "Hello, Ann!", False)


async def test_an_agent_that_raises_fails_its_job_and_nothing_else(kernel, events) -> None:
    async def broken(ctx, input):
        raise ValueError("no such luck")

    async with kernel(plugins=[agents_plugin(broken, hello)]) as k:
        failed = await k.call("StartJob", StartJob(agent="broken"), OPERATOR)
        (ended,) = (await events(k, failed.job.id)).of(JobEnded)
        assert ended.status == "failed"
        assert ended.error.message == "agent 'broken' raised ValueError: no such luck"
        fine = await k.call("StartJob", StartJob(agent="hello", input="Bo"), OPERATOR)
        assert (await events(k, fine.job.id)).of(JobEnded)[0].status == "completed"


async def test_an_unknown_agent_is_refused_and_nothing_is_left(kernel) -> None:
    async with kernel(plugins=[agents_plugin(hello)]) as k:
        with pytest.raises(TransomError, match="no agent or flow 'nobody'") as refused:
            await k.call("StartJob", StartJob(agent="nobody", id="a"), OPERATOR)
        assert refused.value.code == "not_found"
        with pytest.raises(TransomError, match="no job 'a'"):
            await k.call("GetJob", GetJob(id="a"), OPERATOR)
