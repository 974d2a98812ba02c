/** Builds elements. Text is always text: nothing here, or anywhere on these pages, parses markup. */

let last = 0;

/** An id that no other element of the page has. */
export function unique(prefix) {
  last += 1;
  return `${prefix}-${last}`;
}

/** The id of a new message. Works on plain http too, where browsers have no `randomUUID`. */
export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** `el("p", {class: "who"}, "You")`. `on…` are listeners; `null`, `undefined` and `false` are left out. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (name === "value") made.value = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

export function byId(id) {
  return document.getElementById(id);
}

/** `affected_users` as people would write it. */
export function inWords(name) {
  const words = String(name).replaceAll("_", " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/**
 * An address that a link may lead to, else `null`: a page, and nothing that runs here or starts a program. That may be
 * by plain http, as pages in house often are: a link loads nothing until it is pressed, in a tab of its own.
 */
export function webUrl(given) {
  try {
    const url = new URL(String(given));
    return /^https?:$/.test(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}
