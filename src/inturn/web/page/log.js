/** The messages, in the order of their turns: each answer after what it answers, and what still waits below. */

import { Card } from "./card.js";
import { el, webUrl } from "./dom.js";

/** Messages that are not answered yet; and those of them whose turn has not begun, as far as the page knows. */
const UNDER_WAY = ".user:is([data-state=sending], [data-state=waiting], [data-state=writing])";
const PENDING = ".user:is([data-state=sending], [data-state=waiting])";

/** The states of a message that a screen reader reads out; the rest would only be noise. */
const TOLD = new Set(["waiting", "merged", "refused"]);

/** Pixels from the end at which a reader still counts as being at the end. */
const NEAR = 120;
const MARGIN = 16;

/** The share of the height that an answer leaves to the messages before it. */
const ASKED = 0.4;

export class Log {
  #cards = [];
  #last = null;
  #wasAtEnd = true;
  #height = 0;

  constructor(element, status) {
    this.element = element;
    this.scroller = element.parentElement;
    this.status = status;
    this.draft = el("div", { class: "bubble", "data-draft": true });
    this.dots = el("p", { class: "dots" }, el("i"), el("i"), el("i"));
    // hidden from screen readers: they read out the whole answer, not each of its pieces
    this.now = el("div", { class: "message now", "aria-hidden": "true" }, this.dots, this.draft);
    this.scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    new ResizeObserver(() => this.#resized()).observe(this.scroller);
    this.element.addEventListener("load", () => this.#wasAtEnd && this.toEnd(), true); // of a picture, which has grown
  }

  #scrolled() {
    if (this.scroller.clientHeight === this.#height) this.#wasAtEnd = this.#isWithin(MARGIN);
  }

  /** Suggested answers, a long text in the field and the keyboard of a phone take room from below: the end stays. */
  #resized() {
    this.#height = this.scroller.clientHeight;
    if (this.#wasAtEnd) this.toEnd();
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
      /** Its turn has begun: it stands before those that wait, also if it was sent after them. */
      begin() {
        const pending = log.element.querySelector(PENDING);
        if (pending !== null && isAfter(element, pending)) pending.before(element);
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

  /**
   * What `add` adds is the answer to `asked`, a message of the user, in this turn. Whatever else `add` does to the
   * page, the answer is in sight after it: if it does not fit, from its beginning.
   */
  addAnswer(asked, turn, add) {
    const isAtEnd = this.#isAtEnd();
    const known = new Set(this.element.children);
    if (asked !== null) this.#place(asked, turn);
    this.#last = asked;
    add();
    this.#last = null;
    const added = [...this.element.children].filter((one) => !known.has(one));
    for (const one of added) one.dataset.turn = turn;
    const first = added[0];
    if (!isAtEnd || first === undefined) return;
    this.toEnd();
    const above = this.scroller.getBoundingClientRect().top - this.#beginning(first).getBoundingClientRect().top;
    if (above <= 0) return;
    this.scroller.scrollTop -= above + MARGIN;
    this.#wasAtEnd = false;
  }

  /** Responses come in any order. Turns stand in theirs, and before everything that is still under way. */
  #place(asked, turn) {
    asked.dataset.turn = turn;
    const others = [...this.element.children].filter((one) => one !== asked);
    const earlier = others.findLast((one) => Number(one.dataset.turn) < turn);
    const later = others.find((one) => Number(one.dataset.turn) > turn || one.matches(UNDER_WAY));
    if (earlier !== undefined && isAfter(earlier, asked)) earlier.after(asked);
    else if (later !== undefined && isAfter(asked, later)) later.before(asked);
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
    this.#cards.push(made);
    this.#add("assistant", name, made.element);
    const same = this.openCards.filter(({ id }) => id === made.id);
    const isLast = (card) => !same.some((other) => isAfter(other.element, card.element));
    for (const card of same) if (!isLast(card)) card.close("Replaced by the one below.");
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
    if (text === null) this.now.remove();
    else this.#placeNow();
    this.dots.hidden = Boolean(text);
    this.draft.hidden = !text;
    this.draft.textContent = text ?? "";
    const said = text === null ? "" : "An answer is being written.";
    if (this.status.textContent !== said) this.status.textContent = said;
    if (isAtEnd) this.toEnd();
  }

  toEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.#wasAtEnd = true;
  }

  #isAtEnd() {
    return this.#isWithin(NEAR);
  }

  #isWithin(pixels) {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight < pixels;
  }

  /** After what is being answered; as long as nobody knows what that is, before those that wait. */
  #placeNow() {
    const writing = [...this.element.querySelectorAll(".user[data-state=writing]")].at(-1);
    const waiting = this.element.querySelector(".user[data-state=waiting]");
    const next = writing ? writing.nextElementSibling : waiting;
    if (next === this.now || (this.now.isConnected && this.now.nextElementSibling === next)) return;
    this.element.insertBefore(this.now, next);
  }

  #add(kind, who, ...parts) {
    const isAtEnd = this.#isAtEnd();
    const name = who === null ? null : el("p", { class: "who" }, who);
    const made = el("article", { class: `message ${kind}` }, name, parts);
    if (this.#last === null) this.element.append(made);
    else {
      this.#last.after(made);
      this.#last = made;
      if (this.now.isConnected) made.after(this.now);
    }
    if (isAtEnd || kind === "user") this.toEnd();
    return made;
  }
}

function isAfter(one, other) {
  return Boolean(other.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING);
}

function citation(title, url) {
  const href = webUrl(url);
  const words = title || url || "";
  return el("li", {}, href ? el("a", { href, target: "_blank", rel: "noopener noreferrer" }, words) : words);
}
