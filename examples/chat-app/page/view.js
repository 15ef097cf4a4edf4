// What the page shows of a thread: messages with their calls, cards, steps and the board.
import { $, element, prettyText, setText } from "./dom.js";

/** The messages, and the cards between them. Nodes are kept by message: only what changed is touched. */
export class Log {
  #list = $("log");
  #nodes = new Map();
  #cards = new Map();

  clear() {
    this.#nodes.clear();
    this.#cards.clear();
    this.#list.replaceChildren();
  }

  /** Keep a card: it stands after the newest message. */
  addCard({ job, card }, messages) {
    this.#cards.set(job, { after: messages.at(-1)?.id, node: element("li", { className: "card" }, valueOf(card)) });
    this.show(messages);
  }

  show(messages) {
    const results = new Map(messages.filter((each) => each.role === "tool").map((each) => [each.toolCallId, each.content]));
    const shown = messages.flatMap((message) => [...this.#message(message, results), ...this.#cardsAfter(message.id)]);
    const known = new Set(messages.map((each) => each.id));
    for (const { after, node } of this.#cards.values()) if (!known.has(after)) shown.push(node);
    const atEnd = this.#list.scrollHeight - this.#list.scrollTop - this.#list.clientHeight < 60;
    shown.forEach((node, index) => {
      if (this.#list.children[index] !== node) this.#list.insertBefore(node, this.#list.children[index] ?? null);
    });
    while (this.#list.children.length > shown.length) this.#list.lastChild.remove();
    if (atEnd) this.#list.scrollTop = this.#list.scrollHeight;
  }

  #cardsAfter(id) {
    return [...this.#cards.values()].filter((each) => each.after === id).map((each) => each.node);
  }

  #message({ id, role, content, toolCalls = [] }, results) {
    const nodes = [];
    if (role !== "tool" && content) {
      const node = this.#node(id, () => element("li", { className: role === "user" ? "user" : "assistant" }));
      setText(node, typeof content === "string" ? content : content.map((part) => part.text ?? "").join("\n"));
      nodes.push(node);
    }
    for (const call of toolCalls) nodes.push(this.#call(call, results.get(call.id)));
    return nodes;
  }

  #call({ id, function: { name, arguments: given } }, result) {
    const node = this.#node(`call ${id}`, () => element("li", { className: "call" }, element("details", {},
      element("summary", {}, element("code"), " ", element("span")), element("pre"), element("pre"))));
    const [called, answered] = node.querySelectorAll("pre");
    setText(node.querySelector("code"), name);
    setText(node.querySelector("span"), result === undefined ? "called" : "answered");
    setText(called, prettyText(given));
    answered.hidden = result === undefined;
    setText(answered, result === undefined ? "" : prettyText(String(result)));
    return node;
  }

  #node(key, make) {
    if (!this.#nodes.has(key)) this.#nodes.set(key, make());
    return this.#nodes.get(key);
  }
}

/** A card's value as text, lists and terms. */
function valueOf(value) {
  if (Array.isArray(value)) return element("ul", {}, ...value.map((each) => element("li", {}, valueOf(each))));
  if (value === null || typeof value !== "object") return String(value ?? "–");
  const { title, ...rest } = value;
  const terms = Object.entries(rest).flatMap(([name, each]) => [element("dt", {}, name), element("dd", {}, valueOf(each))]);
  return element("div", {}, ...(title === undefined ? [] : [element("h3", {}, String(title))]), element("dl", {}, ...terms));
}

/** The jobs that this turn delegated to. */
export class Steps {
  #states = new Map();

  set(name, state) {
    this.#states.set(name, state);
    this.#show();
  }

  clear() {
    this.#states.clear();
    this.#show();
  }

  #show() {
    const rows = [...this.#states].map(([name, state], index) =>
      element("li", { className: state }, `Step ${index + 1}: ${state}`, element("small", {}, name)));
    $("steps").replaceChildren(...rows);
    $("steps-part").hidden = rows.length === 0;
    showAside();
  }
}

export function showBoard(notes = []) {
  const rows = notes.map((note) => element("li", {},
    element("span", { className: "kind" }, `${note.kind} · ${note.agent}`),
    element("p", {}, note.redacted ? `Not for you to read (${note.label})` : note.text),
    ...(note.tags ?? []).map((tag) => element("span", { className: "tag" }, tag))));
  $("board").replaceChildren(...rows);
  $("board-part").hidden = rows.length === 0;
  showAside();
}

function showAside() {
  $("aside").hidden = $("steps-part").hidden && $("board-part").hidden;
}
