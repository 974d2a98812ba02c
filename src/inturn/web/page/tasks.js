/** The page of tasks: takes a sentence, shows what becomes of it, and lists the tasks that there are. */

import { Problem, call } from "./api.js";
import { Budget } from "./budget.js";
import { withKey } from "./dialogs.js";
import { byId, el } from "./dom.js";
import { TaskCard } from "./task_card.js";
import { TaskRequests } from "./task_requests.js";
import { counted, dueWords } from "./words.js";

const PAGE = 20;
const NOTHING = {
  open: "Nothing to do. Say what needs doing, above.",
  done: "Nothing is done yet.",
  "": "There are no tasks yet. Say what needs doing, above.",
};

const field = byId("sentence");
const view = byId("view");
const list = byId("tasks");
const budget = new Budget();
const cards = new Map();
const requests = new TaskRequests(byId("requests"), byId("under-way"), {
  done,
  pick,
  say,
  settled: () => budget.refresh(),
});
let cursor = null;
let loads = 0;

function say(words) {
  byId("status").textContent = words;
}

/** A suggestion goes into the field, where it can be changed before it is sent. */
function pick(text) {
  if (text) field.value = text;
  field.focus();
}

/** A task that was just made stands first, whatever the order is, where its maker looks for it. */
function done(task) {
  const due = task.due_date ? `, ${dueWords(task.due_date)}` : "";
  say(`Added: ${task.title}, ${task.priority.level} priority${due}`);
  if (view.elements.status.value === "done") return;
  const card = put(task);
  list.prepend(card.element);
  card.element.classList.add("fresh");
  showWhetherEmpty();
}

/** A task is on the page once. */
function put(task) {
  const known = cards.get(task.id);
  if (known !== undefined) {
    if (known.form === null) known.show(task); // what is being edited is left alone
    return known;
  }
  const card = new TaskCard(task, { gone, say });
  cards.set(task.id, card);
  return card;
}

/** The focus goes to the next task, and not to the top of the page. */
function gone(card) {
  const next = card.element.nextElementSibling ?? card.element.previousElementSibling;
  const hadFocus = card.element.contains(document.activeElement) || document.activeElement === document.body;
  card.element.remove();
  cards.delete(card.task.id);
  showWhetherEmpty();
  if (!hadFocus) return;
  const neighbour = [...cards.values()].find(({ element }) => element === next);
  if (neighbour) neighbour.focus();
  else field.focus();
}

function showWhetherEmpty(words = NOTHING[view.elements.status.value]) {
  byId("none").hidden = cards.size > 0 || cursor !== null;
  byId("none").textContent = words;
}

/** The first page of what the view asks for, or the one after what is shown. What is being edited stays. */
async function load(from = null) {
  loads += 1;
  const mine = loads;
  const asked = new URLSearchParams({ sort: byId("sort").value, limit: PAGE });
  const status = view.elements.status.value;
  if (status) asked.set("status", status);
  if (from !== null) asked.set("cursor", from);
  if (cards.size === 0) showWhetherEmpty("Loading …");
  const found = await withKey(() => call("GET", `/tasks?${asked}`));
  if (mine !== loads) return; // the view has changed meanwhile
  if (from === null) {
    for (const [id, card] of [...cards].filter(([, { form }]) => form === null)) {
      cards.delete(id);
      card.element.remove();
    }
  }
  const added = found.tasks.filter(({ id }) => !cards.has(id)).map((task) => put(task));
  list.append(...added.map(({ element }) => element));
  cursor = found.next_cursor;
  byId("more").hidden = cursor === null;
  showWhetherEmpty();
  if (from !== null) {
    say(counted(added.length, "more task"));
    (added[0] ?? byId("tasks-title")).focus();
  }
}

/** Does what the page needs. If it fails, the user can try it again. */
async function must(step) {
  const trouble = byId("list-trouble");
  trouble.hidden = true;
  try {
    await step();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    const again = () => {
      byId("tasks-title").focus(); // the button goes away
      must(step);
    };
    const button = el("button", { type: "button", onclick: again }, "Try again");
    trouble.replaceChildren(el("p", {}, problem.message), button);
    trouble.hidden = false;
    byId("none").hidden = true;
    say(problem.message);
  }
}

byId("add").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = field.value.trim();
  field.focus();
  if (!text) return;
  field.value = "";
  requests.add(text);
});
view.addEventListener("submit", (event) => event.preventDefault());
view.addEventListener("change", () => must(async () => {
  await load();
  if (cards.size === 0) say(NOTHING[view.elements.status.value]);
  else say(cursor === null ? counted(cards.size, "task") : `${cards.size} tasks, and there are more`);
}));
byId("more").addEventListener("click", () => must(() => load(cursor)));
document.addEventListener("visibilitychange", () => document.hidden || budget.refresh());
addEventListener("pageshow", ({ persisted }) => persisted && open());

function open() {
  return must(async () => {
    await load();
    await Promise.all([requests.restore(), budget.refresh()]);
  });
}

open();
