"""kill -9 at random moments: every accepted job goes on and finishes, and nobody misses or repeats anything."""

import os
import random
from collections import Counter
from pathlib import Path

import anyio
import httpx
import pytest
from servers import Server, follow

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(1800)]

ROUNDS = int(os.environ.get("KILL_ROUNDS", "4"))
"""How often the server is killed; a longer run: `KILL_ROUNDS=50 pytest tests/crash`."""

JOBS = (
    *[("sleeper", {"steps": 6, "seconds": 0.3})] * 6,
    *[("planner", "a plan")] * 5,
    *[("helper", "Please greet the team")] * 4,
    *[("sender", {"steps": 4, "seconds": 0.3})] * 5,
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def start_all(server: Server) -> list[str]:
    """Start the jobs under IDs of their own; a start whose answer is lost is sent again."""
    names = [f"job-{i}-{agent}" for i, (agent, _) in enumerate(JOBS)]
    for name, (agent, value) in zip(names, JOBS, strict=True):
        while True:
            try:
                async with server.client() as client:
                    answer = await client.post(f"/v1/agents/{agent}/jobs?id={name}", json=value)
                assert answer.status_code in (200, 201), answer.text
                break
            except httpx.TransportError:
                await anyio.sleep(0.05)
    return names


class Decider:
    """Approves what asks, and says of each interrupted `send` that it is to be done again."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.answered: Counter[str] = Counter()

    async def run(self) -> None:
        while True:
            try:
                async with self.server.client("ada") as client:
                    for wait in (await client.get("/v1/approvals")).json()["approvals"]:
                        if wait["kind"] == "restart":
                            answer = await client.post(f"/v1/approvals/{wait['id']}/answer", json={"answer": "again"})
                        else:
                            answer = await client.post(f"/v1/approvals/{wait['id']}/approve", json={})
                        assert answer.status_code in (200, 409), answer.text
                        self.answered[wait["kind"]] += 1
            except httpx.TransportError:
                pass
            await anyio.sleep(0.2)


@pytest.mark.req("RT-36", "RT-18")
async def test_every_job_survives_kills_at_random_moments(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    print("seed", seed)
    chance = random.Random(seed)
    ledger = tmp_path / "ledger"
    server = await Server(tmp_path / "data", TRANSOM_DEMO_LEDGER=str(ledger)).start()
    kills = 0
    seen: dict[str, list] = {}
    try:
        while kills < ROUNDS:
            names = [f"r{kills}-{i}-{agent}" for i, (agent, _) in enumerate(JOBS)]
            async with anyio.create_task_group() as tasks:
                decider = Decider(server)
                tasks.start_soon(decider.run)
                async with server.client() as client:
                    for name, (agent, value) in zip(names, JOBS, strict=True):
                        answer = await client.post(f"/v1/agents/{agent}/jobs?id={name}", json=value)
                        assert answer.status_code == 201, answer.text
                async with anyio.create_task_group() as followers:
                    for name in names:
                        seen[name] = []
                        followers.start_soon(follow, server, name, seen[name])
                    for _ in range(chance.choice((1, 2, 3))):
                        if kills < ROUNDS:
                            await anyio.sleep(chance.uniform(0.02, 1.2))
                            server.kill()
                            kills += 1
                            await server.start()
                tasks.cancel_scope.cancel()
            check_finished(seen, names)
    finally:
        server.stop()
    check_ledger(ledger)


def check_finished(seen: dict[str, list], names: list[str]) -> None:
    """Each job completed, and its follower had every event once, in order."""
    for name in names:
        numbers = [int(identity.partition("-")[0]) for identity, _ in seen[name]]
        assert numbers == list(range(1, len(numbers) + 1)), f"{name}: events lost or repeated: {numbers}"
        last = seen[name][-1][1]
        assert last["status"] == "completed", (name, last)


def check_ledger(ledger: Path) -> None:
    """A step stands twice only where it was in flight at a kill: the second line directly follows the first of its job."""
    by_job: dict[str, list[str]] = {}
    for line in ledger.read_text().splitlines():
        job, step = line.split()
        by_job.setdefault(job, []).append(step)
    for job, steps in by_job.items():
        without_doubles = [s for i, s in enumerate(steps) if i == 0 or steps[i - 1] != s]
        assert len(without_doubles) == len(set(without_doubles)), f"{job}: a committed step ran again: {steps}"
        assert len(set(steps)) == (6 if "sleeper" in job else 4), f"{job}: a step is missing: {steps}"
