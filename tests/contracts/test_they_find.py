"""The contracts of doors and engines find those that break them: a run of pytest over some that do."""

import subprocess
import sys
from pathlib import Path

MISBEHAVING = '''
import pytest
from contextlib import asynccontextmanager
from litestar import Request, Response, post

from transom_hookspecs import Door, RequestHead, TransomError, hookimpl
from transom_local_engine import LocalEngine
from transom_testing import engine_contract
from transom_testing.contracts import DoorContract, EngineContract

engine_contract._PATIENCE = 1.0


def door(answer):
    class Plugin:
        name, spec = "bad", "1.0"
        def __init__(self, config): pass
        @asynccontextmanager
        async def run(self, kernel):
            self.kernel = kernel
            yield
        @hookimpl
        def register_doors(self):
            @post("/bad")
            async def bad(request: Request) -> Response:
                try:
                    return await answer(self.kernel, request)
                except TransomError as error:
                    return Response({"code": error.code}, status_code=401)
            return [Door(name="bad", handlers=[bad])]
    return Plugin


def head(request, **more):
    headers = {}
    for name, value in request.scope["headers"]:
        headers[name.decode("latin-1")] = (*headers.get(name.decode("latin-1"), ()), value.decode("latin-1"))
    return RequestHead(method="POST", path="/bad", headers={**headers, **more})


async def reads_first(kernel, request):
    body = await request.body()
    await kernel.authenticate(head(request))
    return Response(body)


async def takes_keys(kernel, request):
    more = {"authorization": (f"Bearer {request.query_params['token']}",)} if "token" in request.query_params else {}
    await kernel.authenticate(head(request, **more))
    return Response(b"")


async def knows_no_latin(kernel, request):
    for _, value in request.scope["headers"]:
        value.decode()
    await kernel.authenticate(head(request))
    return Response(b"")


class Bad(DoorContract):
    routes = (("POST", "/bad"),)


class TestReadsFirst(Bad):
    @pytest.fixture
    def plugin(self): return door(reads_first)


class TestTakesKeys(Bad):
    @pytest.fixture
    def plugin(self): return door(takes_keys)


class TestKnowsNoLatin(Bad):
    @pytest.fixture
    def plugin(self): return door(knows_no_latin)


def engine(cls):
    class Plugin:
        name, spec = "bad", "1.0"
        def __init__(self, config): pass
        @hookimpl
        def register_engines(self): return [cls(0.1, 1000)]
    return Plugin


class Deaf(LocalEngine):
    """Drops a wake while the job is being advanced."""
    def _go(self, key):
        if key not in self._active:
            super()._go(key)
    async def _sweep_often(self): pass


class Blind(LocalEngine):
    """Never looks at the leases."""
    async def _swept(self): pass


class Greedy(LocalEngine):
    """Takes what others started."""
    def run(self, kernel, *, own_only=False): return super().run(kernel)


class TestDeaf(EngineContract):
    @pytest.fixture
    def plugin(self): return engine(Deaf)


class TestBlind(EngineContract):
    @pytest.fixture
    def plugin(self): return engine(Blind)


class TestGreedy(EngineContract):
    @pytest.fixture
    def plugin(self): return engine(Greedy)
'''

FINDS = (
    "TestReadsFirst::test_without_a_credential_it_refuses_before_it_reads_the_body",
    "TestTakesKeys::test_a_key_in_the_url_opens_nothing[token]",
    "TestKnowsNoLatin::test_any_bytes_in_any_header_are_answered",
    "TestDeaf::test_a_wake_while_an_advance_ends_is_not_lost",
    "TestBlind::test_what_is_due_is_found_without_a_hint",
    "TestBlind::test_what_a_crash_left_goes_on_at_the_next_start",
    "TestGreedy::test_own_only_leaves_the_jobs_of_others_alone",
)
"""The tests that must fail. What each of these doors and engines does right passes: its contract has other tests."""


def test_what_doors_and_engines_do_wrong(tmp_path: Path):
    (tmp_path / "test_bad.py").write_text(MISBEHAVING)
    command = [sys.executable, "-m", "pytest", "-q", "-rA", "--tb=no", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *(f"test_bad.py::{test}" for test in FINDS)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    results = [line for line in done.stdout.splitlines() if "test_bad.py::" in line]
    assert len(results) == len(FINDS) + 2, done.stdout + done.stderr  # one of them has three cases
    assert [line for line in results if not line.startswith("FAILED")] == [], done.stdout + done.stderr
