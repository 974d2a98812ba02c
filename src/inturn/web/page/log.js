/** The messages, in the order of their turns: an answer stands before the messages that still wait for theirs. */

import { Card } from "./card.js";
import { el, httpsUrl } from "./dom.js";

/** The states of a message that a screen reader reads out; the rest would only be noise. */
const TOLD = new Set(["waiting", "merged", "refused"]);

/** Pixels from the end at which a reader still counts as being at the end. */
const NEAR = 120;
const MARGIN = 16;

/** The share of the height that an answer leaves to the messages before it. */
const ASKED = 0.4;

export class Log {
  #cards = [];

  constructor(element, status) {
    this.element = element;
    this.scroller = element.parentElement;
    this.status = status;
    this.draft = el("div", { class: "bubble", "data-draft": true });
    this.dots = el("p", { class: "dots" }, el("i"), el("i"), el("i"));
    // hidden from screen readers: they read out the whole answer, not each of its pieces
    this.now = el("div", { class: "message now", "aria-hidden": "true" }, this.dots, this.draft);
  }

  clear() {
    this.element.replaceChildren();
    this.#cards = [];
    this.write(null);
  }

  /** A message that the user sent, shown with its outcome and any problem. */
  addUser(text, id) {
    const fate = el("p", { class: "fate" });
    const trouble = el("div", { class: "trouble", hidden: true });
    const element = this.#add("user", "You", el("div", { class: "bubble" }, text), fate, trouble);
    element.dataset.id = id;
    const log = this;
    return {
      element,
      /** What is sent again is answered after everything that was answered meanwhile. */
      toEnd() {
        if (log.element.lastElementChild !== element) log.element.append(element);
      },
      tell(words, state) {
        fate.setAttribute("aria-live", TOLD.has(state) ? "polite" : "off");
        fate.textContent = words;
        element.dataset.state = state;
      },
      showTrouble(...parts) {
        const isAtEnd = log.#isAtEnd();
        trouble.replaceChildren(...parts);
        trouble.hidden = parts.length === 0;
        if (isAtEnd) log.toEnd();
      },
    };
  }

  /** What `add` adds is an answer. If it does not fit, it is scrolled to its beginning. */
  addAnswer(add) {
    const isAtEnd = this.#isAtEnd();
    const known = new Set(this.element.children);
    add();
    const first = [...this.element.children].find((one) => !known.has(one));
    if (!isAtEnd || first === undefined) return;
    this.toEnd();
    const above = this.scroller.getBoundingClientRect().top - this.#beginning(first).getBoundingClientRect().top;
    if (above > 0) this.scroller.scrollTop -= above + MARGIN;
  }

  /** Where an answer begins: with the messages that it answers, as far as they leave room for it. */
  #beginning(first) {
    const highest = first.offsetTop - this.scroller.clientHeight * ASKED;
    let from = first;
    while (from.previousElementSibling?.matches(".user") && from.previousElementSibling.offsetTop > highest) {
      from = from.previousElementSibling;
    }
    return from;
  }

  addAssistant(name, text, citations = []) {
    const links = citations.map(({ title, url }) => citation(title, url));
    const list = links.length > 0 ? el("ul", { class: "citations", "aria-label": "Sources" }, links) : null;
    return this.#add("assistant", name, el("div", { class: "bubble" }, text), list);
  }

  addCard(name, card, cardId, submit) {
    const made = new Card(card, cardId, submit);
    for (const older of this.openCards) if (older.id === made.id) older.close("Replaced by the one below.");
    this.#cards.push(made);
    this.#add("assistant", name, made.element);
    return made;
  }

  get openCards() {
    return this.#cards.filter((card) => card.isOpen);
  }

  /** Something said about the conversation rather than in it. */
  addNotice(words, ...buttons) {
    return this.#add("notice", null, el("p", {}, words), ...buttons);
  }

  /** `null`: nobody writes. '': somebody does, and there is no word yet. */
  write(text) {
    const isAtEnd = this.#isAtEnd();
    const waiting = this.#waiting();
    if (text === null) this.now.remove();
    else if (!this.now.isConnected || this.now.nextElementSibling !== waiting) {
      this.element.insertBefore(this.now, waiting);
    }
    this.dots.hidden = Boolean(text);
    this.draft.hidden = !text;
    this.draft.textContent = text ?? "";
    const said = text === null ? "" : "An answer is being written.";
    if (this.status.textContent !== said) this.status.textContent = said;
    if (isAtEnd) this.toEnd();
  }

  toEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  #isAtEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight < NEAR;
  }

  /** The first message whose turn has not begun, or `null`. */
  #waiting() {
    return this.element.querySelector(".user[data-state=waiting]");
  }

  #add(kind, who, ...parts) {
    const isAtEnd = this.#isAtEnd();
    const name = who === null ? null : el("p", { class: "who" }, who);
    const made = el("article", { class: `message ${kind}` }, name, parts);
    this.element.insertBefore(made, kind === "user" ? null : this.#waiting());
    if (kind !== "user" && this.now.isConnected) made.after(this.now);
    if (isAtEnd || kind === "user") this.toEnd();
    return made;
  }
}

function citation(title, url) {
  const href = httpsUrl(url);
  const words = title || url || "";
  return el("li", {}, href ? el("a", { href, target: "_blank", rel: "noopener noreferrer" }, words) : words);
}
