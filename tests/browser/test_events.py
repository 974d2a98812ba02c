"""Server-sent events are read as they are meant, wherever the network cuts them."""

from __future__ import annotations

import pytest

from tests.browser.chat import Chat

READ = """
async ([text, size]) => {
  const { readEvents } = await import("/page/api.js");
  const bytes = new TextEncoder().encode(text);
  const body = new ReadableStream({
    start(controller) {
      for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
      controller.close();
    },
  });
  const found = [];
  for await (const { name, data } of readEvents(body)) found.push([name, data]);
  return found;
}
"""
TEXT = ': ping\n\nevent: typing\ndata: {}\n\nevent: token\ndata: {"text": "für\n\ndata:one\ndata: two\n\nevent: cut'
MEANT = [["typing", "{}"], ["token", '{"text": "für'], ["message", "one\ntwo"]]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("line", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_events_are_read_whatever_their_pieces(chat: Chat, size: int, line: str) -> None:
    assert chat.page.evaluate(READ, [TEXT.replace("\n", line), size]) == MEANT
