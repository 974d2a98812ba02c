/** Shows an adaptive card as a form. A card that was sent, or that a newer one replaces, can only be read. */

import { makeActions, select } from "./card_actions.js";
import { isCalled, showParts } from "./card_elements.js";
import { makeInput } from "./card_inputs.js";
import { el, unique } from "./dom.js";
import { misfits } from "./patterns.js";

/** `submit(card, {cardId, action, data})` is called with what was filled in, if all of it is valid. */
export class Card {
  #scope;
  #isChecking = false;

  constructor(card, cardId, submit) {
    this.card = card;
    this.id = cardId;
    this.submit = submit;
    this.fields = el("fieldset", { class: "card-fields", role: "presentation" });
    this.note = el("p", { class: "card-note quiet", hidden: true });
    this.element = el("form", { class: "card", novalidate: true, autocomplete: "off" }, this.fields, this.note);
    this.element.addEventListener("submit", (event) => event.preventDefault());
    this.element.addEventListener("keydown", (event) => this.#enter(event));
    this.#scope = new Scope(this);
    this.#scope.fill(this.fields, card);
    this.#scope.changed();
    this.#name();
  }

  get title() {
    return this.element.querySelector("h3, p.strong")?.textContent ?? "";
  }

  get isOpen() {
    return !this.fields.disabled;
  }

  /** While it is being sent, and for good once it was. */
  close(note = "") {
    this.#disable(true);
    this.note.textContent = note;
    this.note.hidden = !note;
  }

  open() {
    this.#disable(false);
    this.note.hidden = true;
  }

  /** Fills in what the user has said in words meanwhile; what is filled in already stays. */
  fill(values) {
    for (const input of this.#scope.inputsOfAll) {
      if (Object.hasOwn(values, input.id) && input.read() === "") input.write(values[input.id]);
    }
  }

  /** Sends what the action takes along: the inputs of its card and of the cards around it, hidden ones too. */
  async send(action, inputs) {
    if (!this.isOpen || this.#isChecking || action.isEnabled === false) return;
    const taken = isCalled(action.associatedInputs, "none") ? [] : inputs;
    this.#isChecking = true;
    const isFilled = await isValid(taken).finally(() => (this.#isChecking = false));
    if (!isFilled || !this.isOpen) return;
    const extra = action.data !== null && typeof action.data === "object" ? action.data : {};
    const { cardId, action: name, ...data } = extra;
    for (const input of taken) {
      const value = input.read();
      if (value !== "") data[input.id] = value;
    }
    this.submit(this, { cardId: this.id ?? cardId ?? "", action: name ?? action.verb ?? action.id ?? null, data });
  }

  #disable(isDisabled) {
    this.fields.disabled = isDisabled;
    for (const part of this.element.querySelectorAll("[data-sends]")) {
      part.setAttribute("aria-disabled", String(isDisabled));
      part.tabIndex = isDisabled ? -1 : 0;
    }
  }

  #enter(event) {
    const isField = event.target.matches("input:not([type=checkbox], [type=radio])");
    if (event.key !== "Enter" || event.isComposing || !isField) return;
    event.preventDefault();
    this.#scope.around(event.target).enter();
  }

  #name() {
    const heading = this.element.querySelector("h3, p.strong");
    if (heading === null) {
      this.element.setAttribute("aria-label", "Form");
      return;
    }
    heading.id = unique("card");
    this.element.setAttribute("aria-labelledby", heading.id);
  }
}

/** What belongs to a card, or to a card that an action of it shows: its inputs, and what Enter does in them. */
class Scope {
  #card;
  #parent;
  #shared;
  #inner = [];
  #inputs = [];
  #main = null;
  #element = null;

  constructor(card, parent = null) {
    this.#card = card;
    this.#parent = parent;
    this.#shared = parent?.#shared ?? { parts: new Map(), listeners: [], lost: 0 };
  }

  /** A scope in this one. */
  inside() {
    const made = new Scope(this.#card, this);
    this.#inner.push(made);
    return made;
  }

  /** If not all of the card can be shown, its text for that case is shown too. */
  fill(element, card) {
    this.#element = element;
    const before = this.#shared.lost;
    const actions = makeActions(card.actions, this); // first: Enter does the first of them, not one of the body
    const body = showParts(card.body, this);
    const isShown = body.length > 0 || actions !== null;
    element.append(...body, ...(actions ? [actions] : []));
    if (card.selectAction) select(element, card.selectAction, this);
    const words = isShown && this.#shared.lost === before ? "" : String(card.fallbackText ?? "");
    if (words) element.prepend(el("p", { class: "text" }, words));
  }

  make(part) {
    if (part.type === "ActionSet") return makeActions(part.actions, this);
    const input = makeInput(part);
    if (input === null) return undefined;
    if (input.id) this.#inputs.push(input);
    if (part.inlineAction) this.#addInline(part.inlineAction, input.element);
    return input.element;
  }

  #addInline(action, field) {
    const main = this.#main;
    this.#main ??= {}; // it belongs to its field, and is never what the card is sent with
    const made = makeActions([action], this);
    this.#main = main;
    if (made !== null) field.append(made);
  }

  select(element, action) {
    return select(element, action, this);
  }

  /** Remembers a part by its id, for actions that show and hide it. */
  remember(part, element) {
    element.hidden = part.isVisible === false;
    if (typeof part.id === "string") this.#shared.parts.set(part.id, element);
  }

  find(id) {
    return this.#shared.parts.get(id);
  }

  whenChanged(listener) {
    this.#shared.listeners.push(listener);
  }

  changed() {
    for (const listener of this.#shared.listeners) listener();
  }

  /** A part is not shown, and nothing in its place. */
  lose() {
    this.#shared.lost += 1;
  }

  mark() {
    return { lost: this.#shared.lost, inputs: this.#inputs.length, inner: this.#inner.length, main: this.#main };
  }

  hasLostSince({ lost }) {
    return this.#shared.lost > lost;
  }

  /** What was made since then is not shown after all. */
  backTo({ lost, inputs, inner, main }) {
    this.#shared.lost = lost;
    this.#inputs.length = inputs;
    this.#inner.length = inner;
    this.#main = main;
  }

  /** Returns whether the action is the first that this scope offers to send. */
  offer(action) {
    this.#main ??= action;
    return this.#main === action;
  }

  get inputsOfAll() {
    return [...this.#inputs, ...this.#inner.flatMap((scope) => scope.inputsOfAll)];
  }

  get #inputsAround() {
    return [...(this.#parent?.#inputsAround ?? []), ...this.#inputs];
  }

  send(action) {
    return this.#card.send(action, this.#inputsAround);
  }

  around(target) {
    return this.#inner.find((scope) => scope.#element.contains(target))?.around(target) ?? this;
  }

  enter() {
    if (this.#main !== null) this.send(this.#main);
    else this.#parent?.enter();
  }
}

/** A hidden input cannot be put right by anybody, so it is not checked; the server has the last word. */
async function isValid(inputs) {
  const shown = inputs.filter((input) => input.element.closest("[hidden]") === null);
  const odd = await misfits(shown.map((input) => input.toMatch()));
  const wrong = shown.filter((input, place) => {
    const why = input.wrong(odd.has(place));
    input.tell(why);
    return why !== null;
  });
  wrong[0]?.first?.focus();
  return wrong.length === 0;
}
