// The page: the stock AG-UI client, and this page's own words and dialogs. It has a cookie that it cannot read, and no token.
import "./no-eval.js";
import { HttpAgent } from "@ag-ui/client";

import { askAll, webLink } from "./ask.js";
import { $, element } from "./dom.js";
import { steadyFetch } from "./reconnect.js";
import { Log, Steps, showBoard } from "./view.js";

const log = new Log();
const steps = new Steps();
const OVER = ["failed", "timed_out", "cancelled", "revoked"];
const WORDS = {
  failed: "The agent failed: ",
  timed_out: "The agent took too long: ",
  history_mismatch: "This chat went on elsewhere. It is up to date now: send your message again. ",
};
let agent = null;
let refused = null; // the error that the latest run ended with

// -- the backend

async function ask(method, path, body) {
  const headers = body && { "Content-Type": "application/json" };
  const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) }).catch(() => null);
  if (!answer) throw new Error("The chat's server cannot be reached.");
  const value = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw Object.assign(new Error(value.message), { status: answer.status });
  return value;
}

// -- a run

const subscriber = {
  onMessagesChanged: ({ messages }) => log.show(messages),
  onStateChanged: ({ state }) => showBoard(state.board?.notes),
  onStepStartedEvent: ({ event }) => steps.set(event.stepName, "running"),
  onStepFinishedEvent: ({ event }) => steps.set(event.stepName, "done"),
  onTextMessageStartEvent: () => tellWaiting([]),
  onToolCallResultEvent: () => tellWaiting([]),
  onCustomEvent({ event: { name, value }, messages }) {
    if (name === "oz0.card") log.addCard(value, messages);
    if (name === "oz0.waiting") tellWaiting(value.waiting);
  },
  onRunFinishedEvent: ({ event }) => tellWaiting(event.metadata?.["oz0/waiting-for-others"] ?? []),
  onRunErrorEvent({ event }) {
    refused = event;
    tellWaiting([]);
    const waiting = event.rawEvent?.oz0?.interrupts; // what waits for us, told to a page that did not know
    if (waiting) agent.pendingInterrupts = waiting;
  },
};

/** One run. Says whether it came to an end; how it ended is told. */
async function run(parameters = {}) {
  const mine = agent;
  refused = null;
  tell("");
  setBusy(true);
  try {
    await mine.runAgent(parameters, subscriber);
    if (mine === agent && refused) tell((WORDS[refused.code] ?? "") + (refused.code === "history_mismatch" ? "" : refused.message));
    return mine === agent;
  } catch (error) {
    if (mine !== agent) return false; // another chat was opened meanwhile
    tell(error.payload?.message ?? (error instanceof TypeError ? "The chat's server cannot be reached." : error.message));
    if (error.status === 401) await showSignIn();
    return false;
  } finally {
    if (mine === agent) setBusy(false);
  }
}

/** Follow the thread's latest turn from its start. A page without the thread's messages is sent them first. */
async function follow() {
  agent.pendingInterrupts = [];
  let came = await run();
  if (came && refused?.code === "history_mismatch") {
    tell("");
    if (agent.messages.length === 0) return; // nobody wrote here yet
    came = await run();
  }
  if (came) await answer();
}

/** Answer what waits for us, all of it at once, until nothing does. */
async function answer() {
  const mine = agent;
  let why = ""; // what was wrong with the answers before
  while (mine === agent && agent.pendingInterrupts.length > 0) {
    const resume = await askAll($("ask"), agent.pendingInterrupts, why);
    if (!resume || mine !== agent || !await run({ resume })) break;
    if (refused && OVER.includes(refused.code)) agent.pendingInterrupts = [];
    else if (refused) { // nothing was decided: see how it stands, then ask again
      why = $("error").textContent;
      agent.pendingInterrupts = [];
      if (!await run()) break;
    }
  }
  if (mine === agent) setBusy(false);
}

async function send() {
  const content = $("text").value.trim();
  if (!content || agent.isRunning || agent.pendingInterrupts.length > 0) return;
  const id = crypto.randomUUID();
  $("text").value = "";
  steps.clear();
  setAddress(agent.threadId);
  agent.addMessage({ id, role: "user", content });
  log.show(agent.messages);
  const mine = agent;
  const came = await run();
  if (mine !== agent) return;
  if (!came || refused?.code === "history_mismatch") { // it did not get there
    agent.setMessages(agent.messages.filter((each) => each.id !== id));
    log.show(agent.messages);
    $("text").value ||= content;
    return;
  }
  await answer();
}

// -- what is told

const tell = (words) => { $("error").textContent = words; };

/** Tell of what others decide. */
function tellWaiting(waiting) {
  const parts = waiting.flatMap(({ what, who, console }) => {
    const link = webLink(console);
    return [element("span", {}, `${what} waits for ${who}. `), ...(link ? [link] : [])];
  });
  $("waiting").replaceChildren(...parts);
}

function setBusy(busy) {
  const pending = !busy && agent.pendingInterrupts.length > 0;
  $("pending").hidden = !pending;
  $("send").disabled = busy || pending;
  $("log").ariaBusy = String(busy);
  $("chat").classList.toggle("busy", busy);
}

// -- which chat

const parameters = () => new URLSearchParams(location.search);

function setAddress(thread) {
  const query = new URLSearchParams({ agent: $("agent").value, ...(thread && { thread }) });
  history.replaceState(null, "", `?${query}`);
}

/** Open a thread, or begin a new one when none is named. */
async function open(thread) {
  agent?.abortRun();
  if ($("ask").open) $("ask").close("later");
  agent = new HttpAgent({
    url: `/agents/${$("agent").value}`,
    threadId: thread ?? crypto.randomUUID(),
    fetch: steadyFetch((broken) => tell(broken ? "The connection broke off; it is being made again." : "")),
  });
  log.clear();
  steps.clear();
  showBoard();
  tell("");
  tellWaiting([]);
  setAddress(thread);
  setBusy(false);
  $("text").focus();
  if (thread) await follow();
}

// -- who

async function showSignIn() {
  const { people } = await ask("GET", "/session");
  $("people").replaceChildren(...people.map((person) => {
    const button = element("button", { type: "button", className: "main" }, person);
    button.addEventListener("click", () => signIn(person));
    return element("li", {}, button);
  }));
  $("sign-in-error").textContent = $("error").textContent;
  $("chat").hidden = true;
  $("sign-in").hidden = false;
  $("people").querySelector("button").focus();
}

async function signIn(person) {
  try {
    await ask("POST", "/session", { person });
    await showChat(person);
  } catch (error) {
    $("sign-in-error").textContent = error.message;
  }
}

async function showChat(person) {
  const { agents } = await ask("GET", "/agents");
  const wanted = parameters().get("agent") ?? "echo";
  $("agent").replaceChildren(...agents.map(({ name, title, description }) =>
    element("option", { value: name, title: description ?? "", selected: name === wanted }, title || name)));
  $("person").textContent = person;
  $("sign-in").hidden = true;
  $("chat").hidden = false;
  await open(parameters().get("thread") ?? undefined);
}

// -- what people do

$("write").addEventListener("submit", (event) => { event.preventDefault(); send(); });
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
});
$("decide").addEventListener("click", answer);
$("new").addEventListener("click", () => open());
$("agent").addEventListener("change", () => open());
$("sign-out").addEventListener("click", async () => {
  agent?.abortRun();
  await ask("DELETE", "/session").catch((error) => tell(error.message));
  location.assign("/");
});

const { person } = await ask("GET", "/session");
await (person ? showChat(person) : showSignIn());
