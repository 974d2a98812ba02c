/** One task: what it says, its ticks, and the form in which it is edited. */

import { Problem, call } from "./api.js";
import { confirmed, withKey } from "./dialogs.js";
import { el, inWords, unique } from "./dom.js";
import { dueWords, isOver } from "./words.js";

const CATEGORIES = ["work", "personal", "health", "finance", "errand"];
const LEVELS = ["low", "medium", "high", "critical"];
const MAX_TEXT = 255;
const MAX_SUBTASKS = 50;

export class TaskCard {
  /** Changes are sent one after another, so that each begins from what the one before it left. */
  #saving = Promise.resolve();
  #unsaved = 0;
  #editButton = null;
  #shown = "";
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
    this.#shown = withoutTicks(task);
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
    this.element.toggleAttribute("data-overdue", !isDone && due !== null && isOver(due));
    this.tick.checked = isDone;
    for (const { id, is_done: isSubtaskDone } of subtasks) {
      const tick = this.ticks.get(id);
      if (tick) tick.checked = isSubtaskDone;
    }
  }

  /** What another tab has changed is seen too; whoever is in the card stays there. */
  #showAgain() {
    if (withoutTicks(this.task) === this.#shown) {
      this.#mark();
      return;
    }
    const [focused] = [...this.ticks].find(([, tick]) => tick === document.activeElement) ?? [];
    const hadFocus = this.element.contains(document.activeElement);
    this.show();
    if (hadFocus) (this.ticks.get(focused) ?? this.tick).focus();
  }

  #tickTask() {
    const isDone = this.tick.checked;
    this.#save(() => ({ is_done: isDone }), `${isDone ? "Done" : "Open again"}: ${this.task.title}`);
  }

  #tickSubtask(id) {
    const isDone = this.ticks.get(id).checked;
    const title = this.task.subtasks.find((one) => one.id === id)?.title ?? "";
    // all subtasks are sent: those that another tab has added or removed since are as it left them
    const change = async () => {
      const { subtasks } = await withKey(() => call("GET", this.#path));
      return { subtasks: subtasks.map((one) => (one.id === id ? { ...one, is_done: isDone } : one)) };
    };
    this.#save(change, `${isDone ? "Done" : "Open again"}: ${title}`);
  }

  /** Returns whether it was saved. What was not is shown as it was before. */
  #save(change, words) {
    this.#unsaved += 1;
    const saved = this.#saving.then(() => this.#patch(change, words));
    this.#saving = saved.then(() => {
      this.#unsaved -= 1;
      if (this.#unsaved === 0 && this.form === null) this.#showAgain(); // later ticks stay as the user has set them
    });
    return saved;
  }

  async #patch(change, words) {
    try {
      const changed = await change();
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
    const { task } = this;
    const { title, due_date: due, category, priority } = task;
    const fields = {
      title: el("input", { maxlength: MAX_TEXT, required: true, autocomplete: "off", value: title }),
      due: el("input", { type: "date", max: "9999-12-31", value: due ?? "" }),
      category: choice(CATEGORIES, category),
      level: choice(LEVELS, priority.level),
    };
    const rows = el("ul", { class: "rows" });
    for (const subtask of this.task.subtasks) rows.append(this.#row(subtask));
    const add = () => {
      if (rows.children.length >= MAX_SUBTASKS) {
        this.#showTrouble(`A task has at most ${MAX_SUBTASKS} subtasks.`);
        return;
      }
      rows.append(this.#row({ title: "" }));
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
      this.#submit(task, fields, rows);
    });
    this.form.addEventListener("keydown", (event) => event.key === "Escape" && !event.isComposing && this.#leave());
    this.element.replaceChildren(this.form);
    this.element.dataset.state = "editing";
    fields.title.focus();
  }

  /** A subtask in the form. It keeps its id. */
  #row({ id, title }) {
    const input = el("input", { "aria-label": "Subtask", maxlength: MAX_TEXT, autocomplete: "off", value: title });
    const remove = () => {
      const next = row.nextElementSibling ?? row.previousElementSibling;
      (next?.querySelector("input") ?? row.parentElement.nextElementSibling).focus();
      row.remove();
    };
    const row = el("li", {}, input, el("button", { type: "button", class: "quiet-button", onclick: remove,
      "aria-label": `Remove subtask ${title}`.trim() }, "Remove"));
    row.read = () => ({ ...(id ? { id } : {}), title: input.value.trim() });
    return row;
  }

  /** Sends what differs from `task`, which the form was opened with: the rest may have changed since. */
  async #submit(task, fields, rows) {
    const { form } = this;
    if (form.ariaBusy === "true") return; // Enter was pressed twice
    const given = {
      title: fields.title.value.trim(),
      due_date: fields.due.value || null,
      category: fields.category.value,
      priority: { level: fields.level.value },
      subtasks: [...rows.children].map((row) => row.read()).filter(({ title }) => title),
    };
    if (!given.title) {
      this.#showTrouble("A task needs a title.");
      fields.title.focus();
      return;
    }
    const kept = {
      ...task,
      priority: { level: task.priority.level },
      subtasks: task.subtasks.map(({ id, title }) => ({ id, title })),
    };
    const isSame = (name) => JSON.stringify(given[name]) === JSON.stringify(kept[name]);
    const changed = Object.fromEntries(Object.entries(given).filter(([name]) => !isSame(name)));
    form.ariaBusy = "true";
    const isSaved = Object.keys(changed).length === 0
      || (await this.#save(() => this.#withTicks(changed), `Saved: ${given.title}`));
    form.ariaBusy = "false";
    if (isSaved && this.form === form) this.#leave();
  }

  /** A subtask that is sent without its tick would lose it. */
  #withTicks({ subtasks, ...rest }) {
    if (subtasks === undefined) return rest;
    const done = new Set(this.task.subtasks.filter((one) => one.is_done).map(({ id }) => id));
    return { ...rest, subtasks: subtasks.map((one) => ({ ...one, is_done: done.has(one.id) })) };
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

/** What a card shows of a task, apart from its ticks: two that are the same look the same. */
function withoutTicks({ title, due_date: due, category, priority, subtasks }) {
  return JSON.stringify([title, due, category, priority, subtasks.map((one) => [one.id, one.title])]);
}
