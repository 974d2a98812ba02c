/** What this tab remembers across a reload: the newest answer's cards, what is unanswered, the API key. */

const NEWEST = "inturn.newest.";
const OUTBOX = "inturn.outbox.";
const SENTENCES = "inturn.sentences";
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
    // without storage a reload remembers less, and the conversation goes on all the same
  }
}

/** The conversation's id is in the address, so that a reload or a bookmark finds it. */
export const address = {
  get() {
    const written = location.hash.slice(1);
    try {
      return decodeURIComponent(written);
    } catch {
      return written; // no conversation has this id: the server will say so
    }
  },
  set: (id) => history.replaceState(null, "", id ? `#${encodeURIComponent(id)}` : location.pathname),
};

export const newest = {
  get: (id) => read(NEWEST + id, null),
  set: (id, turn, agent, cards) => write(NEWEST + id, { turn, agent, cards }),
};

export const unanswered = {
  get: (id) => read(OUTBOX + id, []),
  add: (id, message) => write(OUTBOX + id, [...unanswered.get(id).filter((one) => one.id !== message.id), message]),
  remove: (id, messageId) => write(OUTBOX + id, unanswered.get(id).filter((one) => one.id !== messageId)),
};

/** Sentences that are to become tasks, `{key, text, zone, id}`: with an `id` once the server has accepted them. */
export const sentences = {
  get: () => read(SENTENCES, []),
  set: (one) => write(SENTENCES, [...sentences.get().filter(({ key }) => key !== one.key), one]),
  remove: (key) => write(SENTENCES, sentences.get().filter((one) => one.key !== key)),
};

let given = null;

/** Kept for this tab only, and never in an address; without storage, until the next reload. */
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
