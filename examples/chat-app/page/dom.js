// Elements without markup: whatever an agent, a model or another person wrote becomes text and nothing else.

export const $ = (id) => document.getElementById(id);

/** An element. `properties` are set as they are; children are elements or text. */
export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** Set an element's text, only when it is another: what a reader has selected stays selected. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** JSON for people. */
export const pretty = (value) => JSON.stringify(value, null, 2);

/** What a text of JSON says for people; the text itself when it is none. */
export function prettyText(text) {
  try {
    return pretty(JSON.parse(text));
  } catch {
    return text;
  }
}
