/**
 * Sentences on their way to becoming tasks: sent, queued, running, and gone from here when they are done or dismissed.
 * A sentence keeps its Idempotency-Key, also over a reload: it becomes one task, however often it is sent.
 */

import { Problem, call, follow } from "./api.js";
import { withKey } from "./dialogs.js";
import { el, newId } from "./dom.js";
import { sentences } from "./storage.js";
import { duration, when } from "./words.js";

const STATES = {
  sending: "Sending …",
  queued: "Queued",
  running: "Running …",
  failed: "This did not become a task",
  refused: "Not accepted",
};
const UNDER_WAY = new Set(["sending", "queued", "running"]);

/** Browsers open six connections to a server, for all tabs together: others are looked at again and again instead. */
const MAX_STREAMS = 2;
const AGAIN_MS = 1000;
const MAX_AGAIN_MS = 15_000;

/** After so many tries the user decides whether to go on. */
const MAX_TRIES = 6;

export class TaskRequests {
  #items = new Map();
  #streams = 0;
  #picked = null;

  /**
   * `done(task)` gets each task that is made, `settled()` is called whenever the budget may have changed, `pick(text)`
   * gets a suggestion, and `say(words)` what a screen reader should read out.
   */
  constructor(list, section, { done, settled, pick, say }) {
    Object.assign(this, { list, section, done, settled, pick, say });
  }

  add(text) {
    if (this.#picked !== null) this.#remove(this.#picked); // this sentence is the better version of that one
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    this.#send(this.#make({ key: newId(), text, zone }, "sending"));
  }

  /** What was under way before a reload, or is in another tab. */
  async restore() {
    const kept = sentences.get();
    const { requests } = await call("GET", "/requests?status=queued&limit=200");
    for (const sentence of kept) {
      if (this.#items.has(sentence.key)) continue;
      const item = this.#make(sentence, sentence.id ? "queued" : "sending");
      if (sentence.id) this.#follow(item);
      else this.#send(item);
    }
    const known = new Set([...this.#items.values()].map(({ id }) => id));
    for (const { tasks_service_request_id: id, status, natural_language: text } of requests.reverse()) {
      if (!known.has(id)) this.#follow(this.#make({ key: id, text, id }, status));
    }
  }

  #make({ key, text, zone, id = null }, state) {
    const words = el("p", { class: "state" });
    const trouble = el("div", { class: "trouble", hidden: true });
    const element = el("li", { class: "request" }, el("p", { class: "text" }, text), words, trouble);
    const item = { key, text, zone, id, element, words, trouble, state: "" };
    this.#items.set(key, item);
    this.list.prepend(element);
    this.#tell(item, state);
    return item;
  }

  async #send(item) {
    const { key, text, zone } = item;
    sentences.set({ key, text, zone });
    const body = { natural_language: text, time_zone: zone };
    for (let tries = 1; this.#items.has(key); tries += 1) {
      try {
        const send = () => call("POST", "/tasks", body, { "idempotency-key": key });
        const { tasks_service_request_id: id } = await withKey(send);
        if (!this.#items.has(key)) return; // dismissed meanwhile
        item.id = id;
        // it had arrived before a reload: then it was also found among those of the server
        const found = [...this.#items.values()].find((other) => other.id === id && other !== item);
        if (found) this.#remove(found);
        sentences.set({ key, text, zone, id });
        this.#tell(item, "queued");
        this.settled();
        this.#follow(item);
        return;
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        if (!isPassing(problem) || tries >= MAX_TRIES) {
          this.#refuse(item, problem);
          return;
        }
        const afterMs = problem.retryAfterS ? problem.retryAfterS * 1000 : AGAIN_MS * 2 ** (tries - 1);
        this.#tell(item, "sending", `${problem.title || "The server is busy."} Trying again …`);
        await pause(Math.min(afterMs, MAX_AGAIN_MS));
      }
    }
  }

  /** Until it is done or has failed, however often the connection breaks. */
  async #follow(item) {
    for (let failures = 0; this.#items.has(item.key) && UNDER_WAY.has(item.state); ) {
      try {
        await withKey(() => this.#look(item));
        failures = 0;
      } catch (problem) {
        if (!(problem instanceof Problem)) throw problem;
        if (problem.status === 404) {
          this.#trouble(item, "failed", "The server does not know this request any more.");
          return;
        }
        failures += 1;
        if (failures > 1) this.#tell(item, item.state, "The connection broke. Looking again …");
      }
      if (UNDER_WAY.has(item.state)) await pause(Math.min(AGAIN_MS * 2 ** failures, MAX_AGAIN_MS));
    }
  }

  async #look(item) {
    const path = `/requests/${encodeURIComponent(item.id)}`;
    if (this.#streams >= MAX_STREAMS) {
      this.#show(item, await call("GET", path));
      return;
    }
    this.#streams += 1;
    try {
      await follow(`${path}/events`, (name, told) => name !== "problem" && this.#show(item, told));
    } finally {
      this.#streams -= 1;
    }
  }

  #show(item, { status, task, error }) {
    if (!this.#items.has(item.key)) return;
    if (status === "done") {
      item.state = status;
      this.#remove(item);
      if (task) this.done(task);
      this.settled();
    } else if (status === "failed") {
      this.#trouble(item, status, error?.message || "It is not known why.", error?.suggestions ?? []);
      this.settled();
    } else if (Object.hasOwn(STATES, status)) {
      this.#tell(item, status);
    }
  }

  #refuse(item, problem) {
    this.settled();
    const again = () => {
      this.pick(""); // the button goes away: the field gets the focus
      this.#tell(item, "sending");
      this.#send(item); // under its key: an answer that was lost may have been a yes
    };
    this.#trouble(item, "refused", whatToDo(problem), [], button("Try again", again));
  }

  #tell(item, state, words = STATES[state]) {
    if (item.state !== state) this.say(`${STATES[state].replace(" …", "")}: ${item.text}`);
    item.state = state;
    item.element.dataset.state = state;
    item.words.textContent = words;
    item.trouble.hidden = true;
    this.section.hidden = false;
  }

  #trouble(item, state, message, suggestions = [], ...buttons) {
    item.state = state;
    item.element.dataset.state = state;
    item.words.textContent = STATES[state];
    const dismiss = () => {
      this.#remove(item);
      this.pick(""); // the button is gone: the field gets the focus
    };
    const offers = el("div", { class: "offers", role: "group", "aria-label": "Suggestions" },
      suggestions.map((text) => button(text, () => this.#pick(item, text))));
    item.trouble.replaceChildren(el("p", {}, message), ...(suggestions.length > 0 ? [offers] : []),
      el("p", { class: "buttons" }, buttons, button("Dismiss", dismiss, "quiet-button")));
    item.trouble.hidden = false;
    const offered = suggestions.length > 0 ? ` Suggestions: ${suggestions.join("; ")}` : "";
    this.say(`${STATES[state]}: ${item.text}. ${message}${offered}`);
  }

  #pick(item, text) {
    this.#picked = item;
    this.pick(text);
  }

  #remove(item) {
    if (this.#picked === item) this.#picked = null;
    this.#items.delete(item.key);
    sentences.remove(item.key);
    item.element.remove();
    this.section.hidden = this.#items.size === 0;
  }
}

/** Whether the same sentence can be sent again without asking the user. */
function isPassing(problem) {
  return problem.status === 0 || problem.code === "still-running" || [502, 503, 504].includes(problem.status);
}

function whatToDo(problem) {
  if (problem.code !== "budget-exhausted" || problem.retryAfterS === null) return problem.message;
  const at = when(Date.now() / 1000 + problem.retryAfterS);
  return `Your token budget has no room for this. It resets ${at}, in ${duration(problem.retryAfterS)}.`;
}

function button(words, onclick, kind = null) {
  return el("button", { type: "button", class: kind, onclick }, words);
}

function pause(ms) {
  return new Promise((done) => setTimeout(done, ms));
}
