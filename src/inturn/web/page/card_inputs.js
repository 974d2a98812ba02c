/**
 * The inputs of adaptive cards. `read()`: what was filled in; `write()` fills it; `toMatch()`: the pattern that it must
 * match, if any; `wrong(isOdd)`: what is wrong with it, where `isOdd` means that it does not match.
 */

import { el, inWords, unique } from "./dom.js";
import { isCalled, objects } from "./card_elements.js";

const KINDS = new Set(["email", "tel", "url", "password"]);

export function makeInput(part) {
  switch (part.type) {
    case "Input.Text":
      return single(part, part.isMultiline ? el("textarea", { rows: 3 }) : el("input", { type: kind(part) }));
    case "Input.Number":
      return single(part, el("input", { type: "number", step: "any", min: part.min, max: part.max }));
    case "Input.Date":
      return single(part, el("input", { type: "date", min: part.min, max: part.max }));
    case "Input.Time":
      return single(part, el("input", { type: "time", min: part.min, max: part.max }));
    case "Input.Toggle":
      return toggle(part);
    case "Input.ChoiceSet":
      return isCalled(part.style, "expanded") || part.isMultiSelect ? list(part) : single(part, menu(part));
    default:
      return null;
  }
}

function kind(part) {
  const style = String(part.style ?? "").toLowerCase();
  return KINDS.has(style) ? style : "text";
}

function labelOf(part) {
  return String(part.label || part.title || part.placeholder || inWords(part.id));
}

/** A field with a label before it, and a place after it for what is wrong with it. */
function framed(part, label, controls, first) {
  const message = el("p", { class: "wrong", id: unique("wrong"), hidden: true });
  const element = el("div", { class: "field" }, label, controls, message);
  return {
    id: String(part.id ?? ""),
    element,
    first,
    tell(why) {
      message.hidden = !why;
      message.textContent = why ?? "";
      for (const control of element.querySelectorAll("input, select, textarea")) {
        if (why) {
          control.setAttribute("aria-invalid", "true");
          control.setAttribute("aria-describedby", message.id);
        } else {
          control.removeAttribute("aria-invalid");
          control.removeAttribute("aria-describedby");
        }
      }
    },
  };
}

function mark(part) {
  return part.isRequired ? el("span", { class: "needed", "aria-hidden": "true" }, " *") : null;
}

function single(part, control) {
  control.id = unique("input");
  control.autocomplete = "off";
  if (part.placeholder && control.tagName !== "SELECT") control.placeholder = String(part.placeholder);
  if (part.maxLength > 0) control.maxLength = part.maxLength;
  if (part.isRequired) control.setAttribute("aria-required", "true");
  if (part.value !== undefined && part.value !== null) control.value = String(part.value);
  const field = framed(part, el("label", { for: control.id }, labelOf(part), mark(part)), control, control);
  return {
    ...field,
    read: () => (part.type === "Input.Number" && control.value !== "" ? Number(control.value) : control.value.trim()),
    write: (value) => (control.value = String(value)),
    toMatch: () => toMatch(part, control.value.trim()),
    wrong: (isOdd) => whatIsWrong(part, control.value.trim(), isOdd, control.validity),
  };
}

function menu(part) {
  const control = el("select", {}, el("option", { value: "" }, String(part.placeholder || "Choose one")));
  for (const choice of objects(part.choices)) {
    control.append(el("option", { value: String(choice.value) }, String(choice.title ?? choice.value)));
  }
  return control;
}

/** Radio buttons, or check boxes where several may be chosen. */
function list(part) {
  const name = unique("choices");
  const chosen = new Set(part.isMultiSelect ? String(part.value ?? "").split(",") : [String(part.value ?? "")]);
  const boxes = objects(part.choices).map((choice) => {
    const box = el("input", { type: part.isMultiSelect ? "checkbox" : "radio", name, value: String(choice.value) });
    box.checked = chosen.has(String(choice.value));
    return box;
  });
  const rows = boxes.map((box, place) =>
    el("label", { class: "choice" }, box, el("span", {}, String(objects(part.choices)[place].title ?? box.value))),
  );
  const group = el("fieldset", { class: "choices" }, el("legend", {}, labelOf(part), mark(part)), rows);
  const field = framed(part, null, group, boxes[0]);
  const read = () => boxes.filter((box) => box.checked).map((box) => box.value).join(",");
  const write = (value) => boxes.forEach((box) => (box.checked = box.value === String(value)));
  const wrong = (isOdd) => whatIsWrong(part, read(), isOdd);
  return { ...field, read, write, toMatch: () => toMatch(part, read()), wrong };
}

function toggle(part) {
  const on = String(part.valueOn ?? "true");
  const off = String(part.valueOff ?? "false");
  const box = el("input", { type: "checkbox", id: unique("input") });
  box.checked = String(part.value ?? off) === on;
  const title = String(part.title || part.label || inWords(part.id));
  const above = part.label && part.label !== title ? el("p", { class: "above" }, String(part.label)) : null;
  const row = el("label", { class: "choice" }, box, el("span", {}, title, mark(part)));
  const field = framed(part, above, row, box);
  const missing = () => (part.isRequired && !box.checked ? told(part, "must be checked") : null);
  const write = (value) => (box.checked = String(value) === on);
  return { ...field, read: () => (box.checked ? on : off), write, toMatch: () => null, wrong: missing };
}

function told(part, otherwise) {
  return String(part.errorMessage || `${labelOf(part)} ${otherwise}.`);
}

function toMatch(part, value) {
  return typeof part.regex === "string" && value !== "" ? { pattern: part.regex, value } : null;
}

function whatIsWrong(part, value, isOdd, validity) {
  if (validity?.badInput) return told(part, "cannot be read");
  if (value === "") return part.isRequired ? told(part, "is required") : null;
  if (isOdd) return told(part, "is not in the right format");
  if (validity && !validity.valid && !validity.stepMismatch) return told(part, "is not valid");
  return null;
}
