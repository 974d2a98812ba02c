/** Matches patterns of cards in a thread of their own: some never end. What takes too long counts as a match. */

const LIMIT_MS = 500;

/** For the thread to begin. Only then the time of a pattern counts: a slow machine needs longer for the one alone. */
const START_MS = 5000;

let worker = null;
let last = Promise.resolve();

/** `pairs`: `{pattern, value}`, or `null` where there is nothing to match. Returns the places that do not match. */
export function misfits(pairs) {
  const asked = [...pairs.entries()].filter(([, pair]) => pair !== null);
  if (asked.length > 0) last = last.then(() => match(asked)); // one at a time: an endless one ends the thread
  return asked.length > 0 ? last : Promise.resolve(new Set());
}

async function match(asked) {
  const odd = new Set();
  worker ??= start();
  const thread = await worker;
  if (thread === null) worker = null;
  else if (!(await within(LIMIT_MS, (done) => ask(thread, asked, odd, done)))) {
    thread.terminate();
    worker = null;
  }
  return odd; // the server has the last word
}

function ask(thread, asked, odd, done) {
  thread.onmessage = ({ data: { place, isMatch, isLast } }) => {
    if (!isMatch) odd.add(place);
    if (isLast) done(true);
  };
  thread.postMessage(asked);
}

/** Returns the thread, or `null` if it does not begin. */
async function start() {
  const thread = new Worker(new URL("./pattern_worker.js", import.meta.url));
  const hasBegun = await within(START_MS, (done) => {
    thread.onmessage = () => done(true);
    thread.onerror = () => done(false);
  });
  return hasBegun ? thread : null;
}

function within(milliseconds, act) {
  return new Promise((done) => {
    const stop = setTimeout(() => done(false), milliseconds);
    act((value) => {
      clearTimeout(stop);
      done(value);
    });
  });
}
