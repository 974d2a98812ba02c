"""The ledger of tokens: what each user may use in a window, what is spent, and what is held for requests under way.

    reserve ──▶ active ──settle──▶ settled           held -= estimate, spent += used
                  │  └──release──▶ released          held -= estimate
                  └──expire──────▶ expired           held -= estimate
    released, expired ──settle─────────▶ settled     spent += used: the tokens were used after all
    released, expired ──reserve_again──▶ active      held += estimate, in the window that runs now

Each arrow is a compare-and-set on the state of the hold, or taken under its lock, in the transaction of whoever takes
it: a hold is settled once. It is charged to the window in which it was reserved. Every function runs inside its
caller's transaction.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from inturn.database import Connection
from inturn.errors import BudgetExhausted
from inturn.tasks.tables import holds, limits, windows

ACTIVE, SETTLED, RELEASED, EXPIRED = "active", "settled", "released", "expired"
_HOLD = (holds.c.id, holds.c.estimate, holds.c.window_start, holds.c.tenant_id, holds.c.user_id)
MAX_AT_ONCE = 500
"""Holds that one transaction lets expire."""
MAX_USED = 10**12
"""Tokens that one request can be charged. More is a mistake of whoever counted, and would not fit into a column."""


@dataclass(frozen=True, slots=True)
class User:
    """Two tenants may have a user of the same name."""

    tenant_id: str
    user_id: str


@dataclass(frozen=True, slots=True)
class Hold:
    id: str
    estimate: int
    window_start: int


@dataclass(frozen=True, slots=True)
class Budget:
    """What a user has in the window that runs now. `remaining` is never below 0."""

    limit: int
    spent: int
    held: int
    window_start: int
    resets_at: int

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.spent - self.held)


@dataclass(frozen=True, slots=True)
class Ledger:
    """`limit`: tokens of a user for whom no other limit is set. Windows are cut from the epoch, so a day begins at
    midnight UTC.
    """

    limit: int = 100_000
    window_s: int = 86_400
    hold_ttl_s: float = 3600.0

    def window_of(self, now: float) -> int:
        return math.floor(now) // self.window_s * self.window_s

    async def reserve(
        self, at: Connection, user: User, estimate: int, now: float, request_id: str = "", *, may_exceed: bool = False
    ) -> Hold:
        """Raises `BudgetExhausted` if it does not fit. `may_exceed`: it is reserved all the same."""
        start = await self._make_room(at, user, estimate, now, may_exceed)
        hold = Hold(uuid.uuid4().hex, estimate, start)
        row = {
            "id": hold.id, "request_id": request_id, "tenant_id": user.tenant_id, "user_id": user.user_id,
            "window_start": start, "estimate": estimate, "state": ACTIVE, "used": 0,
            "expires_at": now + self.hold_ttl_s,
        }  # fmt: skip
        await at.execute(_NEW_HOLD, row)
        return hold

    async def reserve_again(self, at: Connection, hold_id: str, now: float) -> Hold:
        """The same hold, for a request that is repeated, with all of its time. What was given back must fit again:
        raises `BudgetExhausted`.
        """
        row = (await at.execute(sa.select(holds).where(holds.c.id == hold_id).with_for_update())).one()
        start = row.window_start
        if row.state != ACTIVE:
            start = await self._make_room(at, User(row.tenant_id, row.user_id), row.estimate, now)
        again = sa.update(holds).where(holds.c.id == hold_id)
        await at.execute(again.values(state=ACTIVE, window_start=start, expires_at=now + self.hold_ttl_s))
        return Hold(hold_id, row.estimate, start)

    async def _make_room(self, at: Connection, user: User, estimate: int, now: float, may_exceed: bool = False) -> int:
        """Returns the start of the window in which it is held."""
        start = self.window_of(now)
        if not await _take(at, user, start, estimate):
            # the first request of a window; or what is held for others may have expired
            await self._begin_window(at, user, start)
            await self.expire(at, now, user)
            if not await _take(at, user, start, estimate, _TAKE_ANYWAY if may_exceed else _TAKE):
                raise self._exhausted(await self.budget(at, user, now), estimate, now)
        return start

    async def budget(self, at: Connection, user: User, now: float) -> Budget:
        start = self.window_of(now)
        row = (await at.execute(sa.select(windows).where(_is(user, start)))).one_or_none()
        if row is None:
            return Budget(await self._limit(at, user), 0, 0, start, start + self.window_s)
        return Budget(row.tokens, row.spent, row.held, start, row.window_end)

    async def set_limit(self, at: Connection, user: User, tokens: int, now: float) -> None:
        """For the window that runs now, too. Below what is spent it only stops further requests."""
        mine, start = {"tenant_id": user.tenant_id, "user_id": user.user_id}, self.window_of(now)
        if not await insert_once(at, limits, **mine, tokens=tokens):
            await at.execute(sa.update(limits).filter_by(**mine).values(tokens=tokens))
        # somebody else may just be about to begin the window, with the old limit: this waits for it
        await self._begin_window(at, user, start)
        await at.execute(sa.update(windows).where(_is(user, start)).values(tokens=tokens))

    async def expire(self, at: Connection, now: float, user: User | None = None) -> Sequence[Hold]:
        """Gives back what nobody has settled in time: of this user, or of everybody."""
        due = sa.select(holds.c.id).where(holds.c.state == ACTIVE, holds.c.expires_at <= now).limit(MAX_AT_ONCE)
        if user is not None:
            due = due.where(holds.c.tenant_id == user.tenant_id, holds.c.user_id == user.user_id)
        # a hold that is being settled is left alone, and holds are locked before windows, as `settle` does
        found = (await at.execute(due.with_for_update(skip_locked=True))).scalars().all()
        if not found:
            return []
        moved = sa.update(holds).where(holds.c.id.in_(found), holds.c.state == ACTIVE).values(state=EXPIRED)
        gone = (await at.execute(moved.returning(*_HOLD))).all()
        sums: dict[tuple[User, int], int] = {}
        for row in gone:
            window = User(row.tenant_id, row.user_id), row.window_start
            sums[window] = sums.get(window, 0) + row.estimate
        for (who, start), given_back in sorted(
            sums.items(), key=lambda each: (each[0][0].tenant_id, each[0][0].user_id, each[0][1])
        ):
            await at.execute(sa.update(windows).where(_is(who, start)).values(held=windows.c.held - given_back))
        return [Hold(row.id, row.estimate, row.window_start) for row in gone]

    async def _begin_window(self, at: Connection, user: User, start: int) -> None:
        tokens = await self._limit(at, user)
        await insert_once(
            at, windows, tenant_id=user.tenant_id, user_id=user.user_id, window_start=start,
            window_end=start + self.window_s, tokens=tokens, spent=0, held=0,
        )  # fmt: skip

    async def _limit(self, at: Connection, user: User) -> int:
        mine = (limits.c.tenant_id == user.tenant_id, limits.c.user_id == user.user_id)
        found: int | None = await at.scalar(sa.select(limits.c.tokens).where(*mine))
        return self.limit if found is None else found

    def _exhausted(self, budget: Budget, needed: int, now: float) -> BudgetExhausted:
        after_s = max(1, math.ceil(budget.resets_at - now))
        return BudgetExhausted(needed, budget.limit, budget.remaining, budget.resets_at, after_s)


async def settle(at: Connection, hold_id: str, used: int) -> bool:
    """Charges what was used. `False`: it is settled already, or there is no such hold, and nothing changes."""
    if await _leave(at, hold_id, (ACTIVE,), SETTLED, used) is not None:
        return True
    return await _leave(at, hold_id, (RELEASED, EXPIRED), SETTLED, used) is not None


async def release(at: Connection, hold_id: str) -> bool:
    """Gives it back: nothing was used."""
    return await _leave(at, hold_id, (ACTIVE,), RELEASED, 0) is not None


# What every request does. Made once: to build a statement takes longer than SQLite needs to run it.
_NEEDED: sa.BindParameter[int] = sa.bindparam("needed", type_=sa.BigInteger)
_TAKE_ANYWAY = (
    sa.update(windows)
    .where(
        windows.c.tenant_id == sa.bindparam("of_tenant"),
        windows.c.user_id == sa.bindparam("of_user"),
        windows.c.window_start == sa.bindparam("of_window"),
    )
    .values(held=windows.c.held + _NEEDED)
)
_TAKE = _TAKE_ANYWAY.where(windows.c.spent + windows.c.held + _NEEDED <= windows.c.tokens)
_NEW_HOLD = sa.insert(holds)


async def _take(at: Connection, user: User, start: int, estimate: int, take: sa.Update = _TAKE) -> bool:
    values = {"of_tenant": user.tenant_id, "of_user": user.user_id, "of_window": start, "needed": estimate}
    return (await at.execute(take, values)).rowcount == 1


async def _leave(at: Connection, hold_id: str, states: tuple[str, ...], to: str, used: int) -> Hold | None:
    """The one who finds the hold in one of these states moves it on, and the sums of its window with it."""
    moved = (
        sa.update(holds)
        .where(holds.c.id == hold_id, holds.c.state.in_(states))
        .values(state=to, used=used)
        .returning(*_HOLD)
    )
    row = (await at.execute(moved)).one_or_none()
    if row is None:
        return None
    given_back = row.estimate if states == (ACTIVE,) else 0
    if given_back or used:
        await at.execute(
            sa.update(windows)
            .where(_is(User(row.tenant_id, row.user_id), row.window_start))
            .values(held=windows.c.held - given_back, spent=windows.c.spent + used)
        )
    return Hold(hold_id, row.estimate, row.window_start)


def _is(user: User, start: int) -> sa.ColumnElement[bool]:
    c = windows.c
    return sa.and_(c.tenant_id == user.tenant_id, c.user_id == user.user_id, c.window_start == start)


async def insert_once(at: Connection, table: sa.Table, **values: object) -> bool:
    """`False`: a row with this key is there already. PostgreSQL waits for whoever is about to write one."""
    from sqlalchemy.dialects import postgresql, sqlite

    make = sqlite.insert if at.dialect.name == "sqlite" else postgresql.insert
    return (await at.execute(make(table).values(**values).on_conflict_do_nothing())).rowcount == 1
