"""The stock client, its verification on, against a real server: no rejection, no warning, whatever a turn does."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import anyio
import pytest
from servers import Server

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")]

OLD = "agui-before-1.0"
PACKAGES = ("@ag-ui/client@1.0.0", f"{OLD}@npm:@ag-ui/client@0.0.59", "@tanstack/ai-client@0.33.2", "@tanstack/ai@0.58.0")
HERE = Path(__file__).parent / "node"


@pytest.fixture(scope="session")
def library(node_folder) -> Path:
    """A folder with the clients, and the programs that use them."""
    folder = node_folder(*PACKAGES)
    for script in HERE.iterdir():
        shutil.copy(script, folder)
    return folder


class Pages:
    """Pages in a process of Node."""

    def __init__(self, folder: Path, script: str, client: str = "@ag-ui/client"):
        self._process = subprocess.Popen(
            ["node", script],
            cwd=folder,
            env={**os.environ, "AGUI_CLIENT": client},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._numbers = count(1)
        self._answers: dict[int, dict] = {}

    async def ask(self, command: str, *, quiet: bool = True, **rest) -> dict:
        """Give a command, and wait for its answer."""
        return await anyio.to_thread.run_sync(lambda: self._ask(command, quiet, rest))

    def _ask(self, command: str, quiet: bool, rest: dict) -> dict:
        number = next(self._numbers)
        self._process.stdin.write(json.dumps({"number": number, "command": command, **rest}) + "\n")
        while number not in self._answers:
            answer = json.loads(self._process.stdout.readline())
            self._answers[answer["number"]] = answer
        answer = self._answers.pop(number)
        assert "broken" not in answer, answer["broken"]
        assert not quiet or (not answer["warnings"] and "failed" not in answer and "thrown" not in answer), answer
        return answer

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()


class Page:
    """One page of somebody's."""

    def __init__(self, pages: Pages, server: Server, name: str):
        self.pages, self.server, self.name = pages, server, name

    async def open(self, who: str, agent: str, thread: str, messages: list | None = None) -> "Page":
        await self.pages.ask(
            "open",
            page=self.name,
            url=self.url(agent),
            token=self.server.tokens[who],
            thread=thread,
            messages=messages or [],
            state={},
        )
        return self

    def url(self, agent: str) -> str:
        return f"{self.server.url}/v1/agui/agents/{agent}"

    async def say(self, text: str, **options) -> dict:
        return await self.pages.ask("say", page=self.name, text=text, **options)

    async def run(self, **options) -> dict:
        return await self.pages.ask("run", page=self.name, **options)

    async def answer(self, seen: dict, *payloads, **options) -> dict:
        """Answer all that waits: a payload resolves, None cancels."""
        entries = [
            {
                "interruptId": w["id"],
                "status": "cancelled" if p is None else "resolved",
                **({} if p is None else {"payload": p}),
            }
            for w, p in zip(seen["interrupts"], payloads, strict=True)
        ]
        return await self.run(resume=entries, **options)


@pytest.fixture(scope="module")
def dev(tmp_path_factory) -> Iterator[Server]:
    """A `transom dev` process."""
    server = Server(tmp_path_factory.mktemp("agui") / "data")
    anyio.run(server.start)
    yield server
    assert server.stop() == 0


@pytest.fixture
def pages(library, request) -> Iterator[Pages]:
    made = Pages(library, "pages.mjs", getattr(request, "param", "@ag-ui/client"))
    yield made
    made.close()


@pytest.fixture
def open_page(dev, pages, request):
    """Open a page: `await open_page("anna", "echo")`."""
    numbers = count(1)

    async def make(who: str, agent: str, *, thread: str = "", messages: list | None = None) -> Page:
        name = f"{request.node.name}-{next(numbers)}".replace("[", "-").replace("]", "")
        page = Page(pages, dev, name)
        return await page.open(who, agent, thread or name[:150], messages)

    return make


def text(seen: dict) -> str:
    return "\n".join(m["content"] for m in seen["messages"] if m["role"] == "assistant" and m.get("content"))


both = pytest.mark.parametrize("pages", ["@ag-ui/client", OLD], indirect=True, ids=["1.0", "0.0.59"])
"""With the client of today, and with the one that CopilotKit still brings."""


@both
@pytest.mark.req("AGUI-41", "AGUI-47")
async def test_three_turns(open_page):
    page = await open_page("anna", "echo")
    for word in ("one", "two", "three"):
        seen = await page.say(word)
    assert text(seen) == "[AI] one\n[AI] two\n[AI] three"
    assert [m["role"] for m in seen["messages"]] == ["user", "assistant"] * 3


@both
@pytest.mark.req("AGUI-47")
async def test_steps_cards_and_the_board(open_page):
    seen = await (await open_page("anna", "planner")).say("plan it")
    assert seen["state"]["board"]["notes"][0]["text"] == "Both workers are done."
    assert {e["type"] for e in seen["events"]} >= {"STEP_STARTED", "STEP_FINISHED", "STATE_DELTA"}
    seen = await (await open_page("anna", "carder")).say("lunch")
    assert "oz0.card" in [e.get("name") for e in seen["events"]]


@both
@pytest.mark.req("AGUI-13", "AGUI-18", "AGUI-39", "AGUI-47")
async def test_two_approvals_answered_together_and_the_history_after(open_page):
    page = await open_page("omar", "two_calls")
    seen = await page.say("both")
    assert len(seen["interrupts"]) == 2
    seen = await page.answer(seen, {"approved": True}, {"approved": False, "comment": "no"})
    assert seen["interrupts"] == []
    assert text(seen) == "[AI] I greeted #design. I did not greet #support."
    assert [m["role"] for m in seen["messages"]] == ["user", "assistant", "tool", "tool", "assistant"]
    assert len(seen["messages"][1]["toolCalls"]) == 2
    seen = await page.say("again")
    assert len(seen["interrupts"]) == 2


@both
@pytest.mark.req("AGUI-31", "AGUI-38", "AGUI-47")
async def test_a_question_answered_and_one_declined(open_page):
    page = await open_page("anna", "asker")
    seen = await page.answer(await page.say("ask"), {"answer": "blue"})
    assert text(seen) == "[AI] You chose blue."
    seen = await page.answer(await page.say("ask again"), None)
    assert text(seen).endswith("[AI] You chose nothing.")


@both
@pytest.mark.req("AGUI-47")
async def test_an_error_and_a_denial_and_the_next_message(open_page):
    page = await open_page("omar", "crasher")
    seen = await page.say("go")
    assert seen["error"]["code"] == "failed"
    await page.pages.ask("goto", page=page.name, url=page.url("helper"))
    seen = await page.answer(await page.say("greet"), {"approved": False})
    assert text(seen).endswith("[AI] I did not greet the team.")


@pytest.mark.req("AGUI-35", "AGUI-47")
async def test_a_fresh_page_is_shown_what_waits_and_answers_it(open_page):
    page = await open_page("omar", "helper")
    seen = await page.say("greet")
    fresh = await open_page("omar", "helper", thread=page.name, messages=seen["messages"])
    again = await fresh.run()
    assert [w["id"] for w in again["interrupts"]] == [w["id"] for w in seen["interrupts"]]
    done = await fresh.answer(again, {"approved": True})
    assert text(done) == "[AI] I greeted the team."
    late = await page.answer(seen, {"approved": False})
    assert [e["value"]["outcome"] for e in late["events"] if e.get("name") == "oz0.resume"] == ["already_decided"]
    assert text(late) == "[AI] I greeted the team."
    assert text(await page.say("more"))


@both
@pytest.mark.req("AGUI-27", "AGUI-54")
async def test_a_page_loaded_afresh_and_one_with_nothing(open_page):
    page = await open_page("anna", "echo")
    seen = await page.say("hello")
    fresh = await open_page("anna", "echo", thread=page.name, messages=seen["messages"])
    assert text(await fresh.run()) == "[AI] hello"
    empty = await open_page("anna", "echo", thread=page.name)
    seen = await empty.say("what was that?")
    assert seen["error"]["code"] == "history_mismatch"
    assert text(seen) == "[AI] hello"
    assert text(await empty.say("what was that?")) == "[AI] hello\n[AI] what was that?"


@pytest.mark.req("AGUI-28", "AGUI-47")
async def test_four_eyes_seen_by_both_people(open_page, dev):
    page, got = await open_page("omar", "pair"), {}

    async with anyio.create_task_group() as tasks:

        async def run():
            got["omar"] = await page.say("announce")

        tasks.start_soon(run)
        async with dev.client("ada") as http:
            while True:
                waits = (await http.get("/v1/approvals")).json()["approvals"]
                if mine := [w for w in waits if w["function"] == "team.announce" and w["agent"] == "pair"]:
                    break
                await anyio.sleep(0.02)
            other = mine[0]
            assert (await http.post(f"/v1/approvals/{other['id']}/approve", json={})).status_code == 200
    names = [e.get("name") for e in got["omar"]["events"]]
    assert "oz0.waiting" in names
    assert text(got["omar"]) == "[AI] I made the announcement."


@both
@pytest.mark.req("AGUI-20", "AGUI-47")
async def test_a_job_that_is_stopped(open_page, dev):
    page, got = await open_page("omar", "sleeper"), {}

    async with anyio.create_task_group() as tasks:

        async def run():
            got["seen"] = await page.say('{"steps": 1, "seconds": 60}')

        tasks.start_soon(run)
        async with dev.client("omar") as http:
            while True:
                jobs = (await http.get("/v1/jobs")).json()["jobs"]
                if running := [j for j in jobs if j["agent"] == "sleeper" and j["status"] in ("running", "waiting")]:
                    break
                await anyio.sleep(0.02)
            assert (await http.post(f"/v1/jobs/{running[0]['id']}/cancel", json={})).status_code == 200
    last = got["seen"]["events"][-1]
    assert last.get("outcome") == {"type": "cancelled"} or last["code"] == "cancelled"


@pytest.mark.req("AGUI-36", "AGUI-47")
async def test_an_expired_question_is_left_by_cancelling_it(open_page):
    page = await open_page("anna", "brief")
    seen = await page.say("still there?")
    (wait,) = seen["interrupts"]
    await anyio.sleep(2.1)  # the agent's own deadline
    done = await page.answer(seen, None)
    assert text(done) == "[AI] Nobody answered in time."
    assert wait["id"].startswith("ozi1.")


@pytest.mark.req("AGUI-53")
async def test_a_refusal_over_http_has_its_code_for_the_page(open_page):
    page = await open_page("rita", "echo")
    seen = await page.say("hello", quiet=False)
    assert (seen["status"], seen["payload"]["code"]) == (403, "permission_denied")


@pytest.mark.req("AGUI-47")
async def test_the_page_and_the_backend_of_the_documentation(library, dev, tmp_path):
    """What `connect-an-ag-ui-client.md` shows, run as it stands: the token is in the backend alone."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "connect-an-ag-ui-client.md").read_text()
    for name, text in re.findall(r"```javascript file=(\S+)\n(.*?)```", page, re.DOTALL):
        (library / name).write_text(text)
    environment = {**os.environ, "TRANSOM_URL": dev.url, "TRANSOM_TOKEN": dev.tokens["omar"]}
    backend = subprocess.Popen(["node", "backend.mjs"], cwd=library, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        url = await anyio.to_thread.run_sync(backend.stdout.readline)
        seen = await anyio.run_process(["node", "page.mjs"], cwd=library, env={**os.environ, "BACKEND": url.strip()})
        lines = seen.stdout.decode().splitlines()
        assert lines == [
            'Run team.greet? {"channel":"#design"}',
            'Run team.greet? {"channel":"#support"}',
            "[AI] I greeted #design. I greeted #support.",
        ]
    finally:
        backend.kill()
        backend.wait()
        backend.stdout.close()


@pytest.mark.req("AGUI-24", "AGUI-47")
@pytest.mark.parametrize(("who", "agent"), [("anna", "echo"), ("omar", "helper")])
async def test_tanstack_ai_goes_on_after_each_broken_connection_and_resumes(library, dev, who, agent):
    environment = {**os.environ, "AGENT_URL": f"{dev.url}/v1/agui/agents/{agent}", "TOKEN": dev.tokens[who]}
    seen = json.loads((await anyio.run_process(["node", "tanstack.mjs"], cwd=library, env=environment)).stdout)
    assert seen["errors"] == []
    assert [place for place in seen["places"] if place]
    words = "please greet the team, all of them, and tell me when you did it, in a few words"
    assert seen["said"] == [["user", [words]], *ANSWERS[agent](words)]


ANSWERS = {
    "echo": lambda words: [["assistant", [f"[AI] {words}"]]],
    "helper": lambda words: [
        ["assistant", ["team.greet", "Greeted #team."]],
        ["assistant", ["[AI] I greeted the team."]],
    ],
}
