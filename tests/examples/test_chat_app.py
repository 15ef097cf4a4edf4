"""The chat example in a browser: installed and started as its README says, against a real server, driven in Chromium."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import httpx
import pytest
from servers import Server

try:
    from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
except ImportError:  # pragma: no cover - the test environment has it
    sync_playwright = None

EXAMPLE = Path(__file__).parents[2] / "examples" / "chat-app"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TOKEN = re.compile(r"tr_[a-z]+_[\w-]{20,}")

KEEP_WHAT_THE_PAGE_GETS = """
window.got = [];
const fetched = window.fetch;
window.fetch = async (...given) => {
  const answer = await fetched(...given);
  window.got.push(JSON.stringify([...answer.headers]));
  answer.clone().text().then((text) => window.got.push(text), () => {});
  return answer;
};
"""


def needed(found: object, what: str) -> None:
    """Skip where something is not installed; in CI that is a failure."""
    if not found:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"{what} is not installed")


@pytest.fixture(scope="module")
def app(tmp_path_factory) -> Path:
    """The example in a folder of its own, after `npm install`."""
    needed(shutil.which("npm"), "npm")
    leave_out = shutil.ignore_patterns("node_modules", "bundle.js", "__pycache__")
    folder = Path(shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("chat") / "chat-app", ignore=leave_out))
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefer-offline"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    needed(sync_playwright, "playwright")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    needed(path, "chromium")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield made
        made.close()


def start(server: Server, *arguments: str) -> None:
    """Start a server, in a thread: the browser's loop runs in this one."""
    with anyio.from_thread.start_blocking_portal() as portal:
        portal.call(server.start, *arguments)


class Backend:
    """The example's backend in a process of its own."""

    def __init__(self, app: Path, server: Server):
        command = [sys.executable, "backend.py", "--port", "0"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, cwd=app, **pipes)
        self.process.stdin.write(json.dumps({"url": server.url, "tokens": server.tokens}) + "\n")
        self.process.stdin.close()
        said = self.process.stdout.readline()
        assert said, self.process.stderr.read()
        self.url = said.split()[-1]

    def close(self) -> str:
        """Stop it; returns what it complained of."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=20)
        self.process.stdout.close()
        with self.process.stderr as complaints:
            return complaints.read()


@pytest.fixture(scope="module")
def dev(app, tmp_path_factory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("chat-server") / "data")
    start(server)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def backend(app, dev) -> Iterator[Backend]:
    made = Backend(app, dev)
    yield made
    complaints = made.close()
    assert not TOKEN.search(complaints)
    assert "Traceback" not in complaints


class Chat:
    """Somebody's browser at the chat."""

    def __init__(self, context: "BrowserContext", url: str, who: str):
        self.context, self.url, self.who = context, url, who
        context.set_default_timeout(20_000)
        context.add_init_script(KEEP_WHAT_THE_PAGE_GETS)
        self.page: Page = context.new_page()
        self.problems: list[str] = []
        self.places: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._said)
        self.page.on("request", lambda asked: self.places.append(asked.headers.get("last-event-id", "")))

    def _said(self, message) -> None:
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.problems.append(message.text)

    def open(self, query: str = "") -> "Chat":
        """Open the page, and sign in where it asks."""
        self.page.goto(f"{self.url}/{query}")
        person = self.page.get_by_role("button", name=self.who, exact=True)
        person.click()
        expect(self.page.locator("#chat")).to_be_visible()
        return self

    def say(self, text: str) -> None:
        """Write a message, and send it with the keyboard."""
        expect(self.page.get_by_role("button", name="Send")).to_be_enabled()
        self.page.get_by_label("Message", exact=True).fill(text)
        self.page.keyboard.press("Enter")

    def shows(self, text: str) -> None:
        """Wait until an answer is there."""
        expect(self.page.locator("#log .assistant").last).to_have_text(text, timeout=20_000)

    @property
    def dialog(self):
        return self.page.get_by_role("dialog")

    def asked(self, title: str) -> None:
        """Wait for a dialog."""
        expect(self.dialog.get_by_role("heading")).to_have_text(title, timeout=20_000)

    def press(self, name: str) -> None:
        """Press a button of the dialog."""
        self.dialog.get_by_role("button", name=name).click()

    def seen(self) -> str:
        """All that the page has, or got."""
        kept = "[window.got, document.cookie, {...localStorage}, {...sessionStorage}, history.state, location.href]"
        return json.dumps([self.page.evaluate(kept), self.page.content(), self.context.cookies()])


@pytest.fixture
def chat(browser, backend) -> Iterator[Callable[..., Chat]]:
    """Open the chat as somebody: `chat("omar", "?agent=helper")`. No script may have failed, and none been refused."""
    made: list[Chat] = []

    def make(who: str, query: str = "", url: str = backend.url if backend else "") -> Chat:
        made.append(Chat(browser.new_context(), url, who))
        return made[-1].open(query)

    yield make
    problems = [problem for each in made for problem in each.problems]
    for each in made:
        each.context.close()
    assert problems == []


@pytest.mark.req("AGUI-52", "AGUI-47", "AGUI-12")
def test_the_page_streams_an_answer_and_never_sees_a_token(chat, backend, dev):
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token": dev.tokens["anna"],
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
    }
    key = {"Authorization": f"Bearer {dev.tokens['deskapp']}"}
    own = httpx.post(f"{dev.url}/oauth/token", data=form, headers=key, trust_env=False).json()["access_token"]
    assert TOKEN.fullmatch(own)  # what is looked for below is what tokens look like
    assert all(map(TOKEN.fullmatch, dev.tokens.values()))

    anna = chat("anna", "?agent=echo")
    anna.say("hello")
    anna.shows("[AI] hello")
    anna.say("and again")
    anna.shows("[AI] and again")
    seen = anna.seen()
    assert "RUN_FINISHED" in seen
    assert not TOKEN.search(seen)
    assert anna.page.evaluate("document.cookie") == ""
    (cookie,) = anna.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    for file in ("", "bundle.js", "style.css", "main.js", "session"):
        assert not TOKEN.search(httpx.get(f"{backend.url}/{file}", trust_env=False).text)


@pytest.mark.req("AGUI-52", "AGUI-30")
def test_an_approval_is_a_dialog_that_approves_or_denies(chat):
    omar = chat("omar", "?agent=helper")
    omar.say("greet them")
    omar.asked("Run team.greet?")
    expect(omar.dialog.locator("pre")).to_have_text('{\n  "channel": "#team"\n}')
    expect(omar.dialog).to_contain_text("Decided by operators and admins")
    omar.press("Approve")
    omar.shows("[AI] I greeted the team.")
    expect(omar.page.locator("#log .call")).to_contain_text("Greeted #team.")
    omar.say("once more")
    omar.asked("Run team.greet?")
    omar.dialog.get_by_label("Comment").fill("not on a Monday")
    omar.press("Deny")
    omar.shows("[AI] I did not greet the team.")
    expect(omar.page.locator("#log .call").last).to_contain_text("not on a Monday")


@pytest.mark.req("AGUI-52", "AGUI-30", "AGUI-36")
def test_a_call_whose_name_must_be_typed_says_what_is_wrong_and_asks_again(chat):
    omar = chat("omar", "?agent=typed")
    omar.say("remove sam")
    omar.asked("Run team.remove?")
    omar.dialog.get_by_label("Type it again to confirm").fill("max")
    omar.press("Approve")
    expect(omar.dialog.get_by_role("alert")).to_contain_text("type the value of 'name' to confirm")
    omar.dialog.get_by_label("Type it again to confirm").fill("sam")
    omar.press("Approve")
    omar.shows("[AI] I removed sam.")


@pytest.mark.req("AGUI-52", "AGUI-32")
def test_several_are_answered_one_after_the_other_and_together(chat):
    omar = chat("omar", "?agent=two_calls")
    omar.say("greet both")
    expect(omar.dialog).to_contain_text("1 of 2")
    omar.press("Approve")
    expect(omar.dialog).to_contain_text("2 of 2")
    omar.press("Deny")
    omar.shows("[AI] I greeted #design. I did not greet #support.")


@pytest.mark.req("AGUI-52", "AGUI-31")
def test_a_question_offers_its_choices_and_may_wait_with_the_keyboard_alone(chat):
    anna = chat("anna", "?agent=asker")
    anna.say("ask me")
    anna.asked("[AI] Which colour?")
    assert anna.dialog.get_by_role("radio").count() == 3
    anna.page.keyboard.press("Escape")
    expect(anna.dialog).to_be_hidden()
    expect(anna.page.get_by_role("button", name="Send")).to_be_disabled()
    anna.page.get_by_role("button", name="Answer").focus()
    anna.page.keyboard.press("Enter")
    anna.asked("[AI] Which colour?")
    anna.page.keyboard.press("Tab")
    anna.page.keyboard.press("ArrowDown")
    expect(anna.dialog.get_by_role("radio", name="green")).to_be_checked()
    anna.page.keyboard.press("Enter")
    anna.shows("[AI] You chose green.")


@pytest.mark.req("AGUI-52", "AGUI-15", "AGUI-16")
def test_steps_and_notes_stand_beside_the_answer(chat):
    anna = chat("anna", "?agent=planner")
    anna.say("plan it")
    anna.shows("[AI] The plan is done. I looked into the first half. I looked into the second half.")
    expect(anna.page.locator("#steps li")).to_contain_text(["Step 1: done", "Step 2: done"])
    notes = anna.page.locator("#board p")
    assert sorted(notes.all_text_contents()) == [
        "Both workers are done.",
        "Looked into the first half.",
        "Looked into the second half.",
    ]


@pytest.mark.req("AGUI-52", "AGUI-17")
def test_a_card_is_shown_as_a_card(chat):
    anna = chat("anna", "?agent=carder")
    anna.say("a birthday")
    card = anna.page.locator("#log .card")
    expect(card.get_by_role("heading")).to_have_text("A card")
    expect(card).to_contain_text("You wrote: a birthday")


@pytest.mark.req("AGUI-52", "AGUI-20")
def test_an_error_is_told_in_words_and_the_chat_goes_on(chat):
    anna = chat("anna", "?agent=crasher")
    anna.say("go")
    error = anna.page.locator("#error")
    expect(error).to_have_text("The agent failed: the demo's crasher always fails")
    anna.page.get_by_label("Agent").select_option("echo")
    expect(error).to_have_text("")
    anna.say("still here")
    anna.shows("[AI] still here")


@pytest.mark.req("AGUI-52", "AGUI-19", "AGUI-28", "AGUI-40")
def test_four_eyes_are_seen_by_both_people(chat, dev):
    omar = chat("omar", "?agent=pair")
    omar.say("announce it")
    expect(omar.page.locator("#waiting")).to_contain_text("team.announce waits for operators and admins, but not the person")
    expect(omar.dialog).to_be_hidden()
    ada = chat("ada", omar.page.url.removeprefix(omar.url + "/"))
    ada.asked("Run team.announce?")
    ada.press("Approve")
    for each in (ada, omar):
        each.shows("[AI] I made the announcement.")
        expect(each.page.locator("#waiting")).to_have_text("")
    headers = {"Authorization": f"Bearer {dev.tokens['ada']}"}
    listed = httpx.post(f"{dev.url}/v1/operations/ListAudit", json={}, headers=headers, trust_env=False).json()["entries"]
    made = {(each["action"], each["caller"], each["via"]) for each in listed}
    assert {("run.start", "person:omar", "app:deskapp"), ("approval.decide", "person:ada", "app:deskapp")} <= made


@pytest.mark.req("AGUI-52", "AGUI-27", "AGUI-47")
def test_a_page_loaded_afresh_goes_on_by_the_threads_id(chat):
    omar = chat("omar", "?agent=helper")
    omar.say("greet them")
    omar.asked("Run team.greet?")
    omar.page.reload()
    omar.asked("Run team.greet?")
    expect(omar.page.locator("#log .user")).to_have_text("greet them")
    omar.press("Approve")
    omar.shows("[AI] I greeted the team.")
    omar.page.reload()
    omar.shows("[AI] I greeted the team.")
    omar.say("again")
    omar.asked("Run team.greet?")
    omar.press("Deny")
    omar.shows("[AI] I did not greet the team.")
    assert omar.page.locator("#log .user").all_text_contents() == ["greet them", "again"]


@pytest.mark.req("AGUI-52")
def test_what_anybody_writes_is_text_and_never_markup(chat):
    anna = chat("anna", "?agent=echo")
    markup = "<img src=x onerror=\"document.title='broken in'\"><script>document.title='broken in'</script>"
    anna.say(markup)
    anna.shows(f"[AI] {markup}")
    assert anna.page.locator("#log img, #log script").count() == 0
    assert anna.page.title() == "Chat"
    with pytest.raises(Exception, match="TrustedHTML"):
        anna.page.evaluate("document.body.innerHTML = '<b>x</b>'")
    assert "TrustedHTML" in anna.problems.pop()


@pytest.mark.req("AGUI-52")
def test_who_is_signed_out_is_asked_to_sign_in(chat):
    anna = chat("anna", "?agent=echo")
    anna.context.clear_cookies()
    anna.say("hello?")
    expect(anna.page.get_by_role("heading", name="Chat")).to_be_visible()
    expect(anna.page.locator("#sign-in-error")).to_have_text("You are not signed in any more. Sign in again.")
    assert "HTTP 401" in anna.problems.pop()  # the client's own word for it
    anna.page.get_by_role("button", name="anna").click()
    anna.say("hello!")
    anna.shows("[AI] hello!")
    anna.page.get_by_role("button", name="Sign out").click()
    expect(anna.page.get_by_role("button", name="omar")).to_be_visible()
    assert anna.page.evaluate("fetch('/agents').then((answer) => answer.status)") == 401


@pytest.mark.req("AGUI-52", "AGUI-24")
def test_a_chat_goes_on_after_its_last_event_when_the_server_was_killed(app, browser, chat, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    server = Server(tmp_path / "data")
    start(server, "--port", port)
    own = Backend(app, server)
    try:
        anna = chat("anna", "?agent=helper", url=own.url)
        anna.say("greet them")
        expect(anna.page.locator("#waiting")).to_contain_text("operators and admins")
        server.kill()
        expect(anna.page.locator("#error")).to_contain_text("broke off")
        start(server, "--port", port)
        expect(anna.page.locator("#error")).to_have_text("", timeout=20_000)
        omar = chat("omar", anna.page.url.removeprefix(anna.url + "/"), url=own.url)
        expect(omar.page.locator("#error")).to_contain_text("somebody else's")
        assert "HTTP 403" in omar.problems.pop()
        operator = {"Authorization": f"Bearer {server.tokens['omar']}"}
        with httpx.Client(base_url=server.url, headers=operator, trust_env=False) as http:
            (wait,) = http.get("/v1/approvals").json()["approvals"]
            assert http.post(f"/v1/approvals/{wait['id']}/approve", json={}).status_code == 200
        anna.shows("[AI] I greeted the team.")
        assert [place for place in anna.places if re.fullmatch(r"\d+\.\d+", place)]
        assert anna.page.locator("#log .user, #log .call, #log .assistant").count() == 3
    finally:
        own.close()
        server.stop()
