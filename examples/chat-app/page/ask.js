// Dialogs for what waits: each is made of what its interrupt's `responseSchema` asks for.
import { element, pretty } from "./dom.js";

/**
 * Ask for all of them, one after the other. Resolves to the entries of a resume, or to null when it is left for later.
 * `why`: what was wrong when they were asked before.
 */
export async function askAll(dialog, interrupts, why = "") {
  const entries = [];
  for (const [index, interrupt] of interrupts.entries()) {
    const place = interrupts.length > 1 ? `${index + 1} of ${interrupts.length}` : "";
    const entry = await ask(dialog, interrupt, place, why);
    if (!entry) return null;
    entries.push(entry);
  }
  return entries;
}

function ask(dialog, interrupt, place, why) {
  const { id, responseSchema: schema = {} } = interrupt;
  const over = interrupt.expiresAt && new Date(interrupt.expiresAt) < new Date();
  const inputs = over ? [] : fieldsOf(interrupt);
  const form = element("form", { method: "dialog" }, ...head(interrupt, place, over), ...inputs.map((each) => each.node));
  if (why) form.prepend(element("p", { className: "bad", role: "alert" }, why));
  form.append(element("div", { className: "buttons" }, ...buttons(schema, inputs.length > 0, over)));
  dialog.replaceChildren(form);
  dialog.returnValue = "";
  dialog.showModal();
  form.querySelector("h2").focus();
  return new Promise((done) => {
    dialog.addEventListener("close", () => {
      done(entryOf(dialog.returnValue, id, inputs));
      dialog.replaceChildren();
    }, { once: true });
  });
}

function head({ reason, message, metadata = {}, expiresAt }, place, over) {
  const details = metadata["oz0/details"];
  const link = webLink(metadata["oz0/console"]);
  const kind = reason === "input_required" ? "Question" : "Decision";
  return [
    element("p", { className: "kind" }, [kind, place].filter(Boolean).join(" · ")),
    element("h2", { id: "ask-title", tabIndex: -1 }, message || `${metadata["oz0/what"]} waits for you`),
    ...(details === undefined || reason === "input_required" ? [] : [element("pre", {}, pretty(details))]),
    element("p", { className: "quiet" }, over
      ? "Its time is over: it can no longer be answered."
      : `Decided by ${metadata["oz0/deciders"]}${expiresAt ? `, until ${new Date(expiresAt).toLocaleString()}` : ""}. `,
    ...(link ? [link] : [])),
  ];
}

/** A link of the server's to its console; only one to a web page becomes a link. */
export function webLink(link) {
  if (!link || !/^https?:$/.test(URL.parse(link.url)?.protocol ?? "")) return null;
  return element("a", { href: link.url, target: "_blank", rel: "noopener noreferrer" }, link.label);
}

function buttons(schema, hasFields, over) {
  if (over) return [button("Close", "cancel", "main")];
  const later = button("Later", "later");
  if (schema.properties?.approved) return [button("Approve", "approve", "main"), button("Deny", "deny", "bad"), later];
  return [button(hasFields ? "Answer" : "Go on", "answer", "main"), button("Decline", "cancel", "bad"), later];
}

function button(text, value, className = "") {
  return element("button", { value, className, formNoValidate: value !== "approve" && value !== "answer" }, text);
}

function entryOf(chosen, interruptId, inputs) {
  if (!["approve", "deny", "answer", "cancel"].includes(chosen)) return null; // later, or closed with Escape
  if (chosen === "cancel") return { interruptId, status: "cancelled" };
  const payload = chosen === "answer" ? {} : { approved: chosen === "approve" };
  for (const { name, read } of inputs) {
    const value = read();
    const changed = name !== "editedArgs" || chosen === "approve";
    if (value !== undefined && changed) payload[name] = value;
  }
  return { interruptId, status: "resolved", payload };
}

const LABELS = { comment: "Comment", answer: "Answer", editedArgs: "Arguments, to change them" };

function fieldsOf({ responseSchema: schema = {}, metadata = {} }) {
  const required = new Set(schema.required);
  return Object.entries(schema.properties ?? {})
    .filter(([name]) => name !== "approved")
    .map(([name, field]) => {
      const details = metadata["oz0/details"];
      const label = name === "confirm" ? "Type it again to confirm" : LABELS[name] ?? field.title ?? name;
      const asked = required.has(name) || name === "confirm";
      return { name, ...fieldOf(name, field, label, asked, name === "editedArgs" ? details : undefined) };
    });
}

/** One field: its node, and what reads its value (undefined when it is left out). */
function fieldOf(name, field, label, required, value) {
  if (field.enum) return choice(name, field.enum, label, required, "radio");
  if (field.type === "array" && field.items?.enum) return choice(name, field.items.enum, label, false, "checkbox");
  if (field.type === "boolean") {
    const input = element("input", { name, type: "checkbox", checked: field.default === true });
    return { node: element("label", { className: "check" }, input, label), read: () => input.checked };
  }
  if (!["string", "integer", "number"].includes(field.type)) return json(name, label, required, value);
  return line(name, field, label, required);
}

function choice(name, values, label, required, type) {
  const inputs = values.map((value) => element("input", { type, name, value: String(value), required: required && type === "radio" }));
  const rows = inputs.map((input) => element("label", { className: "check" }, input, input.value));
  const read = () => {
    const chosen = values.filter((_, index) => inputs[index].checked);
    return type === "radio" ? chosen[0] : chosen;
  };
  return { node: element("fieldset", {}, element("legend", {}, label), ...rows), read };
}

function line(name, field, label, required) {
  const numeric = field.type !== "string";
  const types = { email: "email", uri: "url", date: "date" };
  const input = name === "comment" || (name === "answer" && !field.format && !numeric)
    ? element("textarea", { name, rows: 2, required })
    : element("input", { name, required, type: numeric ? "number" : types[field.format] ?? "text", autocomplete: "off" });
  if (numeric) input.step = field.type === "integer" ? "1" : "any";
  const node = element("label", {}, label, input, ...(field.description ? [element("small", {}, field.description)] : []));
  return { node, read: () => (input.value === "" ? undefined : numeric ? Number(input.value) : input.value) };
}

function json(name, label, required, value) {
  const input = element("textarea", { name, rows: 5, required, value: value === undefined ? "" : pretty(value) });
  const given = input.value;
  const check = () => {
    try {
      if (input.value) JSON.parse(input.value);
      input.setCustomValidity("");
    } catch {
      input.setCustomValidity("This is not valid JSON.");
    }
  };
  input.addEventListener("input", check);
  return { node: element("label", {}, label, input), read: () => (input.value === given ? undefined : JSON.parse(input.value)) };
}
