"""What goes wrong with one call: `before` Telegram has done it, so that nothing happened, or `after`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


class Refused(Exception):
    """An answer that is not `ok`."""

    def __init__(self, code: int, description: str | None, **parameters: Any) -> None:
        super().__init__(description)
        told = {"ok": False, "error_code": code, "description": description}
        self.response = web.json_response(told | ({"parameters": parameters} if parameters else {}), status=code)


class HungUp(Exception):
    """The connection is closed without an answer."""


class Fault:
    """By default nothing goes wrong."""

    async def before(self) -> None:
        """Raises what ends the call here."""

    async def after(self, response: web.Response) -> web.Response:
        return response


@dataclass
class Refuse(Fault):
    code: int
    description: str | None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    async def before(self) -> None:
        raise Refused(self.code, self.description, **self.parameters)


class TooMany(Refuse):
    def __init__(self, retry_after: int) -> None:
        super().__init__(429, f"Too Many Requests: retry after {retry_after}", {"retry_after": retry_after})


class Migrate(Refuse):
    def __init__(self, new_chat_id: int) -> None:
        description = "Bad Request: group chat was upgraded to a supergroup chat"
        super().__init__(400, description, {"migrate_to_chat_id": new_chat_id})


class CannotParse(Refuse):
    def __init__(self) -> None:
        super().__init__(
            400, "Bad Request: can't parse entities: Can't find end of the entity starting at byte offset 0"
        )


@dataclass
class ServerError(Fault):
    """`html`: the page of a proxy; otherwise Telegram's own JSON."""

    code: int = 502
    html: bool = True

    async def before(self) -> None:
        refused = Refused(self.code, "Bad Gateway")
        if self.html:
            page = f"<html><head><title>{self.code} Bad Gateway</title></head><body></body></html>"
            refused.response = web.Response(status=self.code, text=page, content_type="text/html")
        raise refused


class Dropped(Fault):
    """The connection closes before the call is done."""

    async def before(self) -> None:
        raise HungUp


class LostAnswer(Fault):
    """The connection closes after the call was done."""

    async def after(self, response: web.Response) -> web.Response:
        raise HungUp


@dataclass
class Slow(Fault):
    """The call is done after so many seconds, or once the gate is open."""

    until: float | asyncio.Event

    async def before(self) -> None:
        await (self.until.wait() if isinstance(self.until, asyncio.Event) else asyncio.sleep(self.until))


@dataclass
class Hang(Fault):
    """The call was done, and is answered once the gate is open."""

    gate: asyncio.Event

    async def after(self, response: web.Response) -> web.Response:
        await self.gate.wait()
        return response


class BadResult(Fault):
    """The call was done, and the answer is not what the API promises."""

    async def after(self, response: web.Response) -> web.Response:
        return web.json_response({"ok": True, "result": {"nonsense": True}})
