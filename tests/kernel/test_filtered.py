"""What comes from outside while a job runs passes its filters before anything of it is kept."""

import msgspec
import pytest
from job_kit import decide, ended, hooks_plugin, on_disk, open_waits, resting, start
from kernel_kit import OPERATOR, agents_plugin

from transom_hookspecs import PublishEvent, Step, Wait

pytestmark = pytest.mark.anyio


class Mask:
    """Masks one word."""

    name = "mask"

    def open(self, scope):
        return self

    def feed(self, text):
        return text.replace("s3cret", "***")

    def end(self):
        return ""


def masked(*agents):
    return on_disk(agents_plugin(*agents), hooks_plugin(register_filters=lambda: [Mask()]))


async def kept_of_the_job(k, events) -> str:
    """All that log, journal and waits hold of the job."""
    log = (await events(k, "job")).entries
    steps = await k.store.select("default", Step, "job", {"job": "job"})
    waits = await k.store.select("default", Wait, "job", {"job": "job"})
    return msgspec.json.encode([log, steps, waits]).decode()


async def test_a_persons_answer_and_comment_pass_filters(kernel, events) -> None:
    async def asker(ctx, input):
        return await ctx.ask("q?")

    async with kernel(**masked(asker)) as k:
        await start(k, "asker")
        (question,) = await open_waits(k)
        await decide(k, question, answer="my s3cret", comment="s3cret too")
        assert (await ended(k)).output == "my ***"
        kept = await kept_of_the_job(k, events)
    assert "*** too" in kept
    assert "s3cret" not in kept


async def test_what_an_event_brings_passes_filters(kernel, events) -> None:
    async def listener(ctx, input):
        return await ctx.wait_for_event("source")

    async with kernel(**masked(listener)) as k:
        await start(k, "listener")
        await resting(k)
        await k.call("PublishEvent", PublishEvent(source="source", payload={"p": "s3cret"}), OPERATOR)
        assert (await ended(k)).output["p"] == "***"
        assert "s3cret" not in await kept_of_the_job(k, events)
