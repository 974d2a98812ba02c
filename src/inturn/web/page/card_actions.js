/** The actions of adaptive cards, as buttons and links, and as parts of a card that can be pressed (`selectAction`). */

import { fallbackOf, isCalled, isMet, objects } from "./card_elements.js";
import { el, unique, webUrl } from "./dom.js";

const SUBMITS = new Set(["Action.Submit", "Action.Execute"]);
const CONTROLS = "a, button, input, select, textarea, [role=button]";
const LOOK = "button quiet-button";

/** A row of buttons, and below it the cards that some of them show. `null` if there are none. */
export function makeActions(listed, scope) {
  const shown = []; // each of the row's cards, with how to close it: one is open at a time
  const made = objects(listed).map((action) => makeAction(action, scope, shown)).filter(Boolean);
  if (made.length === 0) return null;
  const row = el("div", { class: "buttons" }, made);
  return shown.length > 0 ? el("div", { class: "container" }, row, shown.map(({ card }) => card)) : row;
}

export function makeAction(action, scope, shown = null) {
  if (isMet(action.requires)) {
    if (SUBMITS.has(action.type)) return submit(action, scope);
    if (isLink(action)) return openUrl(action, { class: LOOK });
    if (action.type === "Action.ToggleVisibility") return toggle(action, scope, revealer(action));
    if (action.type === "Action.ShowCard" && shown !== null) return showCard(action, scope, shown);
  }
  return fallbackOf(action, scope, (other) => makeAction(other, scope, shown));
}

/**
 * Makes a part of a card do something when it is pressed. Where it has controls of its own, which may not be inside of
 * another, it gets a button for that. Of a part that shows nothing (`null`), what it does is shown in words.
 */
export function select(element, action, scope) {
  if (action === null || typeof action !== "object" || action.isEnabled === false) return element;
  if (element?.querySelector(CONTROLS)) {
    const button = makeAction(action, scope);
    if (button !== null) element.append(button);
    return element;
  }
  const face = isMet(action.requires) ? faceOf(action, scope) : null;
  if (face === null) return fallbackOf(action, scope, (other) => select(element, other, scope)) ?? element;
  const isWhole = element === null || element.matches("img, span");
  face.classList.add("select");
  face.append(...(isWhole ? [element ?? ""] : element.childNodes));
  const isNamed = face.textContent.trim() || face.querySelector("img:not([alt=''])");
  if (!isNamed && face.querySelector("img")) face.setAttribute("aria-label", titleOf(action, "Select"));
  else if (!isNamed) face.append(titleOf(action, "Select"));
  if (isWhole) return face;
  element.append(face);
  return element;
}

function faceOf(action, scope) {
  const title = action.tooltip || action.title || null;
  if (isLink(action)) {
    const link = openUrl(action, { title });
    link.replaceChildren();
    return link;
  }
  const face = el("span", { title });
  if (action.type === "Action.ToggleVisibility") return toggle(action, scope, face);
  if (!SUBMITS.has(action.type)) return null;
  face.dataset.sends = "";
  return pressable(face, () => scope.send(action));
}

function titleOf(action, otherwise) {
  return String(action.title || action.tooltip || otherwise);
}

function revealer(action) {
  return el("span", { class: LOOK, title: action.tooltip || null }, titleOf(action, "Show more"));
}

/** A button that still works when the card is closed: then it can still be read. */
function pressable(element, press) {
  element.setAttribute("role", "button");
  element.setAttribute("tabindex", "0");
  element.addEventListener("click", press);
  element.addEventListener("keydown", (event) => {
    if (event.target !== element || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    press();
  });
  return element;
}

function submit(action, scope) {
  const isMain = scope.offer(action); // the first of a card is also what Enter in its fields does
  const look = isMain || isCalled(action.style, "positive") ? "" : "quiet-button";
  const words = { title: action.tooltip || null, disabled: action.isEnabled === false };
  const press = () => scope.send(action);
  return el("button", { type: "button", class: look, ...words, onclick: press }, titleOf(action, "Submit"));
}

function isLink(action) {
  return action.type === "Action.OpenUrl" && webUrl(action.url) !== null;
}

function openUrl(action, attributes) {
  const url = webUrl(action.url);
  return el("a", { ...attributes, href: url, target: "_blank", rel: "noopener noreferrer" }, titleOf(action, url));
}

/** The card is there from the beginning, and hidden: what is filled in stays while it is closed. */
function showCard(action, scope, shown) {
  const inner = scope.inside();
  const card = el("div", { class: "container shown-card", id: unique("shown"), hidden: true });
  inner.fill(card, action.card ?? {});
  const button = revealer(action);
  button.setAttribute("aria-controls", card.id);

  function set(isOpen) {
    card.hidden = !isOpen;
    button.setAttribute("aria-expanded", String(isOpen));
  }

  const one = { card, close: () => set(false) };
  shown.push(one);
  set(false);
  return pressable(button, () => {
    for (const other of shown) if (other !== one) other.close();
    set(card.hidden);
  });
}

/** What it shows and hides may come later in the card: it is looked up when the card is complete, and when pressed. */
function toggle(action, scope, face) {
  const named = (Array.isArray(action.targetElements) ? action.targetElements : [])
    .map((target) => (typeof target === "string" ? { elementId: target } : target))
    .filter((target) => target !== null && typeof target === "object");

  function targets() {
    return named.map((target) => [scope.find(target.elementId), target]).filter(([element]) => element);
  }

  scope.whenChanged(() => {
    const found = targets().map(([element]) => element);
    for (const element of found) element.id ||= unique("part");
    face.setAttribute("aria-controls", found.map(({ id }) => id).join(" "));
    const hidden = found.filter((element) => element.hidden).length;
    if (hidden === 0 || hidden === found.length) face.setAttribute("aria-expanded", String(hidden === 0));
    else face.removeAttribute("aria-expanded"); // it swaps parts, rather than opens one
  });
  return pressable(face, () => {
    const appeared = [];
    for (const [element, { isVisible }] of targets()) {
      const wasHidden = element.hidden;
      element.hidden = typeof isVisible === "boolean" ? !isVisible : !wasHidden;
      if (wasHidden && !element.hidden) appeared.push(element);
    }
    scope.changed();
    if (face.closest("[hidden]") === null || appeared.length === 0) return;
    appeared[0].tabIndex = -1; // what was pressed is gone: the keyboard goes on in what took its place
    appeared[0].focus();
  });
}
