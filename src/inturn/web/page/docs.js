/** The API reference: everything that /openapi.json describes, by tag, to read and to try. */

import { byId, el, inWords } from "./dom.js";
import { Schemas } from "./docs_schema.js";
import { apiKey } from "./storage.js";
import { code, curl, tryIt } from "./docs_try.js";

const PROBLEM = "application/problem+json";
const EXAMPLE = "Example body";
const METHODS = ["get", "post", "put", "patch", "delete", "head", "options"];

async function open() {
  const state = byId("state");
  try {
    const response = await fetch("/openapi.json", { cache: "no-store" });
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    show(await response.json());
    state.textContent = "";
  } catch (error) {
    const again = el("button", { type: "button", onclick: open }, "Try again");
    state.replaceChildren(`openapi.json cannot be loaded: ${error.message}. `, again);
  }
}

function show(description) {
  const schemas = new Schemas(description);
  byId("title").textContent = `${description.info?.title ?? ""} API reference`.trim();
  byId("version").textContent = description.info?.version ? `Version ${description.info.version} · ` : "";
  byId("about").replaceChildren(...words(description.info?.description ?? ""));
  const about = new Map((description.tags ?? []).map((tag) => [tag.name, tag.description ?? ""]));
  for (const [tag, operations] of byTag(description)) {
    const heading = inWords(tag);
    const links = operations.map(({ id, method, path }) =>
      el("li", {}, el("a", { href: `#${id}` }, badge(method), el("code", {}, breakable(path)))),
    );
    byId("contents").append(el("h2", {}, heading), el("ul", {}, links));
    const preface = about.get(tag) ? el("p", { class: "words" }, words(about.get(tag))) : null;
    const shown = operations.map((operation) => showOperation(operation, schemas));
    byId("operations").append(el("section", { class: "tag" }, el("h2", {}, heading), preface, shown));
  }
  // the place that the address names did not exist when the page was opened
  if (location.hash) byId(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
}

function byTag(description) {
  const tags = new Map((description.tags ?? []).map((tag) => [tag.name, []]));
  for (const [path, methods] of Object.entries(description.paths ?? {})) {
    for (const method of METHODS.filter((name) => methods[name])) {
      const told = methods[method];
      const parameters = [...(methods.parameters ?? []), ...(told.parameters ?? [])];
      const id = told.operationId ?? `${method}-${path.replace(/\W+/g, "-")}`;
      const tag = told.tags?.[0] ?? "other";
      tags.set(tag, [...(tags.get(tag) ?? []), { id, method, path, told, parameters }]);
    }
  }
  return [...tags].filter(([, operations]) => operations.length > 0);
}

/** Text between backticks is code. A single line break is a space; an empty line is a break. */
function words(text) {
  const parts = text.replace(/(\S)\n(?=\S)/g, "$1 ").split("`");
  return parts.map((part, place) => (place % 2 ? el("code", {}, part) : part));
}

/** A long path breaks before a slash rather than within a word. */
function breakable(path) {
  return path.split(/(?=\/)/).flatMap((part) => [el("wbr"), part]);
}

function badge(method) {
  return el("span", { class: `method ${method}` }, method.toUpperCase());
}

function showOperation({ id, method, path, told, parameters: listed }, schemas) {
  const parameters = listed.map((parameter) => schemas.find(parameter));
  const body = told.requestBody ? schemas.content(told.requestBody)[0] : undefined;
  const example = body ? (body.examples[0]?.[1] ?? schemas.example(body.schema)) : null;
  const tried = parameters.filter((parameter) => parameter.in === "path" || parameter.in === "query");
  const about = { id, "data-operation": `${method} ${path}`, "aria-label": told.summary ?? path };
  const responses = Object.entries(told.responses ?? {});
  return el("article", { class: "operation", ...about },
    el("h3", {}, badge(method), path),
    told.summary ? el("p", {}, el("b", {}, told.summary)) : null,
    told.description ? el("p", { class: "words" }, words(told.description)) : null,
    table("Parameters", ["Name", "In", "Type", "Description"], parameters.map((one) =>
      [nameOf(one.name, one.required), one.in, schemas.inWords(one.schema ?? {}), words(one.description ?? "")])),
    body ? showBody(body, example, schemas) : null,
    table("Responses", ["Status", "Meaning"], responses.map(([status, one]) =>
      showResponse(status, schemas.find(one), schemas))),
    responses.filter(([status]) => status.startsWith("2")).flatMap(([, one]) => showExamples(one, schemas)),
    el("details", {}, el("summary", {}, "curl"), code(curl(method, path, example), "curl command")),
    tryIt(method, path, tried, example),
  );
}

function nameOf(name, isNeeded) {
  return el("code", {}, isNeeded ? `${name} *` : name);
}

function showBody(body, example, schemas) {
  const rows = schemas.properties(body.schema).map(([name, kind, isNeeded, about]) =>
    [nameOf(name, isNeeded), kind, words(about)]);
  return el("div", {},
    table("Body", ["Field", "Type", "Description"], rows),
    el("details", {}, el("summary", {}, EXAMPLE), code(JSON.stringify(example, null, 2), EXAMPLE)),
  );
}

function showResponse(status, response, schemas) {
  const content = schemas.content(response);
  const other = content.filter(({ type }) => type !== PROBLEM);
  const kinds = other.map(({ type, schema }) => (schema ? `${schemas.inWords(schema)} (${type})` : type)).join("; ");
  const told = [response.description, kinds].filter(Boolean).join(" · ");
  const problems = problemsOf(content).map((one) => el("div", {}, el("code", {}, one.code), ` ${one.title}`));
  return [el("code", {}, status), problems.length > 0 ? problems : words(told)];
}

/** With their stable codes, from their examples. */
function problemsOf(content) {
  return content.flatMap(({ examples }) => examples.map(([, value]) => value)).filter((value) => value?.code);
}

function showExamples(response, schemas) {
  return schemas.content(response).flatMap(({ type, schema, examples }) => {
    const made = schema && /json/.test(type) ? [["example", schemas.example(schema)]] : [];
    return (examples.length > 0 ? examples : made).map(([name, value]) => {
      const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
      const title = name === "example" ? "Example response" : `Example response: ${name}`;
      return el("details", {}, el("summary", {}, title), code(text, title));
    });
  });
}

function table(title, heads, rows) {
  if (rows.length === 0) return null;
  return el("div", {}, el("h4", {}, title),
    el("div", { class: "scrolls", tabindex: 0, role: "region", "aria-label": title },
      el("table", {}, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
        el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell))))))));
}

const key = byId("key");
key.value = apiKey.get();
key.addEventListener("input", () => apiKey.set(key.value.trim()));
byId("key-form").addEventListener("submit", (event) => event.preventDefault());
open();
