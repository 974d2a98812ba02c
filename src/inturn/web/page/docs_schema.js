/** Reads JSON schemas of an OpenAPI description: what a value may be, in few words, and an example of it. */

const MAX_DEPTH = 8;

export class Schemas {
  constructor(description) {
    this.description = description;
  }

  /** What a `$ref` points to; everything else is itself. */
  find(node) {
    let found = node;
    for (let hops = 0; found?.$ref && hops < MAX_DEPTH; hops += 1) {
      const path = found.$ref.replace(/^#\//, "").split("/");
      found = path.reduce((inner, name) => inner?.[name.replaceAll("~1", "/").replaceAll("~0", "~")], this.description);
    }
    return found ?? {};
  }

  inWords(given) {
    const name = given?.$ref?.split("/").pop();
    const schema = this.find(given);
    const several = schema.anyOf ?? schema.oneOf;
    if (several) return several.map((one) => this.inWords(one)).join(" or ");
    if (schema.const !== undefined) return JSON.stringify(schema.const);
    if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
    if (schema.type === "array") return `list of ${this.inWords(schema.items ?? {})}`;
    if (name && schema.properties) return name;
    const type = Array.isArray(schema.type) ? schema.type.join(" or ") : schema.type;
    return [type ?? "anything", limits(schema)].filter(Boolean).join(", ");
  }

  /** Rows of `[name, words, isRequired, description]`, for an object. */
  properties(given) {
    const schema = this.find(given);
    const needed = new Set(schema.required ?? []);
    return Object.entries(schema.properties ?? {}).map(([name, inner]) => {
      const about = inner.description ?? this.find(inner).description ?? "";
      return [name, this.inWords(inner), needed.has(name), about];
    });
  }

  /** The example that the description gives, else one built from its types. */
  example(given, depth = 0) {
    const schema = this.find(given);
    if (schema.example !== undefined) return schema.example;
    if (Array.isArray(schema.examples) && schema.examples.length > 0) return schema.examples[0];
    if (schema.default !== undefined) return schema.default;
    if (schema.const !== undefined) return schema.const;
    if (schema.enum) return schema.enum[0];
    const several = schema.anyOf ?? schema.oneOf ?? schema.allOf;
    if (several) return this.example(several[0], depth + 1);
    if (schema.properties && depth < MAX_DEPTH) {
      const inner = Object.entries(schema.properties).map(([name, one]) => [name, this.example(one, depth + 1)]);
      return Object.fromEntries(inner);
    }
    return { array: [], object: {}, integer: 0, number: 0, boolean: false, null: null }[schema.type] ?? "text";
  }

  /** Of a request body or a response: its media type, its schema, and an example. */
  content(holder) {
    const content = Object.entries(this.find(holder).content ?? {});
    return content.map(([type, media]) => {
      const named = Object.entries(media.examples ?? {}).map(([name, one]) => {
        return [one.summary ?? name, this.find(one).value];
      });
      const examples = media.example !== undefined ? [["example", media.example], ...named] : named;
      return { type, schema: media.schema, examples };
    });
  }
}

function limits(schema) {
  const told = [];
  if (schema.format) told.push(schema.format);
  if (schema.minLength !== undefined || schema.maxLength !== undefined) {
    told.push(`${schema.minLength ?? 0} to ${schema.maxLength ?? "any number of"} characters`);
  }
  if (schema.minimum !== undefined) told.push(`from ${schema.minimum}`);
  if (schema.maximum !== undefined) told.push(`to ${schema.maximum}`);
  if (schema.pattern) told.push(`like ${schema.pattern}`);
  return told.join(", ");
}
