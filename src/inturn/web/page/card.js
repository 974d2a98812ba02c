/** Shows an adaptive card as a form. A card that was sent, or that a newer one replaces, can only be read. */

import { el, unique } from "./dom.js";
import { openUrl, shown } from "./card_elements.js";
import { makeInput } from "./card_inputs.js";

const SUBMITS = new Set(["Action.Submit", "Action.Execute"]);

/** `submit(card, {cardId, action, data})` is called with what was filled in, if all of it is valid. */
export class Card {
  constructor(card, cardId, submit) {
    this.card = card;
    this.id = cardId;
    this.inputs = [];
    this.submit = submit;
    this.fields = el("fieldset", { class: "card-fields", role: "presentation" });
    this.note = el("p", { class: "card-note quiet", hidden: true });
    this.element = el("form", { class: "card", novalidate: true, autocomplete: "off" }, this.fields, this.note);
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send(this.#main);
    });
    const body = shown(card.body, (part) => this.#make(part));
    const actions = this.#actions(card.actions);
    this.fields.append(...body, ...(actions ? [actions] : []));
    this.#name();
  }

  get #main() {
    const listed = Array.isArray(this.card.actions) ? this.card.actions : [];
    return listed.find((action) => SUBMITS.has(action?.type));
  }

  get title() {
    return this.element.querySelector("h3, p.strong")?.textContent ?? "";
  }

  get isOpen() {
    return !this.fields.disabled;
  }

  /** While it is being sent, and for good once it was. */
  close(note = "") {
    this.fields.disabled = true;
    this.note.textContent = note;
    this.note.hidden = !note;
  }

  open() {
    this.fields.disabled = false;
    this.note.hidden = true;
  }

  /** Fills in what the user has said in words meanwhile; what is filled in already stays. */
  fill(values) {
    for (const input of this.inputs) {
      if (Object.hasOwn(values, input.id) && input.read() === "") input.write(values[input.id]);
    }
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

  #make(part) {
    if (part.type === "ActionSet") return this.#actions(part.actions);
    const input = makeInput(part);
    if (input === null) return null;
    if (input.id) this.inputs.push(input);
    return input.element;
  }

  #actions(listed) {
    const made = (Array.isArray(listed) ? listed : []).map((action) => this.#action(action)).filter(Boolean);
    return made.length > 0 ? el("div", { class: "buttons" }, made) : null;
  }

  #action(action) {
    if (action === null || typeof action !== "object") return null;
    if (action.type === "Action.OpenUrl") return openUrl(action);
    if (!SUBMITS.has(action.type)) return typeof action.fallback === "object" ? this.#action(action.fallback) : null;
    // the first of the card is also what Enter in a field does
    const isMain = action === this.#main;
    const press = isMain ? {} : { onclick: () => this.#send(action) };
    const look = isMain || action.style === "positive" ? "" : "quiet-button";
    const type = isMain ? "submit" : "button";
    return el("button", { type, class: look, ...press }, String(action.title || "Submit"));
  }

  #send(action) {
    if (!action || !this.isOpen) return;
    const takesInputs = action.associatedInputs !== "none";
    if (takesInputs && !this.#isFilled()) return;
    const extra = action.data !== null && typeof action.data === "object" ? action.data : {};
    const { cardId, action: name, ...data } = extra;
    for (const input of takesInputs ? this.inputs : []) {
      const value = input.read();
      if (value !== "") data[input.id] = value;
    }
    this.submit(this, { cardId: this.id ?? cardId ?? "", action: name ?? action.verb ?? action.id ?? null, data });
  }

  #isFilled() {
    const wrong = this.inputs.filter((input) => {
      const why = input.wrong();
      input.tell(why);
      return why !== null;
    });
    wrong[0]?.first?.focus();
    return wrong.length === 0;
  }
}
