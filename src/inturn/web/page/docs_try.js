/** A request that can be copied as a curl command, and made from the page. */

import { el, unique } from "./dom.js";
import { apiKey } from "./storage.js";

/** How much of a stream is shown; the rest is left unread. */
const MAX_SHOWN = 64 * 1024;

export function code(text, label) {
  const shown = el("pre", { tabindex: 0, role: "region", "aria-label": label }, text);
  const button = el("button", { type: "button", class: "quiet-button" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(shown.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(shown); // plain http has no clipboard: it is selected, to be copied by hand
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  return el("div", { class: "code" }, button, shown);
}

export function curl(method, path, body) {
  const quoted = (text) => `'${String(text).replaceAll("'", "'\\''")}'`;
  const lines = [`curl -sS -X ${method.toUpperCase()} ${quoted(location.origin + path)}`];
  if (path.startsWith("/api/")) lines.push(`-H 'Authorization: Bearer YOUR_KEY'`);
  if (body !== null) lines.push(`-H 'Content-Type: application/json'`, `-d ${quoted(JSON.stringify(body))}`);
  return lines.join(" \\\n  ");
}

/** `parameters`: of the path and the query. `body`: an example of it, or `null`. */
export function tryIt(method, path, parameters, body) {
  const fields = parameters.map((parameter) => {
    const input = el("input", { id: unique("try"), autocomplete: "off", required: parameter.in === "path" });
    return { ...parameter, input };
  });
  const area = body === null ? null : el("textarea", { id: unique("try"), spellcheck: "false" });
  if (area) area.value = JSON.stringify(body, null, 2);
  const answer = el("div", { class: "answer", role: "status" });
  const send = el("button", { type: "submit" }, "Send");
  const form = el("form", { "aria-label": `${method.toUpperCase()} ${path}` },
    fields.map(({ name, input }) => el("p", {}, el("label", { for: input.id }, name), input)),
    area && el("p", {}, el("label", { for: area.id }, "Body"), area),
    el("p", { class: "buttons" }, send),
    answer,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    send.disabled = true;
    try {
      await show(answer, method, fill(path, fields), area?.value);
    } finally {
      send.disabled = false;
    }
  });
  return el("details", { class: "try" }, el("summary", {}, "Try it"), form);
}

function fill(path, fields) {
  const query = new URLSearchParams();
  let filled = path;
  for (const { name, in: place, input } of fields) {
    if (place === "path") filled = filled.replace(`{${name}}`, encodeURIComponent(input.value));
    else if (input.value) query.append(name, input.value);
  }
  return query.size > 0 ? `${filled}?${query}` : filled;
}

async function show(answer, method, path, body) {
  const headers = apiKey.get() ? { authorization: `Bearer ${apiKey.get()}` } : {};
  if (body !== undefined) headers["content-type"] = "application/json";
  answer.replaceChildren(el("p", { class: "quiet" }, "Sending …"));
  try {
    const response = await fetch(path, { method: method.toUpperCase(), headers, body, cache: "no-store" });
    const type = response.headers.get("content-type") ?? "";
    const head = el("p", {}, el("b", {}, `${response.status} ${response.statusText}`), ` ${type}`);
    const shown = el("pre", { tabindex: 0, role: "region", "aria-label": "Response" });
    answer.replaceChildren(head, shown);
    await read(response, shown);
    if (shown.textContent === "") shown.remove();
  } catch {
    answer.replaceChildren(el("p", { class: "wrong" }, "The server cannot be reached, or the connection broke."));
  }
}

async function read(response, shown) {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    shown.textContent += value;
    if (shown.textContent.length > MAX_SHOWN) {
      await reader.cancel();
      return;
    }
  }
  if (/json/.test(response.headers.get("content-type") ?? "")) {
    shown.textContent = JSON.stringify(JSON.parse(shown.textContent), null, 2);
  }
}
