/** How far the workflow is, and what was collected: at the side, or on a phone in a sheet that opens and closes. */

import { byId, el, inWords } from "./dom.js";

/** Names of fields, by their id, as the definition of the workflow has them. */
let labels = new Map();

export function nameFields(definition) {
  labels = new Map();
  for (const step of definition?.steps ?? []) {
    for (const field of step.fields ?? []) if (field.label) labels.set(field.name, field.label);
  }
}

export function labelOf(name) {
  return labels.get(name) ?? inWords(name);
}

export function showProgress(progress, status) {
  const { current_step: step, total_steps: total, percent_complete: percent } = progress;
  const words = status === "completed" ? "Completed" : `Step ${step} of ${total}`;
  const bar = byId("progress");
  bar.setAttribute("aria-valuenow", String(percent));
  bar.setAttribute("aria-valuetext", `${words}, ${percent} %`);
  byId("bar").style.inlineSize = `${percent}%`;
  byId("step").textContent = `${words} · ${percent} %`;
}

export function showCollected(data, fresh = {}) {
  const names = Object.keys(data);
  byId("nothing").hidden = names.length > 0;
  byId("collected").replaceChildren(
    ...names.map((name) =>
      el("div", { class: Object.hasOwn(fresh, name) ? "fresh" : null, "data-field": name },
        el("dt", {}, labelOf(name)), el("dd", {}, inText(data[name]))),
    ),
  );
  byId("show-panel").textContent = names.length > 0 ? `Details (${names.length})` : "Details";
}

export function inText(value) {
  if (value === true) return "Yes";
  if (value === false) return "No";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** On a wide window the sheet is simply there, and neither button is. */
export function makeSheet() {
  const [panel, show, hide] = [byId("panel"), byId("show-panel"), byId("hide-panel")];
  const behind = [byId("main"), document.querySelector(".top")];

  function set(isOpen) {
    panel.classList.toggle("open", isOpen);
    show.setAttribute("aria-expanded", String(isOpen));
    for (const part of behind) part.inert = isOpen;
    (isOpen ? hide : show).focus();
  }

  show.addEventListener("click", () => set(true));
  hide.addEventListener("click", () => set(false));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && panel.classList.contains("open")) set(false);
  });
  matchMedia("(min-width: 60rem)").addEventListener("change", (wide) => {
    if (wide.matches && panel.classList.contains("open")) set(false);
  });
  return { close: () => panel.classList.contains("open") && set(false) };
}
