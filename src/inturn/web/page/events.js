/** Reads server-sent events from the body of a response, as they come. */

export async function* readEvents(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return; // an event that was cut off is none
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
