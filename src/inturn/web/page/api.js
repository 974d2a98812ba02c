/** Calls this server's API and reads its event streams. A failure is a `Problem` that says what to do next. */

import { apiKey } from "./storage.js";

const ROOT = "/api/v1";

export class Problem extends Error {
  constructor({ status = 0, code = "", title = "", detail = "", retryAfterS = null }) {
    super(detail || title || "Something went wrong.");
    this.status = status;
    this.code = code;
    this.title = title;
    this.retryAfterS = retryAfterS;
  }

  /** Whether the same message may be sent again as it is. */
  get isWorthRepeating() {
    return this.status === 0 || this.status === 429 || this.status >= 500 || this.code === "conversation-busy";
  }
}

export async function call(method, path, body, headers = {}) {
  const response = await request(method, path, body, "application/json", headers);
  if (response.status === 204) return null;
  try {
    return await response.json();
  } catch {
    throw cutOff();
  }
}

/** POSTs `body`. `hear(name, data)` gets every event; returns when the stream has ended. */
export async function stream(path, body, hear) {
  await hearAll(await request("POST", path, body, "text/event-stream"), hear);
}

/** The events of something that goes on by itself, heard as by `stream`. (An `EventSource` cannot send an API key.) */
export async function follow(path, hear) {
  await hearAll(await request("GET", path, undefined, "text/event-stream"), hear);
}

async function hearAll(response, hear) {
  try {
    for await (const { name, data } of readEvents(response.body)) hear(name, data ? JSON.parse(data) : {});
  } catch (error) {
    throw error instanceof Problem ? error : cutOff();
  }
}

async function request(method, path, body, accept, more = {}) {
  const headers = { ...more, accept };
  if (apiKey.get()) headers.authorization = `Bearer ${apiKey.get()}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(ROOT + path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
    });
  } catch {
    throw new Problem({
      code: "unreachable",
      title: "The server cannot be reached.",
      detail: "The server cannot be reached. Nothing is lost: try again when it is back.",
    });
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

async function problemOf(response) {
  let told = {};
  try {
    told = await response.json();
  } catch {
    // not every refusal, a proxy's for example, is a problem document
  }
  const retryAfterS = Number.parseInt(response.headers.get("retry-after") ?? "", 10);
  return readProblem({ status: response.status, ...told }, Number.isFinite(retryAfterS) ? retryAfterS : null);
}

export function readProblem(told, retryAfterS = null) {
  const after = retryAfterS ?? (Number.isFinite(told.retry_after) ? told.retry_after : null);
  return new Problem({
    status: Number(told.status) || 500,
    code: String(told.code ?? ""),
    title: String(told.title ?? ""),
    detail: typeof told.detail === "string" ? told.detail : "",
    retryAfterS: after,
  });
}

export function cutOff() {
  return new Problem({
    code: "cut-off",
    title: "The connection broke.",
    detail: "The connection broke before the answer was complete. Try again: the same message is never answered twice.",
  });
}

/** Reads server-sent events from the body of a response, as they come. */
export async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return; // an event that was cut off does not count
      text += value;
      // a carriage return at the end may be the first half of a line break
      const held = text.endsWith("\r") ? 1 : 0;
      const lines = text.slice(0, text.length - held).replace(/\r\n?/g, "\n") + text.slice(text.length - held);
      const blocks = lines.split("\n\n");
      text = blocks.pop();
      for (const block of blocks) {
        const event = readEvent(block);
        if (event !== null) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function readEvent(block) {
  const event = { name: "message", data: "" };
  const data = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon === 0) continue; // a comment, sent to keep the connection open
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") event.name = value;
    if (field === "data") data.push(value);
  }
  if (data.length === 0 && event.name === "message") return null;
  event.data = data.join("\n");
  return event;
}
