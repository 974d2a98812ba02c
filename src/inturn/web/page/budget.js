/** The token budget: a bar of what is spent and what is reserved, and when it starts afresh. */

import { call } from "./api.js";
import { byId } from "./dom.js";

const NUMBER = new Intl.NumberFormat("en");
const MAX_WAIT_MS = 2 ** 31 - 1;

/** `at 14:00`, or `on Tue 6 Oct at 14:00` if that is another day. */
export function when(epochS) {
  const at = new Date(epochS * 1000);
  const time = `at ${at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}`;
  if (at.toDateString() === new Date().toDateString()) return time;
  return `on ${at.toLocaleDateString("en-GB", { weekday: "short", day: "numeric", month: "short" })} ${time}`;
}

/** `about 3 hours`. */
export function duration(seconds) {
  const [amount, unit] =
    seconds < 90 ? [seconds, "second"] : seconds < 5400 ? [seconds / 60, "minute"] : [seconds / 3600, "hour"];
  const whole = Math.max(1, Math.round(amount));
  return `about ${whole} ${unit}${whole === 1 ? "" : "s"}`;
}

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
    byId("budget-spent").style.inlineSize = share(spent, limit);
    byId("budget-held").style.inlineSize = share(held, limit);
    byId("budget-words").textContent = `${words} · resets ${when(resetsAt)}`;
    byId("budget").hidden = false;
    clearTimeout(this.#timer);
    const untilResetMs = resetsAt * 1000 - Date.now() + 1000;
    if (untilResetMs > 0) this.#timer = setTimeout(() => this.refresh(), Math.min(untilResetMs, MAX_WAIT_MS));
  }
}

function share(part, limit) {
  return `${limit > 0 ? Math.min(100, (100 * part) / limit) : 100}%`;
}
