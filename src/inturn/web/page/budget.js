/** The token budget: a bar of what is spent and what is reserved, and when it starts afresh. */

import { call } from "./api.js";
import { byId } from "./dom.js";
import { when } from "./words.js";

const NUMBER = new Intl.NumberFormat("en");
const MAX_WAIT_MS = 2 ** 31 - 1;

export class Budget {
  #asked = 0;
  #timer = 0;

  /** Gets it anew. A budget that cannot be had is not worth a message: what needs it will say so. */
  async refresh() {
    this.#asked += 1;
    const asked = this.#asked;
    const told = await call("GET", "/budget").catch(() => null);
    if (told !== null && asked === this.#asked) this.#show(told);
  }

  #show({ limit, spent, held, resets_at: resetsAt }) {
    const used = Math.min(limit, spent + held);
    const reserved = held > 0 ? ` (${NUMBER.format(held)} reserved)` : "";
    const words = `${NUMBER.format(spent + held)} of ${NUMBER.format(limit)} tokens used${reserved}`;
    const bar = byId("budget-bar");
    bar.setAttribute("aria-valuemax", String(Math.max(1, limit)));
    bar.setAttribute("aria-valuenow", String(used));
    bar.setAttribute("aria-valuetext", `${words}, resets ${when(resetsAt)}`);
    bar.dataset.level = used >= limit * 0.9 ? "low" : "fine";
    const spentShare = limit > 0 ? Math.min(1, spent / limit) : 1;
    const heldShare = limit > 0 ? Math.min(1 - spentShare, held / limit) : 0;
    byId("budget-spent").style.inlineSize = `${100 * spentShare}%`;
    byId("budget-held").style.inlineSize = `${100 * heldShare}%`;
    byId("budget-words").textContent = `${words} · resets ${when(resetsAt)}`;
    byId("budget").hidden = false;
    clearTimeout(this.#timer);
    const untilResetMs = resetsAt * 1000 - Date.now() + 1000;
    if (untilResetMs > 0) this.#timer = setTimeout(() => this.refresh(), Math.min(untilResetMs, MAX_WAIT_MS));
  }
}
