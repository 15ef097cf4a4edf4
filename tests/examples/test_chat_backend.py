"""The chat example's backend, without a browser: it is started as its README says, renews its tokens, and knows its page."""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "chat-app"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def started(tmp_path_factory) -> Iterator[str]:
    """Transom and the backend, started by the README's command; the page's address."""
    leave_out = shutil.ignore_patterns("node_modules", "bundle.js", "__pycache__")
    folder = Path(shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("backend") / "chat-app", ignore=leave_out))
    (folder / "page" / "bundle.js").touch()  # what npm would build
    readme = (folder / "README.md").read_text()
    (command,) = re.findall(r"^transom dev --json \| python backend\.py$", readme, re.MULTILINE)
    command = command.replace("--json", "--json --port 0 --data data") + " --port 0"
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    both = subprocess.Popen(
        command, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    yield both.stdout.readline().split()[-1]
    os.killpg(both.pid, signal.SIGINT)
    both.wait(timeout=20)
    both.stdout.close()


@pytest.mark.req("AGUI-52")
def test_the_readmes_command_starts_both(started):
    with httpx.Client(base_url=started, headers={"Origin": started}, trust_env=False) as http:
        assert http.get("/session").json()["person"] is None
        assert http.post("/session", json={"person": "anna"}).status_code == 200
        assert http.get("/session").json()["person"] == "anna"
        assert "echo" in [each["name"] for each in http.get("/agents").json()["agents"]]


@pytest.mark.req("AGUI-52")
def test_the_backend_acts_for_its_own_page_alone(started):
    with httpx.Client(base_url=started, trust_env=False) as http:
        own = {"Origin": started}
        assert http.post("/session", json={"person": "omar"}).status_code == 403
        assert http.post("/session", json={"person": "omar"}, headers={"Origin": "http://elsewhere.example"}).status_code == 403
        assert http.post("/session", json={"person": "rita"}, headers=own).status_code == 403
        assert http.post("/agents/echo", json={}, headers=own).status_code == 401
        assert http.post("/session", json={"person": "omar"}, headers=own).json() == {"person": "omar"}
        assert http.post("/agents/echo", json={}, headers={"Origin": "null"}).status_code == 403
        refused = http.post("/agents/echo", json={}, headers=own)
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_argument")
        assert http.post("/agents/..%2fx", json={}, headers=own).status_code in (400, 404)
        assert http.get("/", headers={"Host": "rebound.example"}).status_code == 403
        assert http.get("/../backend.py").status_code == 404
        answer = http.get("/")
    assert answer.status_code == 200
    rules = answer.headers["content-security-policy"]
    assert "default-src 'none'" in rules
    assert "unsafe" not in rules


@pytest.fixture
def module(monkeypatch):
    """The backend as a module."""
    made = importlib.util.spec_from_file_location("chat_backend", EXAMPLE / "backend.py")
    loaded = importlib.util.module_from_spec(made)
    monkeypatch.setitem(sys.modules, "chat_backend", loaded)  # where its annotations are looked up
    made.loader.exec_module(loaded)
    return loaded


@pytest.mark.anyio
@pytest.mark.req("AGUI-52")
async def test_a_token_is_renewed_before_it_ends_and_when_it_ended_early(module):
    clock, exchanged, used = [1000.0], [], []

    async def transom(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/oauth/token":
            exchanged.append((request.headers["authorization"], dict(httpx.QueryParams((await request.aread()).decode()))))
            return httpx.Response(200, json={"access_token": f"token-{len(exchanged)}", "expires_in": 900})
        used.append(request.headers["authorization"].removeprefix("Bearer "))
        return httpx.Response(401 if used[-1] == "token-2" and len(used) > 3 else 200)

    async def ask_at(seconds: float) -> str:
        clock[0] = 1000.0 + seconds
        answer = await desk.ask(request, desk.http.build_request("GET", "/v1/agents"))
        await answer.aclose()
        return used[-1]

    request = SimpleNamespace(cookies={})
    settings = module.Settings(url="http://transom", tokens={"anna": "annas", "deskapp": "own"})
    http = httpx.AsyncClient(transport=httpx.MockTransport(transom), base_url=settings.url)
    desk = module.Desk(settings, http, lambda: clock[0])
    request.cookies = {module.COOKIE: await desk.sign_in("anna")}
    assert await ask_at(1) == "token-1"
    assert await ask_at(839) == "token-1"
    assert await ask_at(841) == "token-2"
    assert await ask_at(850) == "token-3"  # the second was refused
    with pytest.raises(module.NotAuthorizedException):
        await ask_at(module.SESSION_SECONDS + 1)
    assert used == ["token-1", "token-1", "token-2", "token-2", "token-3"]
    assert [(key, form["subject_token"]) for key, form in exchanged] == [("Bearer own", "annas")] * 3
