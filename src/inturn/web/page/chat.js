/** The chat page: begins or restores a conversation, and passes on what is written and what is answered. */

import { Problem, call } from "./api.js";
import { Composer } from "./composer.js";
import { askForKey, askHowToStart } from "./dialogs.js";
import { byId, el, inWords, newId } from "./dom.js";
import { Log } from "./log.js";
import { makeSheet, nameFields, showCollected, showProgress } from "./panel.js";
import { Outbox } from "./outbox.js";
import { address, forget, newest, preferredBusy, unanswered } from "./storage.js";

const POLICIES = {
  reject: "Messages that arrive during an answer are refused (409)",
  queue: "Messages that arrive during an answer wait in order",
  merge: "Messages that arrive during an answer are merged",
};
const RACES = {
  reject: "The first to arrive is answered. The others are refused (409), and can be tried again.",
  queue: "The first to arrive is answered. The others wait, and each is answered in turn.",
  merge: "The first to arrive is answered. The others wait, and become one turn with one answer.",
};

const log = new Log(byId("log"), byId("status"));
const composer = new Composer((text) => send({ id: newId(), text }));
const sheet = makeSheet();
let definitions = [];
let definition = null;
let outbox = null;
let turnShown = -1;
let statusShown = "";
const others = new BroadcastChannel("inturn");

/** Puts a conversation on the page. What the last one still gets is not shown any more. */
function enter({ id, busy, agent = "", restoredTurns = -1 }) {
  outbox?.leave();
  address.set(id);
  log.clear();
  turnShown = -1;
  const conversation = { id, busy, agent, restoredTurns };
  outbox = new Outbox(log, conversation, {
    answered: (response, asked) => show(conversation, response, asked),
    over,
  });
  byId("policy").textContent = POLICIES[busy] ?? "";
  byId("race-text").textContent = RACES[busy] ?? "";
  document.body.dataset.busy = busy;
  return conversation;
}

function send(message, card = null) {
  composer.offer([], null);
  outbox.send(message, card);
}

function submitCard(card, filled) {
  const text = card.title ? `Form sent: ${card.title}` : "Form sent";
  send({ id: newId(), text, card: filled }, card);
  composer.field.focus();
}

function show(conversation, response, asked = null) {
  conversation.agent = response.agent;
  const { turn_number: turn, collected_this_turn: fresh } = response.turn_meta;
  const isNewest = turn >= turnShown;
  log.addAnswer(asked, turn, () => {
    for (const message of response.messages) say(response.agent, message);
    const { kind, errors } = response.parsed_turn;
    if (kind === "structured" && errors.length > 0) log.addNotice(`Not recorded: ${errors.join("; ")}`);
    if (isNewest) stand(response.workflow_state, response.progress, fresh);
  });
  if (!isNewest) return;
  turnShown = turn;
  const cards = response.messages.filter((message) => message.kind === "adaptiveCard");
  newest.set(conversation.id, turnShown, response.agent, cards);
  others.postMessage(conversation.id);
}

function say(agent, message) {
  const name = nameOf(agent);
  if (message.kind === "adaptiveCard" && message.card) log.addCard(name, message.card, message.card_id, submitCard);
  else if (message.text.trim()) log.addAssistant(name, message.text.trim(), message.citations);
}

function nameOf(agent) {
  return agent ? `${inWords(agent)} agent` : "Assistant";
}

function stand(state, progress, fresh = {}) {
  statusShown = state.status;
  showProgress(progress, state.status);
  showCollected(state.collected_data, fresh);
  const isCompleted = state.status === "completed";
  for (const card of log.openCards) {
    if (isCompleted || isPast(card.id, state.current_step)) card.close("Answered");
    else card.fill(state.collected_data);
  }
  composer.offer(isCompleted ? [] : state.choices, state.suggested_input_type);
  composer.finish(isCompleted);
  byId("race-go").disabled = isCompleted;
}

/** Whether the card belongs to a step that is over: the user has answered it in words. */
function isPast(cardId, currentStep) {
  const steps = definition?.steps ?? [];
  const place = steps.findIndex((step) => step.card_id === cardId);
  const current = steps.findIndex((step) => step.id === currentStep);
  return place >= 0 && (current < 0 || place < current);
}

function title(words) {
  byId("title").textContent = words;
  document.title = `${words} · inturn`;
}

async function begin({ which, busy } = { busy: preferredBusy.get() }) {
  const response = await call("POST", "/workflows", { definition: which, busy });
  definition = definitions.find(({ id }) => id === which) ?? definitions[0];
  nameFields(definition);
  title(definition?.title ?? "Conversation");
  show(enter({ id: response.conversation_id, busy }), response);
  composer.ready();
}

function read(id) {
  return call("GET", `/workflows/${encodeURIComponent(id)}`);
}

function restore(id, session) {
  const state = session.workflow_state;
  const kept = newest.get(id);
  const agent = kept?.agent ?? session.agent;
  definition = definitions.find((one) => one.id === session.definition);
  nameFields(definition);
  title(session.title);
  enter({ id, busy: session.busy, agent, restoredTurns: state.turn_count });
  turnShown = state.turn_count;
  for (const { role, text } of session.history) {
    if (role === "user") log.addUser(text, "");
    else log.addAssistant(nameOf(agent), text);
  }
  for (const message of cardsOf(session, kept)) say(agent, message);
  stand(state, session.progress);
  for (const message of unanswered.get(id)) outbox.restore(message);
  log.toEnd();
  composer.ready();
}

/** Shows what was said in another tab, or on another device, since this page was last looked at. */
async function catchUp() {
  const id = address.get();
  if (outbox === null || document.hidden) return;
  const session = await read(id).catch(() => null); // the next message that is sent tells what is wrong
  if (session === null || id !== address.get() || outbox.isBusy) return;
  const { turn_count: turns, status } = session.workflow_state;
  if (turns > turnShown || status !== statusShown) restore(id, session);
}

/** This tab knows the cards of the newest answer; any other shows the card of the step. */
function cardsOf({ card, workflow_state: state }, kept) {
  if (kept?.turn === state.turn_count && kept.cards.length > 0) return kept.cards;
  return card ? [{ kind: "adaptiveCard", card, card_id: card.id }] : [];
}

/** Deals with problems of the whole conversation rather than of one message. */
function over(problem, repeat) {
  if (problem.status === 401) {
    // the dialog gives the focus back when it closes: whoever goes on typing then writes a message
    if (document.activeElement === document.body) composer.field.focus();
    askForKey().then(repeat);
    return true;
  }
  if (problem.code === "session-completed") {
    open();
    return true;
  }
  if (problem.status === 404) {
    const button = el("button", { type: "button", onclick: startAgain }, "Start again");
    log.addNotice("This conversation is over.", button);
    return true;
  }
  return false;
}

/** Does what must work before anything else can. If it fails, the user can try it again. */
async function must(step) {
  try {
    await step();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    if (over(problem, () => must(step))) return;
    const button = el("button", { type: "button" }, "Try again");
    const notice = log.addNotice(problem.message, button);
    button.addEventListener("click", () => {
      log.scroller.focus({ preventScroll: true }); // the button goes away
      notice.remove();
      must(step);
    });
  }
}

function open() {
  return must(async () => {
    definitions = await call("GET", "/workflow-definitions");
    const id = address.get();
    await (id ? restoreOrBegin(id) : begin());
  });
}

async function restoreOrBegin(id) {
  try {
    restore(id, await read(id));
  } catch (problem) {
    if (!(problem instanceof Problem) || problem.status === 401 || problem.isWorthRepeating) throw problem;
    forget(id);
    await begin();
    log.addNotice("The conversation at this address is over. This is a new one.");
  }
}

function startAgain() {
  forget(address.get());
  sheet.close();
  return must(async () => {
    await begin();
    composer.field.focus();
  });
}

byId("again").addEventListener("click", startAgain);
byId("new").addEventListener("click", async () => {
  const chosen = await askHowToStart(definitions);
  if (chosen === null) return;
  must(async () => {
    await begin(chosen);
    composer.field.focus();
  });
});
byId("race").addEventListener("submit", (event) => {
  event.preventDefault();
  sheet.close();
  for (const id of ["race-1", "race-2", "race-3"]) {
    const text = byId(id).value.trim();
    if (text) send({ id: newId(), text });
  }
});
byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is the conversation's
  composer.field.focus();
});
addEventListener("hashchange", open);
addEventListener("pagehide", () => outbox?.leave()); // what leaving cuts off was not refused
addEventListener("pageshow", ({ persisted }) => persisted && open());
document.addEventListener("visibilitychange", catchUp);
others.addEventListener("message", ({ data }) => data === address.get() && catchUp());
open();
