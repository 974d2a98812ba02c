/** One task: what it says, its ticks, and the form in which it is edited. */

import { Problem, call } from "./api.js";
import { confirmed, withKey } from "./dialogs.js";
import { el, inWords, unique } from "./dom.js";

const CATEGORIES = ["work", "personal", "health", "finance", "errand"];
const LEVELS = ["low", "medium", "high", "critical"];
const MAX_TEXT = 255;
const MAX_SUBTASKS = 50;
const DAY_MS = 86_400_000;

export class TaskCard {
  /** Changes are sent one after another, so that each begins from what the one before it left. */
  #saving = Promise.resolve();
  #unsaved = 0;
  #editButton = null;
  /** While the task is being edited. */
  form = null;

  /** `gone(card)` is called when the task is deleted, `say(words)` with what a screen reader should read out. */
  constructor(task, { gone, say }) {
    Object.assign(this, { task, gone, say });
    this.trouble = el("div", { class: "trouble", role: "alert", hidden: true });
    this.element = el("li", { class: "task" });
    this.show();
  }

  /** What has the focus when the page comes to this card. */
  focus() {
    this.element.querySelector("input, button").focus();
  }

  show(task = this.task) {
    this.task = task;
    const titleId = unique("title");
    this.tick = el("input", { type: "checkbox", checked: task.is_done, onchange: () => this.#tickTask() });
    this.ticks = new Map(task.subtasks.map(({ id, is_done: isDone }) =>
      [id, el("input", { type: "checkbox", checked: isDone, onchange: () => this.#tickSubtask(id) })]));
    this.#editButton = el("button", { type: "button", class: "quiet-button", "aria-label": `Edit ${task.title}`,
      onclick: () => this.#edit() }, "Edit");
    const deleteButton = el("button", { type: "button", class: "quiet-button", "aria-label": `Delete ${task.title}`,
      onclick: () => this.#delete() }, "Delete");
    this.element.replaceChildren(el("article", { "aria-labelledby": titleId },
      el("h3", {}, el("label", { class: "choice" }, this.tick, el("span", { class: "text", id: titleId }, task.title))),
      el("ul", { class: "facts", "aria-label": "About this task" }, this.#facts()),
      el("p", { class: "quiet text" }, task.priority.reason),
      task.subtasks.length > 0 ? this.#subtasks() : null,
      this.trouble,
      el("p", { class: "buttons" }, this.#editButton, deleteButton),
    ));
    this.#mark();
  }

  #facts() {
    const { priority, category, due_date: due } = this.task;
    return [
      el("li", { class: "level", "data-level": priority.level }, `${inWords(priority.level)} priority`),
      el("li", { class: "due" }, due ? el("time", { datetime: due }, dueWords(due)) : "No date"),
      el("li", { class: "category" }, inWords(category)),
    ];
  }

  #subtasks() {
    return el("ul", { class: "subtasks", "aria-label": "Subtasks" }, this.task.subtasks.map(({ id, title }) =>
      el("li", {}, el("label", { class: "choice" }, this.ticks.get(id), el("span", { class: "text" }, title)))));
  }

  /** Ticks as the task has them. */
  #mark() {
    const { is_done: isDone, due_date: due, subtasks } = this.task;
    this.element.dataset.state = isDone ? "done" : "open";
    this.element.toggleAttribute("data-overdue", !isDone && due !== null && daysUntil(due) < 0);
    this.tick.checked = isDone;
    for (const { id, is_done: isSubtaskDone } of subtasks) {
      const tick = this.ticks.get(id);
      if (tick) tick.checked = isSubtaskDone;
    }
  }

  #tickTask() {
    const isDone = this.tick.checked;
    this.#save(() => ({ is_done: isDone }), `${isDone ? "Done" : "Open again"}: ${this.task.title}`);
  }

  #tickSubtask(id) {
    const isDone = this.ticks.get(id).checked;
    const title = this.task.subtasks.find((one) => one.id === id)?.title ?? "";
    const change = () => ({
      subtasks: this.task.subtasks.map((one) => (one.id === id ? { ...one, is_done: isDone } : one)),
    });
    this.#save(change, `${isDone ? "Done" : "Open again"}: ${title}`);
  }

  /** Returns whether it was saved. What was not is shown as it was before. */
  #save(change, words) {
    this.#unsaved += 1;
    const saved = this.#saving.then(() => this.#patch(change(), words));
    this.#saving = saved.then(() => {
      this.#unsaved -= 1;
      if (this.#unsaved === 0 && this.form === null) this.#mark(); // later ticks stay as the user has set them
    });
    return saved;
  }

  async #patch(changed, words) {
    try {
      this.task = await withKey(() => call("PATCH", this.#path, changed));
      this.#showTrouble("");
      this.say(words);
      return true;
    } catch (problem) {
      this.#failed(problem);
      return false;
    }
  }

  get #path() {
    return `/tasks/${encodeURIComponent(this.task.id)}`;
  }

  #failed(problem) {
    if (!(problem instanceof Problem)) throw problem;
    if (problem.code === "unknown-task") {
      this.say(`This task was deleted elsewhere: ${this.task.title}`);
      this.gone(this);
    } else {
      this.#showTrouble(problem.status === 0 ? "The server cannot be reached. Nothing was changed." : problem.message);
    }
  }

  #showTrouble(words) {
    this.trouble.hidden = !words;
    this.trouble.replaceChildren(words);
  }

  async #delete() {
    if (!(await confirmed(this.task.title))) return;
    try {
      await withKey(() => call("DELETE", this.#path));
      this.say(`Deleted: ${this.task.title}`);
      this.gone(this);
    } catch (problem) {
      this.#failed(problem);
    }
  }

  #edit() {
    const { title, due_date: due, category, priority } = this.task;
    const fields = {
      title: el("input", { maxlength: MAX_TEXT, required: true, autocomplete: "off", value: title }),
      due: el("input", { type: "date", max: "9999-12-31", value: due ?? "" }),
      category: choice(CATEGORIES, category),
      level: choice(LEVELS, priority.level),
    };
    const rows = el("ul", { class: "rows" });
    for (const subtask of this.task.subtasks) rows.append(this.#row(subtask));
    const add = () => {
      if (rows.children.length >= MAX_SUBTASKS) return;
      rows.append(this.#row({ title: "", is_done: false }));
      rows.lastElementChild.querySelector("input").focus();
    };
    this.#showTrouble("");
    this.form = el("form", { class: "edit", method: "dialog", "aria-label": `Edit ${title}` },
      field("Title", fields.title),
      el("div", { class: "fields" }, field("Due date", fields.due), field("Category", fields.category),
        field("Priority", fields.level)),
      el("fieldset", { class: "field" }, el("legend", {}, "Subtasks"), rows,
        el("button", { type: "button", class: "quiet-button", onclick: add }, "Add subtask")),
      this.trouble,
      el("p", { class: "buttons" }, el("button", { type: "submit" }, "Save"),
        el("button", { type: "button", class: "quiet-button", onclick: () => this.#leave() }, "Cancel")),
    );
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit(fields, rows);
    });
    this.form.addEventListener("keydown", (event) => event.key === "Escape" && !event.isComposing && this.#leave());
    this.element.replaceChildren(this.form);
    this.element.dataset.state = "editing";
    fields.title.focus();
  }

  /** A subtask in the form. It keeps its id, and its tick. */
  #row({ id, title, is_done: isDone }) {
    const input = el("input", { "aria-label": "Subtask", maxlength: MAX_TEXT, autocomplete: "off", value: title });
    const remove = () => {
      const next = row.nextElementSibling ?? row.previousElementSibling;
      (next?.querySelector("input") ?? row.parentElement.nextElementSibling).focus();
      row.remove();
    };
    const row = el("li", {}, input, el("button", { type: "button", class: "quiet-button", onclick: remove,
      "aria-label": `Remove subtask ${title}`.trim() }, "Remove"));
    row.read = () => ({ ...(id ? { id } : {}), title: input.value.trim(), is_done: isDone });
    return row;
  }

  async #submit(fields, rows) {
    const { task } = this;
    const subtasks = [...rows.children].map((row) => row.read()).filter(({ title }) => title);
    const given = {
      title: fields.title.value.trim(),
      due_date: fields.due.value || null,
      category: fields.category.value,
      priority: { level: fields.level.value },
      subtasks,
    };
    if (!given.title) {
      this.#showTrouble("A task needs a title.");
      fields.title.focus();
      return;
    }
    // what was not edited is not sent: another tab may have changed it
    const kept = { ...task, priority: { level: task.priority.level } };
    const isSame = (name) => JSON.stringify(given[name]) === JSON.stringify(kept[name]);
    const changed = Object.fromEntries(Object.entries(given).filter(([name]) => !isSame(name)));
    if (Object.keys(changed).length > 0 && !(await this.#save(() => changed, `Saved: ${given.title}`))) return;
    this.#leave();
  }

  #leave() {
    this.form = null;
    this.#showTrouble("");
    this.show();
    this.#editButton.focus();
  }
}

function field(words, input) {
  input.id = unique("field");
  return el("div", { class: "field" }, el("label", { for: input.id }, words), input);
}

/** `known`, and whatever the task has: the server may know others. */
function choice(known, chosen) {
  const names = known.includes(chosen) ? known : [...known, chosen];
  const select = el("select", {}, names.map((name) => el("option", { value: name }, inWords(name))));
  select.value = chosen;
  return select;
}

/** A day without a time is a day of the reader's calendar, wherever they are. */
function dayOf(written) {
  const [year, month, day] = written.split("-").map(Number);
  return new Date(year, month - 1, day);
}

function daysUntil(written) {
  const now = new Date();
  return Math.round((dayOf(written) - new Date(now.getFullYear(), now.getMonth(), now.getDate())) / DAY_MS);
}

/** `Due tomorrow`, `Due Fri 2 Oct`, `Was due Mon 28 Sept`. */
export function dueWords(written) {
  const days = daysUntil(written);
  if (days === 0) return "Due today";
  if (days === 1) return "Due tomorrow";
  const day = dayOf(written);
  const year = day.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  const parts = { weekday: "short", day: "numeric", month: "short", year };
  const named = new Intl.DateTimeFormat("en-GB", parts).format(day);
  return days < 0 ? `Was due ${named}` : `Due ${named}`;
}
