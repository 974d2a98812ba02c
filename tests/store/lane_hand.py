"""What the owner of a lane does to it by hand, in the model."""

from __future__ import annotations

from tests.store.lane_life import Lane, process_of
from tests.store.lane_policies import LanePolicies


class LaneHand(LanePolicies):
    def count(self, key: str) -> int:
        """All messages of a key: running, waiting and delayed."""
        here = len(self.lanes[key].every()) if key in self.lanes else 0
        return here + sum(where == key for where, _ in self.later)

    def stop(self, key: str) -> None:
        lane = self.lanes.setdefault(key, Lane(0))
        lane.stopped = "paused"
        self._advance(key, lane)

    def resume(self, key: str) -> bool:
        lane = self.lanes.get(key)
        if not lane or not lane.stopped:
            return False
        if lane.stopped == "parked" and lane.mail:
            head = lane.in_order()[0]
            head.attempts = head.after = 0
        lane.stopped = ""
        self._advance(key, lane)
        return True

    def clear(self, key: str) -> int:
        number = self.count(key)
        self.states.pop(key, None)
        lane = self.lanes.pop(key, None)
        self.ready.pop(key, None)
        delayed = [message for (where, _), message in self.later.items() if where == key]
        for message in [*(lane.every() if lane else []), *delayed]:
            self.later.pop((key, message.ident), None)
            self._tell_settled(message.watchers, key, message.ident)
            if message.caller:
                self._tell(process_of(message.caller), ("lost", message.caller, key))
        if lane and lane.token:
            lane.given = None
            self._take_away(key, lane)
        return number

    def replay(self, key: str, ident: str) -> bool:
        if (key, ident) not in self.letters:
            return False
        message, keep = self.letters.pop((key, ident))
        message.attempts = message.after = message.late = 0
        message.watchers, message.is_open = set(), False
        self.marks.pop((key, ident), None)
        left = self._persist(key)
        lane = self.lanes.setdefault(key, Lane(0))
        lane.keep = max(lane.keep, left) or keep
        lane.mail[ident] = message
        self._stir(key, lane)
        return True

    def drop(self, key: str, ident: str) -> bool:
        return self.letters.pop((key, ident), None) is not None
