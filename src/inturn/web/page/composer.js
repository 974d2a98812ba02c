/** Where people write: the field, which stays usable while an answer is being written, and suggested answers. */

import { byId, el } from "./dom.js";

const KEYBOARDS = new Map([["email", "email"], ["number", "decimal"], ["integer", "numeric"], ["tel", "tel"]]);

export class Composer {
  #isReady = false;
  #isEntered = false;

  /** `send(text)` is called with what is not blank, once there is a conversation. */
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
    this.field.addEventListener("input", () => {
      this.#isEntered = false;
      this.#fit();
    });
  }

  /** There is a conversation. What was entered before stayed in the field, and is sent now. */
  ready() {
    this.#isReady = true;
    if (this.#isEntered) this.#take();
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

  /** Instead of the field there is a button to start again. */
  finish(isFinished) {
    const hadFocus = byId("bottom").contains(document.activeElement);
    byId("composer").hidden = isFinished;
    byId("finished").hidden = !isFinished;
    if (isFinished) {
      this.offer([], null);
      this.#isEntered = false;
    }
    if (isFinished && hadFocus) byId("again").focus();
  }

  #take() {
    const text = this.field.value.trim();
    this.#isEntered = Boolean(text) && !this.#isReady;
    if (!text || !this.#isReady) return;
    this.field.value = "";
    this.#fit();
    this.send(text);
  }

  #fit() {
    this.field.style.blockSize = "auto";
    this.field.style.blockSize = `${this.field.scrollHeight + 2}px`;
  }
}
