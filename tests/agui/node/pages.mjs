// Pages with the stock client, told what to do by lines of JSON: each is answered by one line.
import { createInterface } from "node:readline";

const { HttpAgent } = await import(process.env.AGUI_CLIENT ?? "@ag-ui/client");

const pages = new Map();
let warnings = [];
for (const level of ["warn", "error", "log", "info", "debug"]) console[level] = (...said) => warnings.push(said.join(" "));
process.on("unhandledRejection", (error) => warnings.push(`unhandled: ${error}`));

const seen = (page) => ({
  messages: page.agent.messages,
  state: page.agent.state,
  interrupts: page.agent.pendingInterrupts,
  events: page.events,
});

async function run(page, parameters) {
  page.events = [];
  let told = {};
  const subscriber = {
    onEvent: ({ event }) => { page.events.push(event); },
    onRunErrorEvent: ({ event }) => { told.error = event; },
    onRunFailed: ({ error }) => { told.failed = String(error); },
  };
  try {
    told.result = await page.agent.runAgent(parameters, subscriber);
  } catch (error) {
    told.thrown = String(error);
    told.status = error.status;
    told.payload = error.payload;
  }
  return { ...told, ...seen(page) };
}

const commands = {
  open({ page, url, token, thread, messages, state }) {
    const agent = new HttpAgent({
      url, threadId: thread, headers: { Authorization: `Bearer ${token}` }, initialMessages: messages, initialState: state,
    });
    pages.set(page, { agent, events: [] });
    return {};
  },
  async say({ page, text, id }) {
    const to = pages.get(page);
    to.agent.addMessage({ id: id ?? crypto.randomUUID(), role: "user", content: text });
    return run(to, {});
  },
  run: ({ page, ...parameters }) => run(pages.get(page), parameters),
  see: ({ page }) => seen(pages.get(page)),
  goto({ page, url }) { pages.get(page).agent.url = url; return {}; },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { number, command, ...rest } = JSON.parse(line);
  Promise.resolve(commands[command](rest)).then(
    (answer) => process.stdout.write(JSON.stringify({ number, ...answer, warnings: warnings.splice(0) }) + "\n"),
    (error) => process.stdout.write(JSON.stringify({ number, broken: String(error.stack) }) + "\n"),
  );
}
