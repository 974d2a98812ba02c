/** The parts of an adaptive card that only show something. What is not known shows its fallback, or nothing. */

import { el, httpsUrl } from "./dom.js";

const MAX_DEPTH = 9;
const SIZES = new Set(["small", "default", "medium", "large", "extralarge"]);
const STYLES = new Set(["emphasis", "good", "attention", "warning", "accent"]);

/** `make(part)` makes what is not in this file: inputs and sets of actions; `null` for what it does not know either. */
export function showPart(part, make, depth = 0) {
  if (part === null || typeof part !== "object" || depth > MAX_DEPTH || part.isVisible === false) return null;
  const inner = (parts) => shown(parts, make, depth + 1);
  switch (part.type) {
    case "TextBlock":
      return textBlock(part);
    case "RichTextBlock":
      return el("p", { class: "text" }, (Array.isArray(part.inlines) ? part.inlines : []).map(run));
    case "Image":
      return image(part);
    case "FactSet":
      return factSet(part);
    case "Container":
      return el("div", { class: `container ${oneOf(STYLES, part.style, "")}` }, inner(part.items));
    case "ColumnSet":
      return el("div", { class: "columns" }, columns(part, inner));
    default:
      return make(part) ?? (typeof part.fallback === "object" ? showPart(part.fallback, make, depth + 1) : null);
  }
}

export function shown(parts, make, depth = 0) {
  return (Array.isArray(parts) ? parts : []).map((part) => showPart(part, make, depth)).filter(Boolean);
}

export function objects(listed) {
  return (Array.isArray(listed) ? listed : []).filter((one) => one !== null && typeof one === "object");
}

function oneOf(known, value, otherwise) {
  const name = String(value ?? "").toLowerCase();
  return known.has(name) ? name : otherwise;
}

function isStrong(part) {
  return String(part.weight).toLowerCase() === "bolder";
}

function textBlock(part) {
  const size = oneOf(SIZES, part.size, "default");
  const isHeading = part.style === "heading" || (isStrong(part) && size !== "default" && size !== "small");
  const names = ["text", `size-${size}`, isStrong(part) && "strong", part.isSubtle && "quiet"];
  return el(isHeading ? "h3" : "p", { class: names.filter(Boolean).join(" ") }, String(part.text ?? ""));
}

function run(inline) {
  if (typeof inline === "string") return inline;
  if (inline === null || typeof inline !== "object") return null;
  let made = el("span", {}, String(inline.text ?? ""));
  if (isStrong(inline)) made = el("b", {}, made);
  if (inline.italic) made = el("i", {}, made);
  if (inline.underline) made = el("u", {}, made);
  if (inline.strikethrough) made = el("s", {}, made);
  if (inline.highlight) made = el("mark", {}, made);
  return made;
}

/** Shows pictures that come with the card or from this server; of any other, only its alternative text. */
function image(part) {
  const words = String(part.altText ?? "");
  const url = String(part.url ?? "");
  const isOwn = /^data:image\/(png|jpeg|gif|webp|svg\+xml)[;,]/i.test(url) || isOfThisServer(url);
  if (!isOwn) return words ? el("p", { class: "text quiet" }, words) : null;
  return el("img", { class: `size-${oneOf(SIZES, part.size, "default")}`, src: url, alt: words, loading: "lazy" });
}

function isOfThisServer(url) {
  try {
    const found = new URL(url, location.href);
    return found.origin === location.origin && /^https?:$/.test(found.protocol);
  } catch {
    return false;
  }
}

function factSet(part) {
  const pairs = objects(part.facts).map((fact) =>
    el("div", {}, el("dt", {}, String(fact.title ?? "")), el("dd", {}, String(fact.value ?? ""))),
  );
  return el("dl", { class: "facts" }, pairs);
}

function columns(part, inner) {
  return objects(part.columns).map((column) => {
    const made = el("div", { class: `column ${oneOf(STYLES, column.style, "")}` }, inner(column.items));
    const weight = Number(column.width);
    if (weight > 0 && weight <= 1000) made.style.flexGrow = String(weight);
    else if (column.width === "auto") made.classList.add("narrow");
    return made;
  });
}

export function openUrl(action) {
  const url = httpsUrl(action.url);
  if (url === null) return null;
  const leads = { href: url, target: "_blank", rel: "noopener noreferrer" };
  return el("a", { class: "button quiet-button", ...leads }, String(action.title || url));
}
