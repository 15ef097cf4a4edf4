"""What callers are shown: a scoped key its agents alone, and words only to those who may read content."""

import pytest
from job_kit import on_disk, ran
from kernel_kit import OPERATOR, agents_plugin

from transom_hookspecs import Caller, GetCatalog, GetJob, ListJobs, Origin, TransomError, WatchJob

pytestmark = pytest.mark.anyio

IDENTITY = {
    "identity": {
        "callers": {
            "workers_key": {"role": "member", "token_sha256": "0" * 64, "scopes": ["worker"]},
            "full_key": {"role": "member", "token_sha256": "1" * 64},
            "rita": {"role": "reader", "token_sha256": "2" * 64},
        }
    }
}


def key(name: str, scopes: tuple[str, ...] | None = None) -> Origin:
    return Origin(tenant="default", caller=Caller(kind="key", id=name, tenant="default", scopes=scopes), door="test")


WORKERS_KEY, FULL_KEY, RITA = key("workers_key", ("worker",)), key("full_key"), key("rita")


async def root(ctx, input):
    await ctx.say("the root's secret words")
    return await ctx.delegate("worker")


async def worker(ctx, input):
    return "worked"


async def failing(ctx, input):
    raise ValueError(f"bad input: {input}")


def house(kernel):
    """A kernel with these agents and callers."""
    return kernel(**on_disk(agents_plugin(root, worker, failing), "identity", "policy", config=IDENTITY))


@pytest.mark.req("IDN-2")
async def test_a_scoped_key_lists_only_jobs_of_its_agents(kernel) -> None:
    async with house(kernel) as k:
        await ran(k, "root", "roots")
        await ran(k, "worker", "workers")
        scoped = await k.call("ListJobs", ListJobs(), WORKERS_KEY)
        full = await k.call("ListJobs", ListJobs(), FULL_KEY)
    assert [job.id for job in scoped.jobs] == ["workers"]
    assert [job.id for job in full.jobs] == ["workers", "roots"]


@pytest.mark.req("IDN-2")
async def test_a_scoped_keys_catalog_has_only_its_agents(kernel) -> None:
    async with house(kernel) as k:
        catalog = await k.call("GetCatalog", GetCatalog(), WORKERS_KEY)
    assert [agent.name for agent in catalog.agents] == ["worker"]


async def test_who_may_not_read_the_root_may_not_watch_its_child(kernel) -> None:
    """A child's log is its whole tree's, and would tell the root's words."""
    async with house(kernel) as k:
        (child,) = (await ran(k, "root")).children
        assert (await k.call("GetJob", GetJob(id=child), WORKERS_KEY)).agent == "worker"
        with pytest.raises(TransomError) as refused:
            await k.call("WatchJob", WatchJob(id=child), WORKERS_KEY)
        assert refused.value.code == "permission_denied"


async def test_who_may_read_the_root_may_watch_its_child(kernel) -> None:
    async with house(kernel) as k:
        (child,) = (await ran(k, "root")).children
        grant = await k.call("WatchJob", WatchJob(id=child), OPERATOR)
    assert (grant.job.id, grant.job.tree) == (child, "job")


@pytest.mark.req("IDN-1")
async def test_an_errors_words_are_told_only_to_who_may_read_content(kernel) -> None:
    async with house(kernel) as k:
        told = (await ran(k, "failing", input="s3cret")).error
        job = await k.call("GetJob", GetJob(id="job"), RITA)
    assert "s3cret" in told.message
    assert (job.content, job.error.code) == (False, told.code)
    assert "s3cret" not in job.error.message
