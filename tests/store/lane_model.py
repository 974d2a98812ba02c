"""Lanes as plain Python: what the real stores are held against. Nothing happens but what is called.

Numbers (fences, places) are only compared, never predicted. Whoever moves `now` calls `beat` for a living process after
it, which brings every lane up to date; then the model and a store agree again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inturn.store.lane import ANY_FENCE, Commit, Failure, Opening, Send, Submission
from tests.store.lane_life import FOREVER, NOTE_MS, Lane, LaneLife, Message, process_of


class LaneModel(LaneLife):
    # -- coming in ---------------------------------------------------------------------------------------------

    def submit(self, message: Submission) -> tuple[str, int]:
        key, ident = message.key, message.ident
        if self.mark(key, ident) is not None:
            return "duplicate", 0
        lane = self.lanes.get(key)
        if lane and (ident in lane.mail or (lane.given and lane.given.ident == ident)):
            return "pending", 0
        waiting = len(lane.mail) if lane else 0
        if lane and message.busy == "reject":
            return "busy", waiting
        if message.cap and waiting >= message.cap:
            return "full", waiting
        ahead = waiting + (lane is not None and lane.token != "")
        late = self.now + message.late_ms if message.late_ms else 0
        self._accept(
            key, ident, -message.priority, message.body, message.ttl_ms, message.limit_ms, message.keep_ms, late
        )
        return "accepted", ahead

    def begin(self, opening: Opening) -> tuple[str, int]:
        key, token, ident = opening.name, opening.token, opening.ident
        if opening.has_id and self.mark(key, ident) is not None:
            return "duplicate", 0
        self.seen[process_of(token)] = self.now
        lane = self.lanes.get(key)
        if lane and lane.token == token:
            lane.lapses = 0
            self._untell("turn", token, key)
            return "granted", 0
        message = lane.mail.get(ident) if lane else None
        if lane and message and message.caller == token:
            return "waiting", lane.in_order().index(message)
        if lane:
            self._stir(key, lane)
            lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = Lane(opening.keep_ms)
            self._lease(lane, token, ident, opening.ttl_ms, opening.limit_ms)
            return "granted", 0
        if ident in lane.mail or lane.running == ident:
            return "pending", 0
        waiting = len(lane.mail)
        if opening.busy == "reject":
            return "busy", waiting
        if opening.cap and waiting >= opening.cap:
            return "full", waiting
        self.lost.pop(token, None)
        self._accept(key, ident, 0, b"", opening.ttl_ms, opening.limit_ms, opening.keep_ms, 0, token)
        return "waiting", waiting

    def leave(self, key: str, token: str, ident: str) -> str:
        lane = self.lanes.get(key)
        if lane and lane.token == token:
            self._untell("turn", token, key)
            self._tell_settled(lane.awaited, key, ident)
            self._end_lease(lane)
            self._advance(key, lane)
            return "released"
        message = lane.mail.get(ident) if lane else None
        if lane and message and message.caller == token:
            del lane.mail[ident]
            self._tell_settled(message.watchers, key, ident)
            self._advance(key, lane)
            return "left"
        return "lost" if self.now < self.lost.get(token, 0) else "gone"

    # -- turns -------------------------------------------------------------------------------------------------

    def claim(self, process: str, call: str, can: Sequence[str], limit: int, keys: Iterable[str]) -> list[str]:
        """`keys` are those that the store gave, in order: they are taken where there is a choice."""
        self.seen[process] = self.now
        noted, until = self.claims.get(call, ([], 0))
        if self.now < until:
            return [key for key, token in noted if key in self.lanes and self.lanes[key].token == token]
        self._bury_late()
        chosen, has_more = list(keys), True
        pairs: list[tuple[str, str]] = []
        while has_more and len(pairs) < limit:
            has_more = False
            for handler in can:
                ranks = {key: rank for key, (name, rank) in self.ready.items() if name == handler}
                if not ranks or len(pairs) >= limit:
                    continue
                has_more = True
                first = [key for key, rank in ranks.items() if rank == min(ranks.values())]
                expected = chosen[len(pairs)] if len(pairs) < len(chosen) else ""
                key = expected if expected in first else first[0]
                token = f"{call}.{len(pairs) + 1}"
                del self.ready[key]
                given = self._give_next(key, self.lanes[key], token, can)
                if given:
                    pairs.append((key, token))
        self.claims[call] = pairs, self.now + NOTE_MS
        return [key for key, _ in pairs]

    def unclaim(self, call: str) -> int:
        taken = 0
        noted, until = self.claims.get(call, ([], 0))
        for key, token in noted if self.now < until else ():
            lane = self.lanes.get(key)
            if lane and lane.token == token and lane.given:
                lane.given.attempts -= 1
                self._put_back(lane)
                self._advance(key, lane)
                taken += 1
        self.claims[call] = [], self.now + NOTE_MS
        return taken

    def commit(self, commit: Commit) -> tuple[str, Message | None]:
        key, lane = commit.key, self.lanes.get(commit.key)
        if not lane or lane.token != commit.token or lane.fence != commit.fence:
            return self._refused(lane, commit.token, commit.next_token, "committed")
        if commit.window_ms:
            self.marks[key, commit.ident] = commit.result, self.now + commit.window_ms
        self._tell_settled(lane.given.watchers if lane.given else lane.awaited, key, commit.ident)
        self._end_lease(lane)
        for send in commit.sends:
            self._send(key, send)
        lane.keep = max(lane.keep, commit.keep_ms)
        if commit.state_op == "set":
            self.states[key] = commit.state, FOREVER
            lane.keep = commit.keep_ms
        elif commit.state_op == "del":
            self.states.pop(key, None)
        elif (text := self.state(key)) is not None:
            self.states[key] = text, max(self.states[key][1], self.now + commit.keep_ms)
        return "committed", self._give_next(key, lane, commit.next_token, commit.can)

    def fail(self, failure: Failure) -> tuple[str, Message | None]:
        key, lane = failure.key, self.lanes.get(failure.key)
        if not lane or lane.token != failure.token or failure.fence not in (lane.fence, ANY_FENCE):
            return self._refused(lane, failure.token, failure.next_token, "failed")
        message = lane.given
        assert message is not None
        message.errors = min(20, message.errors + bool(failure.error))
        if failure.how == "dead":
            self._end_lease(lane)
            self._bury(key, lane, message)
        else:
            if failure.how == "retry":
                message.after = self.now + failure.delay_ms
            elif not failure.error:
                message.attempts -= 1
            if failure.how == "park":
                lane.stopped = "parked"
            self._put_back(lane)
        return "failed", self._give_next(key, lane, failure.next_token, failure.can)

    def _send(self, source: str, send: Send) -> None:
        lane = self.lanes.get(send.key)
        is_there = lane and (send.ident in lane.mail or (lane.given and lane.given.ident == send.ident))
        if is_there or self.mark(send.key, send.ident) is not None:
            return
        if send.key == source and lane:
            # the lane goes on when all effects are written
            lane.keep = max(lane.keep, send.keep_ms, self._persist(send.key))
            place = (0, next(self._numbers))
            lane.mail[send.ident] = Message(send.ident, place, send.body, send.ttl_ms, send.limit_ms, 0)
            self.letters.pop((send.key, send.ident), None)
        else:
            self._accept(send.key, send.ident, 0, send.body, send.ttl_ms, send.limit_ms, send.keep_ms, 0)

    def _refused(self, lane: Lane | None, token: str, next_token: str, done: str) -> tuple[str, Message | None]:
        if lane and next_token and lane.token == next_token:
            return done, lane.given
        return "lost" if self.now < self.lost.get(token, 0) else "gone", None

    def attend(self, process: str, key: str, ident: str) -> str:
        self.inbox.setdefault(process, set()).discard(("settled", f"{process}#0", f"{key}\0{ident}"))
        lane = self.lanes.get(key)
        if self.mark(key, ident) is not None:
            return "done"
        message = lane and (lane.given if lane.given and lane.given.ident == ident else lane.mail.get(ident))
        if message:
            message.watchers.add(process)
            return "pending"
        if lane and lane.running == ident:
            lane.awaited.add(process)
            return "pending"
        return "dead" if (key, ident) in self.letters else "unknown"

    # -- the owner's hand --------------------------------------------------------------------------------------

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
        self.states.pop(key, None)
        lane = self.lanes.pop(key, None)
        self.ready.pop(key, None)
        if not lane:
            return 0
        messages = [*lane.mail.values(), *([lane.given] if lane.given else [])]
        for message in messages:
            self._tell_settled(message.watchers, key, message.ident)
            if message.caller:
                self._tell(process_of(message.caller), ("lost", message.caller, key))
        if lane.token:
            lane.given = None
            self._take_away(key, lane, "the lane was cleared")
        return len(messages)

    def replay(self, key: str, ident: str) -> bool:
        if (key, ident) not in self.letters:
            return False
        message, keep = self.letters.pop((key, ident))
        message.attempts = message.after = message.late = 0
        message.watchers = set()
        self.marks.pop((key, ident), None)
        left = self._persist(key)
        lane = self.lanes.setdefault(key, Lane(0))
        lane.keep = max(lane.keep, left) or keep
        lane.mail[ident] = message
        self._stir(key, lane)
        return True

    def drop(self, key: str, ident: str) -> bool:
        return self.letters.pop((key, ident), None) is not None

    # -- processes ---------------------------------------------------------------------------------------------

    def beat(self, process: str) -> None:
        self.seen[process] = self.now
        rank = next(self._numbers)
        self._bury_late()
        for key, lane in list(self.lanes.items()):
            is_waiting = not lane.token and not lane.stopped and key not in self.ready
            if is_waiting or (lane.token and not self.is_leased(lane)):
                self._advance(key, lane, rank)

    def depart(self, process: str) -> None:
        self.seen.pop(process, None)
        self.inbox.pop(process, None)
