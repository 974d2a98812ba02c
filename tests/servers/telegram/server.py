"""The server itself: users act through `say`, `edit`, `album`, `block`; `sent`, `actions`, `calls` hold what bots did.

`will` makes a call go wrong, and `until` waits for a fact. Every chat can be written to, unless a test has said
otherwise. A text is counted and kept as it came: markup of a `parse_mode` is not read, and white space is not trimmed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from aiohttp import web

from tests.servers.telegram.faults import Fault, HungUp, Refused
from tests.servers.telegram.inbox import Inbox, Update

TOKEN = "4200:the-token-that-tests-use"
WITHIN_S = 60.0
MAX_TEXT = 4096
MAX_ENTITIES = 100
JSON_FIELDS = {
    "allowed_updates", "commands", "entities", "link_preview_options", "reply_markup", "reply_parameters", "scope",
}  # fmt: skip


class Sent(NamedTuple):
    """A message that was accepted. `at` is monotonic, and comparable between the processes of one machine."""

    chat_id: int
    message_id: int
    text: str
    entities: list[dict[str, Any]]
    at: float
    token: str


class Action(NamedTuple):
    chat_id: int
    action: str
    at: float
    token: str


class Call(NamedTuple):
    """`params` are as they came, except that `chat_id` is a number, and JSON is read."""

    method: str
    params: dict[str, Any]
    at: float
    token: str


@dataclass
class Bot:
    """What Telegram knows about one bot."""

    token: str
    inbox: Inbox = field(default_factory=Inbox)
    unreachable: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Chats that it cannot write to: how such a call is refused."""

    @property
    def user(self) -> dict[str, Any]:
        bot_id = int(self.token.partition(":")[0])
        return {"id": bot_id, "is_bot": True, "first_name": "Companion", "username": f"companion_{bot_id}_bot"}


class TelegramServer:
    """Use it with `async with`. Where a bot's token is not given, the first bot is meant."""

    def __init__(
        self, *, tokens: Sequence[str] = (TOKEN,), latency_s: float = 0.0, port: int = 0, is_quiet: bool = False
    ) -> None:
        """`latency_s`: of every call, half of it before the call is done. `is_quiet`: `calls`, `actions` stay empty."""
        self.sent: list[Sent] = []
        self.actions: list[Action] = []
        self.calls: list[Call] = []
        self.counts: Counter[str] = Counter()
        """How often each method was called."""
        self.faults: list[tuple[str, int | None, Fault]] = []
        """Those to come: method, chat, what happens."""
        self.port = port
        self._latency_s = latency_s
        self._is_quiet = is_quiet
        self._bots = {token: Bot(token) for token in tokens}
        self._message_ids = count(1)
        self._changed = asyncio.Event()
        self._serving: set[asyncio.Task[Any]] = set()
        self._failures: list[Exception] = []

    async def __aenter__(self) -> TelegramServer:
        app = web.Application()
        app.router.add_post("/bot{token}/{method}", self._serve)
        app.router.add_get("/stats", self._show_stats)
        app.router.add_get("/sent", self._show_sent)
        app.router.add_post("/say", self._hear)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)  # 0 would be for ever
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # aiohttp has lost sight of calls whose client is gone
        serving = list(self._serving)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await self._runner.cleanup()
        assert kind is not None or not self._failures, self._failures

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def say(self, user_id: int, text: str, *, token: str | None = None, **more: Any) -> int:
        """Returns the update's id, or 0 if the bot does not want such updates. `more` adds to the message, or replaces
        what it has: `message_id`, `chat`, `date`, ..."""
        return self._arrives("message", self._message(user_id, text=text, **more), token)

    def edit(self, user_id: int, message_id: int, text: str, *, token: str | None = None) -> int:
        edited = self._message(user_id, message_id=message_id, text=text, edit_date=int(time.time()))
        return self._arrives("edited_message", edited, token)

    def album(
        self, user_id: int, captions: Sequence[str | None], *, group: str | None = None, token: str | None = None
    ) -> list[int]:
        """A photo for each caption; `None` is a photo without one. Photos of the same `group` are one album."""
        group = group or f"album-{next(self._message_ids)}"
        updates = []
        for caption in captions:
            file_id = f"photo-{next(self._message_ids)}"
            photo = {"file_id": file_id, "file_unique_id": file_id, "width": 90, "height": 90}
            told = {"caption": caption} if caption is not None else {}
            item = self._message(user_id, media_group_id=group, photo=[photo], **told)
            updates.append(self._arrives("message", item, token))
        return updates

    def block(self, user_id: int, *, token: str | None = None) -> int:
        self._bot(token).unreachable[user_id] = (403, "Forbidden: bot was blocked by the user")
        return self._becomes(user_id, "member", "kicked", token)

    def unblock(self, user_id: int, *, token: str | None = None) -> int:
        self._bot(token).unreachable.pop(user_id, None)
        return self._becomes(user_id, "kicked", "member", token)

    def deactivate(self, user_id: int, *, token: str | None = None) -> None:
        self._bot(token).unreachable[user_id] = (403, "Forbidden: user is deactivated")

    def forget(self, user_id: int, *, token: str | None = None) -> None:
        self._bot(token).unreachable[user_id] = (400, "Bad Request: chat not found")

    def put(self, update: Update, *, token: str | None = None) -> int:
        """As it is, whether the bot wants such updates or not."""
        update_id = self._bot(token).inbox.put(update)
        self._notice()
        return update_id

    def will(self, method: str, *, do: Fault, chat_id: int | None = None, times: int = 1) -> None:
        """What the next calls of this method meet, for this chat or any. What fits a call is used up in order."""
        self.faults += [(method, chat_id, do)] * times

    def texts(self, chat_id: int) -> list[str]:
        return [sent.text for sent in self.sent if sent.chat_id == chat_id]

    @property
    def pending(self) -> list[int]:
        """The ids of the updates that no bot has confirmed."""
        return [update_id for bot in self._bots.values() for update_id in bot.inbox.updates]

    async def until(self, is_so: Callable[[], object], timeout: float = WITHIN_S) -> None:
        """Looks again whenever a user acts, and when a call comes, is done or is answered."""
        try:
            async with asyncio.timeout(timeout):
                while not is_so():
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"still not so after {timeout} s; the last calls: {self.calls[-5:]}") from None

    async def push_to_webhook(self, *, token: str | None = None) -> dict[int, int]:
        """Delivers what is pending: one update of a chat at a time, in order. One that is not answered with 2xx stays,
        and so do those behind it. Returns the statuses by update id; 0 is no answer."""
        statuses = await self._bot(token).inbox.push()
        self._notice()
        return statuses

    async def _serve(self, request: web.Request) -> web.Response:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            return await self._answer(request)
        except Refused as refused:
            return refused.response
        except (HungUp, ConnectionError):  # the latter: the client left while it wrote
            if request.transport is not None:
                request.transport.close()
            return web.Response()  # nobody gets it
        except Exception as error:  # noqa: BLE001 - told when the server is closed
            self._failures.append(error)
            return web.Response(status=500)
        finally:
            self._serving.discard(task)
            self._notice()

    async def _answer(self, request: web.Request) -> web.Response:
        method, token = request.match_info["method"], request.match_info["token"]
        call = Call(method, await _params(request), time.monotonic(), token)
        self.counts[method] += 1
        if not self._is_quiet:
            self.calls.append(call)
        self._notice()
        if token not in self._bots:
            raise Refused(401, "Unauthorized")
        fault = self._take_fault(call)
        await asyncio.sleep(self._latency_s / 2)
        await fault.before()
        result = await self._do(self._bots[token], method, call.params)
        self._notice()
        response = await fault.after(web.json_response({"ok": True, "result": result}))
        await asyncio.sleep(self._latency_s / 2)
        return response

    async def _do(self, bot: Bot, method: str, params: dict[str, Any]) -> Any:
        match method:
            case "sendMessage":
                return self._send_message(bot, params)
            case "sendChatAction":
                return self._send_chat_action(bot, params)
            case "getUpdates":
                return await bot.inbox.poll(params)
            case "setWebhook":
                bot.inbox.set_webhook(params)
            case "deleteWebhook":
                bot.inbox.set_webhook(params | {"url": ""})
            case "getWebhookInfo":
                return bot.inbox.webhook()
            case "getMe":
                return bot.user | {"can_join_groups": False, "supports_inline_queries": False}
            case "setMyCommands":
                pass  # in `calls`
            case _:
                raise Refused(404, "Not Found: method not found")
        return True

    def _send_message(self, bot: Bot, params: Mapping[str, Any]) -> dict[str, Any]:
        chat_id = _reachable_chat(bot, params)
        text, entities = params.get("text", ""), params.get("entities", [])[:MAX_ENTITIES]
        _check_text(text)
        _check_entities(text, entities)
        message_id = next(self._message_ids)
        self.sent.append(Sent(chat_id, message_id, text, entities, time.monotonic(), bot.token))
        message = {"message_id": message_id, "from": bot.user, "chat": _chat(chat_id), "date": int(time.time())}
        return message | {"text": text} | ({"entities": entities} if entities else {})

    def _send_chat_action(self, bot: Bot, params: Mapping[str, Any]) -> bool:
        chat_id = _reachable_chat(bot, params)
        if not self._is_quiet:
            self.actions.append(Action(chat_id, params.get("action", ""), time.monotonic(), bot.token))
        return True

    async def _show_stats(self, request: web.Request) -> web.Response:
        counts = {"sent": len(self.sent), "pending": len(self.pending), "calls": dict(self.counts)}
        return web.json_response(counts)

    async def _show_sent(self, request: web.Request) -> web.Response:
        """By chat: id, text and time of each message, in order."""
        chats: dict[int, list[tuple[int, str, float]]] = {}
        for sent in self.sent:
            chats.setdefault(sent.chat_id, []).append((sent.message_id, sent.text, sent.at))
        return web.json_response(chats)

    async def _hear(self, request: web.Request) -> web.Response:
        """What users say: a list of `[user_id, text]`. Returns the update ids."""
        return web.json_response([self.say(user_id, text) for user_id, text in await request.json()])

    def _bot(self, token: str | None) -> Bot:
        return next(iter(self._bots.values())) if token is None else self._bots[token]

    def _message(self, user_id: int, **content: Any) -> dict[str, Any]:
        message = {"message_id": next(self._message_ids), "date": int(time.time())}
        return message | {"from": _user(user_id), "chat": _chat(user_id)} | content

    def _becomes(self, user_id: int, old: str, new: str, token: str | None) -> int:
        def member(status: str) -> dict[str, Any]:
            return {"user": self._bot(token).user, "status": status} | ({"until_date": 0} if status == "kicked" else {})

        told = {"chat": _chat(user_id), "from": _user(user_id), "date": int(time.time())}
        told |= {"old_chat_member": member(old), "new_chat_member": member(new)}
        return self._arrives("my_chat_member", told, token)

    def _arrives(self, kind: str, content: dict[str, Any], token: str | None) -> int:
        return self.put({kind: content}, token=token) if self._bot(token).inbox.wants(kind) else 0

    def _take_fault(self, call: Call) -> Fault:
        for place, (method, chat_id, fault) in enumerate(self.faults):
            if method == call.method and chat_id in (None, call.params.get("chat_id")):
                del self.faults[place]
                return fault
        return Fault()

    def _notice(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


async def _params(request: web.Request) -> dict[str, Any]:
    is_json = request.content_type == "application/json"
    params: dict[str, Any] = dict(await request.json() if is_json else await request.post())
    for name in JSON_FIELDS & params.keys():
        if isinstance(params[name], str):
            try:
                params[name] = json.loads(params[name])
            except ValueError:
                raise Refused(400, f"Bad Request: can't parse {name} JSON object") from None
    with contextlib.suppress(KeyError, ValueError):
        params["chat_id"] = int(params["chat_id"])
    return params


def _user(user_id: int) -> dict[str, Any]:
    return {"id": user_id, "is_bot": False, "first_name": f"User {user_id}", "language_code": "en"}


def _chat(chat_id: int) -> dict[str, Any]:
    if chat_id < 0:
        return {"id": chat_id, "type": "supergroup", "title": f"Group {-chat_id}"}
    return {"id": chat_id, "type": "private", "first_name": f"User {chat_id}"}


def _reachable_chat(bot: Bot, params: Mapping[str, Any]) -> int:
    chat_id = params.get("chat_id", "")
    if chat_id == "":
        raise Refused(400, "Bad Request: chat_id is empty")
    if not isinstance(chat_id, int):
        raise Refused(400, "Bad Request: chat not found")
    if chat_id in bot.unreachable:
        raise Refused(*bot.unreachable[chat_id])
    return chat_id


def _check_text(text: str) -> None:
    if not text:
        raise Refused(400, "Bad Request: message text is empty")
    if not text.strip():
        raise Refused(400, "Bad Request: text must be non-empty")
    if len(text) > MAX_TEXT:
        raise Refused(400, "Bad Request: message is too long")


def _check_entities(text: str, entities: Sequence[Mapping[str, Any]]) -> None:
    """Their places are counted in UTF-16, and must not be inside a character."""
    if not entities:
        return
    ends = [0]
    for character in text:
        ends.append(ends[-1] + (2 if ord(character) > 0xFFFF else 1))
    places = set(ends)
    for entity in entities:
        start, end = entity["offset"], entity["offset"] + entity["length"]
        if start > ends[-1]:
            reason = f"entity begins after the end of the text at UTF-16 offset {start}"
        elif end > ends[-1]:
            reason = f"entity beginning at UTF-16 offset {start} ends after the end of the text at UTF-16 offset {end}"
        elif start not in places:
            reason = "entity begins in a middle of a UTF-16 symbol"
        elif end not in places:
            reason = f"entity beginning at UTF-16 offset {start} ends in a middle of a UTF-16 symbol"
        else:
            continue
        raise Refused(400, f"Bad Request: {reason}")
