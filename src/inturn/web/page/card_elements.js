/**
 * The parts of an adaptive card that show something. A part that is not known, or that needs what this page has not,
 * shows its fallback; if it has none, the part around it shows its own.
 */

import { el, webUrl } from "./dom.js";

/** More than the server lets through. */
const MAX_DEPTH = 24;
const SIZES = new Set(["small", "default", "medium", "large", "extralarge", "stretch"]);
const STYLES = new Set(["emphasis", "good", "attention", "warning", "accent"]);

/** What a card may require: the version of the schema up to which everything is shown. */
const FEATURES = new Map([["adaptivecards", [1, 6]]]);

/** `scope` makes what is not in this file, inputs and actions, and remembers what was made. */
export function showPart(part, scope, depth = 0) {
  if (part === null || typeof part !== "object") return null;
  if (depth > MAX_DEPTH || !isMet(part.requires)) return showFallback(part, scope, depth);
  const before = scope.mark();
  const made = makePart(part, scope, depth);
  const shown = made !== undefined && part.selectAction ? scope.select(made, part.selectAction) : made;
  if (shown === undefined || (scope.hasLostSince(before) && part.fallback !== undefined)) {
    scope.backTo(before);
    return showFallback(part, scope, depth);
  }
  if (shown === null) return null;
  scope.remember(part, shown);
  return shown;
}

export function showParts(parts, scope, depth = 0) {
  return (Array.isArray(parts) ? parts : []).map((part) => showPart(part, scope, depth)).filter(Boolean);
}

/** What to show of a part, or to offer for an action, that cannot be itself: `show` shows it. */
export function fallbackOf(part, scope, show) {
  if (part.fallback !== null && typeof part.fallback === "object") return show(part.fallback);
  if (!isCalled(part.fallback, "drop")) scope.lose();
  return null;
}

function showFallback(part, scope, depth) {
  if (depth > MAX_DEPTH) return fallbackOf({}, scope);
  return fallbackOf(part, scope, (other) => showPart(other, scope, depth + 1));
}

export function isMet(required) {
  if (required === null || typeof required !== "object") return true;
  return Object.entries(required).every(([name, least]) => {
    const has = FEATURES.get(name.toLowerCase());
    if (has === undefined) return false;
    const [major, minor] = String(least).split(".").map((number) => Number.parseInt(number, 10) || 0);
    return String(least) === "*" || has[0] > major || (has[0] === major && has[1] >= (minor ?? 0));
  });
}

export function objects(listed) {
  return (Array.isArray(listed) ? listed : []).filter((one) => one !== null && typeof one === "object");
}

/** `undefined` for a part that is not known, `null` for one that has nothing to show. */
function makePart(part, scope, depth) {
  const inner = (parts) => showParts(parts, scope, depth + 1);
  switch (part.type) {
    case "TextBlock":
      return textBlock(part);
    case "RichTextBlock":
      return richText(part, scope);
    case "Image":
      return image(part);
    case "ImageSet":
      return imageSet(part, scope, depth);
    case "Media":
      return media(part);
    case "FactSet":
      return factSet(part);
    case "Container":
    case "Column":
    case "CarouselPage":
      return el("div", { class: `container ${styleOf(part)}` }, inner(part.items));
    case "ColumnSet":
      return el("div", { class: `columns ${styleOf(part)}` }, columns(part, scope, depth));
    case "Carousel":
      return el("div", { class: "container" }, inner(typed(part.pages, "CarouselPage")));
    case "Table":
      return table(part, scope, depth);
    default:
      return scope.make(part);
  }
}

/** The schema lets names such as `none` be written in any case. */
export function isCalled(value, name) {
  return String(value).toLowerCase() === name;
}

function oneOf(known, value, otherwise) {
  const name = String(value ?? "").toLowerCase();
  return known.has(name) ? name : otherwise;
}

function styleOf(part) {
  return oneOf(STYLES, part.style, "");
}

/** In some lists of the schema parts need not tell their type. */
function typed(parts, type) {
  return objects(parts).map((part) => ({ type, ...part }));
}

function isStrong(part) {
  return isCalled(part.weight, "bolder");
}

function textBlock(part) {
  const size = oneOf(SIZES, part.size, "default");
  const isHeading = isCalled(part.style, "heading") || (isStrong(part) && size !== "default" && size !== "small");
  const names = ["text", `size-${size}`, isStrong(part) && "strong", part.isSubtle && "quiet"];
  return el(isHeading ? "h3" : "p", { class: names.filter(Boolean).join(" ") }, String(part.text ?? ""));
}

function richText(part, scope) {
  const inlines = Array.isArray(part.inlines) ? part.inlines : [];
  return el("p", { class: "text" }, inlines.map((inline) => run(inline, scope)));
}

function run(inline, scope) {
  if (typeof inline === "string") return inline;
  if (inline === null || typeof inline !== "object") return null;
  let made = el("span", {}, String(inline.text ?? ""));
  if (isStrong(inline)) made = el("b", {}, made);
  if (inline.italic) made = el("i", {}, made);
  if (inline.underline) made = el("u", {}, made);
  if (inline.strikethrough) made = el("s", {}, made);
  if (inline.highlight) made = el("mark", {}, made);
  return inline.selectAction ? scope.select(el("span", {}, made), inline.selectAction) : made;
}

/** Shows pictures that come with the card or from this server; of any other, only its alternative text. */
function image(part) {
  const words = String(part.altText ?? "");
  const url = String(part.url ?? "");
  const isOwn = /^data:image\/(png|jpeg|gif|webp|svg\+xml)[;,]/i.test(url) || isOfThisServer(url);
  // not as a text of the card: without its picture it still stands where the picture would
  if (!isOwn) return words ? el("p", { class: "text quiet" }, words) : null;
  const shape = isCalled(part.style, "person") ? "person" : "";
  const size = `size-${oneOf(SIZES, part.size, "default")}`;
  return el("img", { class: `${size} ${shape}`, src: url, alt: words, loading: "lazy" });
}

function isOfThisServer(url) {
  try {
    const found = new URL(url, location.href);
    return found.origin === location.origin && /^https?:$/.test(found.protocol);
  } catch {
    return false;
  }
}

function imageSet(part, scope, depth) {
  const images = objects(part.images).map((one) => ({ size: part.imageSize ?? "medium", ...one, type: "Image" }));
  return el("div", { class: "images" }, showParts(images, scope, depth + 1));
}

/** The policy of the page lets no media in: what it is about, and links to it. */
function media(part) {
  const words = String(part.altText || "Media");
  const urls = objects(part.sources).map(({ url }) => webUrl(url)).filter(Boolean);
  const links = urls.map((href) => el("a", { href, target: "_blank", rel: "noopener noreferrer" }, words));
  return el("p", { class: "text" }, links.length > 0 ? links.flatMap((link) => [link, " "]) : words);
}

function factSet(part) {
  const pairs = objects(part.facts).map((fact) =>
    el("div", {}, el("dt", {}, String(fact.title ?? "")), el("dd", {}, String(fact.value ?? ""))),
  );
  return el("dl", { class: "facts" }, pairs);
}

function columns(part, scope, depth) {
  return typed(part.columns, "Column").map((column) => {
    const made = showPart(column, scope, depth + 1);
    if (made === null) return null;
    made.classList.add("column");
    const weight = Number(column.width);
    if (weight > 0 && weight <= 1000) made.style.flexGrow = String(weight);
    else if (isCalled(column.width, "auto")) made.classList.add("narrow");
    return made;
  });
}

/** Where a table has many columns it scrolls by itself, also by keyboard. */
function table(part, scope, depth) {
  const rows = objects(part.rows);
  const hasHead = part.firstRowAsHeader !== false;
  const widths = objects(part.columns).map(({ width }) => Math.max(Number.parseFloat(width) || 1, 0.1));
  const whole = widths.reduce((sum, width) => sum + width, 0);
  const sized = widths.map((width) => {
    const column = el("col");
    column.style.inlineSize = `${(100 * width) / whole}%`;
    return column;
  });
  const made = rows.map((row, place) => tableRow(row, hasHead && place === 0, scope, depth));
  const [head, body] = hasHead ? [made.slice(0, 1), made.slice(1)] : [[], made];
  const shown = el("table", { class: part.showGridLines === false ? "" : "grid" },
    el("colgroup", {}, sized), el("thead", {}, head), el("tbody", {}, body));
  const isWide = Math.max(0, ...rows.map(({ cells }) => objects(cells).length)) > 3;
  const reach = isWide ? { tabindex: 0, role: "region", "aria-label": "Table" } : {};
  return el("div", { class: `scrolls ${isWide ? "wide" : ""}`, ...reach }, shown);
}

function tableRow(row, isHead, scope, depth) {
  const cells = objects(row.cells).map((cell) => {
    const made = el(isHead ? "th" : "td", { class: styleOf(cell), scope: isHead ? "col" : null });
    made.append(...showParts(cell.items, scope, depth + 1));
    return cell.selectAction ? scope.select(made, cell.selectAction) : made;
  });
  const made = el("tr", { class: styleOf(row) }, cells);
  scope.remember(row, made);
  return made;
}
