/** What the pages ask: how to start a conversation, for an API key if the server wants one, whether to go ahead. */

import { byId, el } from "./dom.js";
import { apiKey, preferredBusy } from "./storage.js";

/** Returns `{which, busy}`, or `null` if the user cancels. */
export async function askHowToStart(definitions) {
  const which = byId("which");
  const named = new Map(definitions.map(({ id, title }) => [id, title || id]));
  byId("which-row").hidden = named.size < 2;
  which.replaceChildren(...[...named].map(([value, title]) => el("option", { value }, title)));
  const preferred = preferredBusy.get();
  for (const radio of byId("start-form").elements.busy) radio.checked = radio.value === preferred;
  if ((await ask(byId("start"))) !== "start") return null;
  const busy = byId("start-form").elements.busy.value;
  preferredBusy.set(busy);
  return { busy, which: named.size < 2 ? undefined : which.value };
}

let asked = null;

/** However many requests were refused, the user is asked once. */
export function askForKey() {
  asked ??= askOnce().finally(() => {
    asked = null;
  });
  return asked;
}

async function askOnce() {
  const wasRefused = Boolean(apiKey.get());
  const input = byId("key");
  const forgotten = "It stays in this tab, and is forgotten when you close it.";
  byId("key-why").textContent = wasRefused ? `The key was not accepted. ${forgotten}` : forgotten;
  input.value = "";
  do {
    await ask(byId("ask-key"));
  } while (!input.value.trim());
  apiKey.set(input.value.trim());
  input.value = "";
}

/** Does `work`, and asks for the key for as long as the server refuses it for want of one. */
export async function withKey(work) {
  for (;;) {
    try {
      return await work();
    } catch (problem) {
      if (problem.status !== 401) throw problem;
      await askForKey();
    }
  }
}

/** Returns whether the user agrees. */
export async function confirmed(words) {
  byId("confirm-what").textContent = words;
  return (await ask(byId("confirm"))) === "ok";
}

function ask(dialog) {
  return new Promise((answer) => {
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      renewFocus();
      answer(dialog.returnValue);
    }, { once: true });
    dialog.showModal();
  });
}

/**
 * A dialog that closes gives the focus back to where it was. After a click, Chromium does so without the caret: what is
 * typed then is lost, and `focus()` alone changes nothing for what has the focus already.
 */
function renewFocus() {
  const focused = document.activeElement;
  focused.blur();
  focused.focus({ preventScroll: true });
}
