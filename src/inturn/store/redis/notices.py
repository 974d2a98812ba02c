"""What a process is told, as text: `<kind> <token> <name>`, or `lost <token> <fence> <why>` and the name below it."""

from __future__ import annotations

from typing import cast

from inturn.store.protocol import Kind, Notice


def notice_text(notice: Notice) -> str:
    if notice.kind == "lost":
        return f"lost {notice.token} {notice.fence} {notice.why}\n{notice.name}"
    return f"{notice.kind} {notice.token} {notice.name}"


def read_notice(text: bytes) -> Notice:
    kind, token, rest = text.decode().split(" ", 2)
    if kind != "lost":
        return Notice(cast(Kind, kind), rest, token)
    fence, _, rest = rest.partition(" ")
    why, _, name = rest.partition("\n")
    return Notice("lost", name, token, why, int(fence))
