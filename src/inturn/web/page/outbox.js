/** The messages of one conversation on their way: waiting, answered alone or together, refused and tried again. */

import { Problem, cutOff, readProblem, stream } from "./api.js";
import { el } from "./dom.js";
import { unanswered } from "./storage.js";

/** The longest that a button is held back, whatever the server asks for. */
const MAX_WAIT_S = 60;

export class Outbox {
  #underWay = new Set();
  #turns = new Map();
  #writer = null;
  #draft = "";
  #isLeft = false;
  #attempts = 0;

  /**
   * `hooks`: `answered(response, element)`, with the element of the message that it answers, and `over(problem,
   * repeat)`, which returns true if it dealt with the problem.
   */
  constructor(log, conversation, hooks) {
    this.log = log;
    this.conversation = conversation;
    this.hooks = hooks;
  }

  /** Another conversation is on the page: what still arrives for this one is not shown. */
  leave() {
    this.#isLeft = true;
  }

  get isBusy() {
    return this.#underWay.size > 0;
  }

  /** A message is `{id, text}`, or `{id, text, card: {cardId, action, data}}`. */
  send(message, card = null) {
    const shown = this.log.addUser(message.text, message.id);
    return this.#attempt({ ...message, shown, form: card });
  }

  /** Repeats a message that a reload cut off: under its id it is answered once. A refused one waits for the user. */
  restore(kept) {
    const message = { ...kept, shown: this.log.addUser(kept.text, kept.id), form: null };
    const why = "It was not answered before the page was reloaded.";
    if (kept.isRefused) this.#refuse(message, new Problem({ detail: why }));
    else this.#attempt(message);
  }

  async #attempt(message) {
    const waits = this.isBusy && this.conversation.busy !== "reject";
    message.hasWaited = waits;
    message.order = ++this.#attempts;
    message.shown.toEnd();
    message.shown.tell(waits ? "Waiting for its turn" : "Sending", waits ? "waiting" : "sending");
    message.shown.showTrouble();
    message.form?.close("Sending");
    this.#underWay.add(message);
    this.#keep(message, false);
    this.#show();
    try {
      const response = await this.#ask(message);
      this.#underWay.delete(message);
      this.#settle(message);
      this.#answer(message, response);
    } catch (problem) {
      this.#underWay.delete(message);
      this.#settle(message);
      if (!(problem instanceof Problem)) throw problem;
      if (!this.#isLeft) this.#refuse(message, problem);
    }
  }

  #keep({ id, text, card }, isRefused) {
    unanswered.add(this.conversation.id, { id, text, card, isRefused });
  }

  async #ask(message) {
    const path = `/workflows/${encodeURIComponent(this.conversation.id)}`;
    const { cardId, action, data: filledIn } = message.card ?? {};
    const [route, given] = message.card
      ? ["card-actions", { card_id: cardId, action, data: filledIn }]
      : ["turns", { text: message.text }];
    let response = null;
    await stream(`${path}/${route}/stream`, { ...given, message_id: message.id }, (name, data) => {
      if (name === "response") response = data;
      else if (name === "problem") throw readProblem(data);
      else if (name === "restart") this.#hear(message, null);
      else if (name === "typing") this.#hear(message, "");
      else if (name === "token") this.#hear(message, String(data.text ?? ""));
    });
    if (response === null) throw cutOff();
    return response;
  }

  /** Merged messages all get the same words: those of the first to get any are shown. */
  #hear(message, piece) {
    this.#writer ??= message;
    if (piece !== null) {
      message.shown.tell("Being answered", "writing");
      message.shown.begin();
    }
    if (this.#writer !== message) return;
    this.#draft = piece === null ? "" : this.#draft + piece;
    this.#show();
  }

  #settle(message) {
    if (this.#writer === message) {
      this.#writer = null;
      this.#draft = "";
    }
    this.#show();
  }

  #show() {
    if (!this.#isLeft) this.log.write(this.isBusy ? this.#draft : null);
  }

  #answer(message, response) {
    unanswered.remove(this.conversation.id, message.id);
    if (this.#isLeft) return;
    message.form?.close("Sent");
    const turn = response.turn_meta.turn_number;
    if (turn <= this.conversation.restoredTurns) {
      message.shown.element.remove(); // it is in the history that was restored, with its answer
      return;
    }
    // in the order in which they were sent: the responses of merged messages come in any order
    const together = [...(this.#turns.get(turn) ?? []), message].sort((one, other) => one.order - other.order);
    this.#turns.set(turn, together);
    if (together.length === 1) {
      message.shown.tell(message.hasWaited ? "Answered after waiting for its turn" : "Answered", "answered");
      this.hooks.answered(response, message.shown.element);
      return;
    }
    message.shown.element.dataset.turn = turn;
    const place = together.indexOf(message);
    if (place > 0) together[place - 1].shown.element.after(message.shown.element);
    else together[1].shown.element.before(message.shown.element);
    for (const one of together) one.shown.tell(`Merged: ${together.length} messages, one answer`, "merged");
  }

  #refuse(message, problem) {
    if (this.hooks.over(problem, () => this.#attempt(message))) {
      message.shown.tell("Not sent", "refused");
      if (problem.status !== 401) unanswered.remove(this.conversation.id, message.id);
      return;
    }
    message.shown.tell("Not answered", "refused");
    if (!problem.isWorthRepeating) {
      unanswered.remove(this.conversation.id, message.id);
      message.form?.open();
      message.shown.showTrouble(el("p", {}, problem.message));
      return;
    }
    this.#keep(message, true);
    message.form?.close("Not sent yet");
    const isBusy = problem.code === "conversation-busy";
    const words = isBusy ? "The conversation is busy: another message is being answered." : problem.message;
    const again = () => {
      this.log.scroller.focus({ preventScroll: true }); // the button that was pressed goes away
      this.#attempt(message);
    };
    message.shown.showTrouble(el("p", {}, words), againButton(problem.retryAfterS, again));
  }
}

/** Held back for as long as the server asked. The countdown is visual only, and is not read out. */
function againButton(waitS, press) {
  const seconds = el("span", { "aria-hidden": "true" });
  const button = el("button", { type: "button", class: "again", onclick: press }, "Try again", seconds);
  let left = Math.min(waitS ?? 0, MAX_WAIT_S);
  function tick() {
    button.disabled = left > 0;
    seconds.textContent = left > 0 ? `\u00a0in ${left} s` : "";
    if (left-- > 0) setTimeout(tick, 1000);
  }
  tick();
  return button;
}
