"""What scripts return, as the values of the protocol; and what a process is told, as text.

A notice is `<kind> <token> <name>`; a loss is `lost <token> <fence> <why>`, and the name on a line of its own.
"""

from __future__ import annotations

from typing import Any, Literal, cast

from inturn.store.lane import Ended, Given, GivenMessage, read_ident
from inturn.store.limits import MAX_PRIORITY
from inturn.store.protocol import Edge, Kind, Notice
from inturn.store.views import DeadView, Holder, LaneView, LockView, MessageView, Waiter


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


def edges_of(reply: Any) -> list[Edge]:
    """Waits for one name share their blockers, which are sent once."""
    _, rows, locks = reply
    blockers = {name: (texts_of(holders), texts_of(queue)) for name, holders, queue in locks}
    found = []
    for owner, name, token, arrival, age_ms, needs_all, ahead, reported, holder in rows:
        holders, queue = ((holder.decode(),), ()) if holder else blockers[name]
        found.append(
            Edge(
                owner=owner.decode(),
                name=name.decode(),
                token=token.decode(),
                arrival=arrival,
                age_ms=age_ms,
                needs_all=bool(needs_all),
                blockers=(*holders, *(other for other in queue[:ahead] if other != owner.decode())),
                reported=reported,
            )
        )
    return found


def lock_view_of(name: str, reply: Any) -> LockView:
    _, capacity, grants, places = reply
    holders = [Holder(token.decode(), owner.decode(), *rest) for token, owner, *rest in grants]
    waiters = [Waiter(token.decode(), owner.decode(), *rest) for token, owner, *rest in places]
    return LockView(name, capacity, tuple(sorted(holders, key=lambda holder: holder.fence)), tuple(waiters))


def lane_view_of(key: str, reply: Any) -> LaneView:
    _, token, fence, since_ms, ident, stopped, why, ready, waiting, state, state_ttl_ms, messages = reply
    return LaneView(
        key=key,
        token=token.decode(),
        fence=fence,
        since_ms=since_ms,
        ident=ident.decode(),
        stopped=stopped.decode(),
        why=why.decode(),
        ready=ready.decode(),
        waiting=waiting,
        state=state,
        state_ttl_ms=state_ttl_ms,
        messages=tuple(map(message_view_of, messages)),
    )


def word_of(mark: bytes) -> Literal["superseded", "cancelled"] | None:
    """Returns why a message will never run; `None` if it has run."""
    if mark[:1] != b"\0":
        return None
    return "superseded" if mark == b"\0superseded" else "cancelled"


def messages_of(rows: Any) -> tuple[GivenMessage, ...]:
    return tuple(GivenMessage(ident.decode(), *rest) for ident, *rest in rows)


def given_of(key: str, token: str, given: Any, sent_at: float, state: bytes | None = None) -> Given:
    fence, attempts, ttl_ms, limit_ms, messages, is_open = given
    return Given(
        key=key,
        token=token,
        fence=fence,
        attempts=attempts,
        ttl_ms=ttl_ms,
        limit_ms=limit_ms,
        messages=messages_of(messages),
        sent_at=sent_at,
        state=state,
        is_open=bool(is_open),
    )


def ended_of(key: str, token: str, reply: Any, sent_at: float, attempts: int) -> Ended:
    if reply[0] == b"newer":
        return Ended("newer", None, attempts, messages_of(reply[1]))
    if reply[0] == b"lost":
        return Ended("lost", None, attempts, why=reply[1].decode())
    given = given_of(key, token, reply[1], sent_at) if len(reply) > 1 and reply[1] else None
    return Ended(reply[0].decode(), given, attempts)


def texts_of(words: Any) -> tuple[str, ...]:
    return tuple(word.decode() for word in words)


def message_view_of(row: Any) -> MessageView:
    ident, rank, attempts, age_ms, due_in_ms, is_inline, body, errors, place, lead = row
    handler, message_id = read_ident(ident.decode())
    return MessageView(
        handler=handler,
        id=message_id,
        priority=MAX_PRIORITY - int(rank),
        attempts=attempts,
        age_ms=age_ms,
        due_in_ms=due_in_ms,
        is_inline=bool(is_inline),
        body=body,
        errors=texts_of(errors),
        place=place.decode(),
        lead=read_ident(lead.decode())[1],
    )


def dead_view_of(row: Any) -> DeadView:
    _, key, ident, body, attempts, accepted_ms, died_ms, until_ms, errors = row
    handler, message_id = read_ident(ident.decode())
    return DeadView(
        key=key.decode(),
        handler=handler,
        id=message_id,
        body=body,
        attempts=attempts,
        accepted_ms=accepted_ms,
        died_ms=died_ms,
        until_ms=until_ms,
        errors=texts_of(errors),
    )
