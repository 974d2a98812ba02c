"""The verbs of a lane on SQLite: one transaction each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from inturn.store.lane import (
    Begun,
    Claimed,
    Commit,
    Ended,
    Failure,
    Left,
    Opening,
    Outcome,
    Steered,
    Submission,
    Submitted,
)
from inturn.store.views import DeadView, LaneList, LaneView
from inturn.store.sqlite import lane_admin, lane_fates, lane_verbs, lane_views, lane_work
from inturn.store.sqlite.calling import Caller


class LaneVerbs(Caller):
    async def submit(self, message: Submission) -> Submitted:
        return await self._call(lane_verbs.submit, message)

    async def begin(self, opening: Opening) -> Begun:
        return await self._call(lane_verbs.begin, opening)

    async def leave(self, key: str, token: str, ident: str, fence: int = 0) -> Left:
        return await self._call(lane_verbs.leave, key, token, ident, fence)

    async def claim(self, call: str, can: Sequence[str], count: int, partition: int = 0) -> Claimed:
        return await self._call(lane_work.claim, self.process, call, can, count)

    async def unclaim(self, partition: int, call: str) -> int:
        return await self._call(lane_work.unclaim, call)

    async def unwork(self) -> None:
        await self._call(lane_work.unwork, self.process)

    async def commit(self, commit: Commit) -> Ended:
        return await self._call(lane_verbs.commit, commit)

    async def fail(self, failure: Failure) -> Ended:
        return await self._call(lane_verbs.fail, failure)

    async def steer(self, key: str, token: str, fence: int, have: int, version: int = 1) -> Steered:
        return await self._call(lane_fates.steer, key, token, fence, have, version)

    async def cancel(self, key: str, ident: str, window_ms: int) -> Literal["cancelled", "begun", "ended"]:
        return await self._call(lane_fates.cancel, key, ident, window_ms)

    async def confirm(self, key: str, token: str) -> bool:
        return await self._call(lane_fates.confirm, key, token)

    async def attend(self, key: str, ident: str) -> Outcome:
        return await self._call(lane_fates.attend, self.process, key, ident)

    async def forward(self, source: int, target: int) -> int:
        """There is one partition: sends are in their lanes with the commit."""
        return 0

    async def lanes(self, limit: int) -> LaneList:
        return await self._call(lane_views.lanes, limit)

    async def lane(self, key: str, limit: int) -> LaneView:
        return await self._call(lane_views.lane, key, limit)

    async def stop(self, key: str, how: Literal["paused", "parked"], why: str) -> None:
        await self._call(lane_admin.stop, key, how, why)

    async def resume(self, key: str) -> bool:
        return await self._call(lane_admin.resume, key)

    async def clear(self, key: str) -> int:
        return await self._call(lane_admin.clear, key)

    async def dead(self, limit: int) -> list[DeadView]:
        return await self._call(lane_views.dead, limit)

    async def dead_letter(self, key: str, ident: str) -> DeadView | None:
        return await self._call(lane_views.dead_letter, key, ident)

    async def replay(self, key: str, ident: str) -> bool:
        return await self._call(lane_admin.replay, key, ident)

    async def drop(self, key: str, ident: str) -> bool:
        return await self._call(lane_admin.drop, key, ident)
