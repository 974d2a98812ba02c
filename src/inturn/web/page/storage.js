/** What this tab remembers over a reload: cards of the newest answer, messages without an answer yet, the API key. */

const NEWEST = "inturn.newest.";
const OUTBOX = "inturn.outbox.";
const BUSY = "inturn.busy";
const KEY = "inturn.key";

function read(name, otherwise) {
  try {
    return JSON.parse(sessionStorage.getItem(name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function write(name, value) {
  try {
    sessionStorage.setItem(name, JSON.stringify(value));
  } catch {
    // a full or forbidden storage costs the comfort of a reload, not the conversation
  }
}

/** The conversation's id is in the address, so that a reload and a bookmark find it. */
export const address = {
  get: () => decodeURIComponent(location.hash.slice(1)),
  set: (id) => history.replaceState(null, "", id ? `#${encodeURIComponent(id)}` : location.pathname),
};

export const newest = {
  get: (id) => read(NEWEST + id, null),
  set: (id, turn, agent, cards) => write(NEWEST + id, { turn, agent, cards }),
};

export const outbox = {
  get: (id) => read(OUTBOX + id, []),
  add: (id, message) => write(OUTBOX + id, [...outbox.get(id).filter((one) => one.id !== message.id), message]),
  remove: (id, messageId) => write(OUTBOX + id, outbox.get(id).filter((one) => one.id !== messageId)),
};

let given = null;

/** Kept for this tab alone, and never in an address; where there is no storage, until the next reload. */
export const apiKey = {
  get: () => given ?? read(KEY, ""),
  set(key) {
    given = key;
    write(KEY, key);
  },
};

export const preferredBusy = {
  get: () => read(BUSY, "merge"),
  set: (busy) => write(BUSY, busy),
};

export function forget(id) {
  try {
    for (const name of [NEWEST + id, OUTBOX + id]) sessionStorage.removeItem(name);
  } catch {
    // then there is nothing to forget
  }
}
