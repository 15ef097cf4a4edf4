// Drives the chat in Chromium, told what to do by lines of JSON; keeps all that the page got and sent.
import { createInterface } from "node:readline";
import chromium from "@sparticuz/chromium";
import puppeteer from "puppeteer-core";

const browser = await puppeteer.launch({
  args: ["--no-sandbox", "--disable-gpu"], executablePath: await chromium.executablePath(), headless: "shell",
});
const page = await browser.newPage();
const problems = [], seen = [];
page.on("console", (message) => { if (["error", "warn"].includes(message.type())) problems.push(message.text()); });
page.on("pageerror", (error) => problems.push(String(error)));
page.on("request", (request) => seen.push(JSON.stringify([request.url(), request.headers(), request.postData()])));
page.on("response", async (answer) => {
  seen.push(JSON.stringify(answer.headers()));
  seen.push(await answer.text().catch(() => ""));
});

const texts = (selector) => page.$$eval(selector, (found) => found.map((each) => each.textContent));
const commands = {
  goto: ({ url }) => page.goto(url),
  reload: () => page.reload(),
  async say({ text }) {
    await page.type("#text", text);
    await page.click("#write button");
  },
  asked: async () => {
    await page.waitForSelector("dialog[open]", { timeout: 20_000 });
    return { title: (await texts("dialog h2"))[0], details: (await texts("dialog pre"))[0] };
  },
  async fill({ name, value }) {
    const field = await page.$(`dialog [name="${name}"]`);
    if ((await field.evaluate((each) => each.tagName)) === "SELECT") await field.select(value);
    else await field.type(value);
  },
  press: ({ button }) => page.click(`dialog button[value="${button}"]`),
  async shows({ text }) {
    await page.waitForFunction((wanted) => document.body.innerText.includes(wanted), { timeout: 20_000 }, text);
    return { messages: await texts("#messages li"), board: await texts("#board li"), told: (await texts("#told"))[0] };
  },
  async end() {
    await page.close();
    return { problems, seen: seen.join("\n") };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...rest } = JSON.parse(line);
  const answer = await Promise.resolve(commands[command](rest)).catch(async (error) => ({ broken: String(error), problems, text: await page.evaluate(() => document.body.innerText) }));
  const told = answer && !answer.request ? answer : {};
  process.stdout.write(JSON.stringify(told) + "\n");
  if (command === "end") break;
}
await browser.close();
process.exit(0);
