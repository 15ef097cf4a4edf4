"""The example's chat in a browser: built, served by its backend, driven in Chromium against a real server."""

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from servers import Server

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    pytest.mark.skipif(platform.machine() != "x86_64" or platform.system() != "Linux", reason="the browser is for Linux"),
]

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "chat-app"
BROWSER = ("@sparticuz/chromium@143.0.4", "puppeteer-core@24.34.0")


@pytest.fixture(scope="session")
def app(node_folder) -> Path:
    """The example, built."""
    named = json.loads((EXAMPLE / "package.json").read_text())
    packages = [f"{name}@{version}" for kind in ("dependencies", "devDependencies") for name, version in named[kind].items()]
    unpack = 'await (await import("@sparticuz/chromium")).default.executablePath()'
    folder = node_folder(*packages, *BROWSER, first=unpack)
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules", "bundle.js"))
    shutil.copy(HERE / "node" / "browser.mjs", folder)
    subprocess.run(["npm", "run", "--silent", "build", "--", "--log-level=error"], cwd=folder, check=True, timeout=60)
    return folder


@pytest.fixture(scope="module")
def dev(tmp_path_factory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("chat") / "data")
    anyio.run(server.start)
    yield server
    server.stop()


class Browser:
    """A page in Chromium."""

    def __init__(self, folder: Path):
        command = ["node", "browser.mjs"]
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    async def do(self, command: str, **rest) -> dict:
        return await anyio.to_thread.run_sync(self._do, {"command": command, **rest})

    def _do(self, command: dict) -> dict:
        self._process.stdin.write(json.dumps(command) + "\n")
        answer = json.loads(self._process.stdout.readline())
        assert "broken" not in answer, answer
        return answer

    def close(self) -> None:
        self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture
def browser(app) -> Iterator[Browser]:
    made = Browser(app)
    yield made
    made.close()


@pytest.fixture
def backend(app, dev) -> Iterator[str]:
    """The backend's address; it acts for omar."""
    own = {"TRANSOM_URL": dev.url, "APP_KEY": dev.tokens["deskapp"], "PERSON_TOKEN": dev.tokens["omar"], "PORT": "0"}
    process = subprocess.Popen(["node", "backend.mjs"], cwd=app, env={**os.environ, **own}, stdout=subprocess.PIPE, text=True)
    yield process.stdout.readline().strip()
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.req("AGUI-52")
async def test_the_chat_asks_in_its_own_dialogs_and_never_sees_a_token(browser, backend, dev):
    await browser.do("goto", url=f"{backend}/?agent=two_calls")
    await browser.do("say", text="greet them both")
    asked = await browser.do("asked")
    assert asked == {"title": "Run team.greet?", "details": '{\n  "channel": "#design"\n}'}
    await browser.do("reload")  # a page loaded afresh follows the turn, and asks again
    assert (await browser.do("asked"))["details"] == asked["details"]
    await browser.do("press", button="approve")
    assert '"#support"' in (await browser.do("asked"))["details"]
    await browser.do("fill", name="comment", value="not these")
    await browser.do("press", button="deny")
    seen = await browser.do("shows", text="I greeted #design. I did not greet #support.")
    assert seen["messages"][0] == "greet them both"
    assert seen["messages"][-1].startswith("[AI] ")
    await browser.do("goto", url=f"{backend}/?agent=asker")
    assert (await browser.do("shows", text="I greeted #design."))["messages"]
    await browser.do("say", text="ask me")
    assert (await browser.do("asked"))["title"] == "[AI] Which colour?"
    await browser.do("fill", name="answer", value="green")
    await browser.do("press", button="answer")
    await browser.do("shows", text="You chose green.")
    end = await browser.do("end")
    assert end["problems"] == []
    tokens = [dev.tokens[name] for name in ("deskapp", "omar")]
    assert not [token for token in [*tokens, "tr_at_", "Bearer"] if token in end["seen"]]
    assert "TOOL_CALL_START" in end["seen"]


@pytest.mark.req("AGUI-52", "AGUI-40")
async def test_the_backend_acts_for_the_person_as_the_app_and_only_for_its_own_page(browser, backend, dev):
    await browser.do("goto", url=f"{backend}/?agent=typed")
    await browser.do("say", text="remove sam")
    await browser.do("asked")
    await browser.do("fill", name="confirm", value="sam")
    await browser.do("press", button="approve")
    await browser.do("shows", text="I removed sam.")
    async with dev.client("ada") as http:
        (job,) = [j for j in (await http.get("/v1/jobs")).json()["jobs"] if j["agent"] == "typed"]
        assert job["taint"] == ["agui"]
        strange = await http.post(f"{backend}/agents/echo", content=b"{}", headers={"Origin": "http://elsewhere.example"})
        assert strange.status_code == 403
    assert (await browser.do("end"))["problems"] == []
