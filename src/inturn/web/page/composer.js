/** Where people write: the field, which stays usable while an answer is being written, and the answers on offer. */

import { byId, el } from "./dom.js";

const KEYBOARDS = new Map([["email", "email"], ["number", "decimal"], ["integer", "numeric"], ["tel", "tel"]]);

export class Composer {
  /** `send(text)` is called with what is not blank. */
  constructor(send) {
    this.send = send;
    this.field = byId("text");
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#take();
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#take();
    });
    this.field.addEventListener("input", () => this.#fit());
  }

  offer(choices, inputType) {
    const group = byId("offer");
    const press = (choice) => {
      this.send(choice);
      this.field.focus(); // the button that was pressed goes away
    };
    const buttons = choices.map((choice) => el("button", { type: "button", onclick: () => press(choice) }, choice));
    group.replaceChildren(...buttons);
    group.hidden = choices.length === 0;
    this.field.inputMode = KEYBOARDS.get(inputType) ?? "text";
  }

  /** Instead of the field there is a way to begin anew. */
  finish(isFinished) {
    const hadFocus = byId("bottom").contains(document.activeElement);
    byId("composer").hidden = isFinished;
    byId("finished").hidden = !isFinished;
    if (isFinished) this.offer([], null);
    if (isFinished && hadFocus) byId("again").focus();
  }

  #take() {
    const text = this.field.value.trim();
    if (!text) return;
    this.field.value = "";
    this.#fit();
    this.send(text);
  }

  #fit() {
    this.field.style.blockSize = "auto";
    this.field.style.blockSize = `${this.field.scrollHeight + 2}px`;
  }
}
