"""Lanes as plain Python: what the real stores are held against. Nothing happens but what is called.

Numbers (fences, places) are only compared, never predicted. Whoever moves `now` calls `beat` for a living process after
it, which brings every lane up to date; then the model and a store agree again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from inturn.store.lane import ANY_FENCE, Commit, Failure, Opening, Send, Submission
from inturn.store.limits import CLAIM_NOTE_MS, MAX_ERRORS
from tests.store.lane_life import FOREVER, Lane, LaneLife, Message, process_of


class LaneModel(LaneLife):
    # -- coming in ---------------------------------------------------------------------------------------------

    def submit(self, message: Submission) -> tuple[str, int]:
        key, ident, delay = message.key, message.ident, message.delay_ms
        if (mark := self.mark(key, ident)) is not None:
            return word_of(mark) or "duplicate", 0
        if self.find(key, ident):
            return "pending", 0
        lane = self.lanes.get(key)
        waiting = len(lane.mail) if lane else 0
        if lane and message.busy == "reject":
            return "busy", waiting
        if delay:
            waiting = self.count(key)
        if message.cap and waiting >= message.cap:
            return "full", waiting
        ahead = waiting + (lane is not None and lane.token != "")
        new = Message(
            ident, -message.priority, message.body, message.ttl_ms, message.limit_ms, self.now, rule=message.rule
        )
        new.late = self.now + delay + message.late_ms if message.late_ms else 0
        if delay:
            self._postpone(key, new, message.keep_ms, delay)
            return "delayed", 0
        self._arrive(key, new, message.keep_ms)
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
        mine = Message(ident, 0, b"", opening.ttl_ms, opening.limit_ms, self.now, caller=token, rule=opening.rule)
        if lane:
            self._stir(key, lane)
            lane = self.lanes.get(key)
        if lane is None:
            lane = self.lanes[key] = Lane(opening.keep_ms)
            self._lease(lane, token, mine)
            return "granted", 0
        if ident in lane.mail or lane.running == ident:
            return "pending", 0
        waiting = len(lane.mail)
        if opening.busy == "reject":
            return "busy", waiting
        if opening.cap and waiting >= opening.cap:
            return "full", waiting
        self.lost.pop(token, None)
        self._stir(key, self._accept(key, mine, opening.keep_ms))
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
        self._stop_yielding(key, lane, token)
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
        self.claims[call] = pairs, self.now + CLAIM_NOTE_MS
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
            else:
                self._stop_yielding(key, lane, token)
        self.claims[call] = [], self.now + CLAIM_NOTE_MS
        return taken

    def commit(self, commit: Commit) -> tuple[str, Message | None, list[Message]]:
        """Returns the next message, and those that are newer."""
        key, lane = commit.key, self.lanes.get(commit.key)
        if not lane or lane.token != commit.token or lane.fence != commit.fence:
            return *self._refused(lane, commit.token, commit.next_token, "committed"), []
        if commit.unless_newer and (newer := self._steer(lane, commit.have, would_commit=True)):
            return "newer", None, newer
        seen, unseen, awaited = [], [], lane.awaited
        if lane.given:
            seen, unseen, awaited = lane.given.all[1 : commit.have], lane.given.all[commit.have :], lane.given.watchers
        for ident in (commit.ident, *(message.ident for message in seen)) if commit.window_ms else ():
            self.marks[key, ident] = commit.result, self.now + commit.window_ms
        self._tell_settled(awaited, key, commit.ident)
        for message in seen:
            self._tell_settled(message.watchers, key, message.ident)
        lane.mail |= {message.ident: message for message in unseen}
        lane.cuts = 0
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
        return "committed", self._give_next(key, lane, commit.next_token, commit.can), []

    def fail(self, failure: Failure) -> tuple[str, Message | None]:
        key, lane = failure.key, self.lanes.get(failure.key)
        if not lane or lane.token != failure.token or failure.fence not in (lane.fence, ANY_FENCE):
            answer = self._refused(lane, failure.token, failure.next_token, "failed")
            self._stop_yielding(key, lane, failure.token)
            return answer
        message = lane.given
        assert message is not None
        message.errors = min(MAX_ERRORS, message.errors + bool(failure.error))
        if failure.how != "back":
            lane.cuts = message.cuts = 0
        if failure.attempts:
            message.attempts = failure.attempts
        if failure.how == "dead":
            self._end_lease(lane)
            self._break_up(lane, message)
            del lane.mail[message.ident]
            if failure.state_op == "set":
                self.states[key] = failure.state, FOREVER
                lane.keep = failure.keep_ms
            elif failure.state_op == "del":
                self.states.pop(key, None)
            self._bury(key, lane, message)
            for send in failure.sends:
                self._send(key, send)
        elif failure.how == "split":
            self._end_lease(lane)
            for each in self._break_up(lane, message):
                each.after, each.attempts, each.is_open = self.now + failure.delay_ms, failure.attempts, False
                each.errors = message.errors
        else:
            if failure.how == "retry":
                message.after = self.now + failure.delay_ms
            if failure.error:
                message.is_open = False
            else:
                message.attempts -= 1
            if failure.how == "park":
                lane.stopped = "parked"
            self._put_back(lane)
        return "failed", self._give_next(key, lane, failure.next_token, failure.can)

    def _break_up(self, lane: Lane, lead: Message) -> list[Message]:
        """Every message of a burst goes to its own place."""
        burst, lead.together = lead.all, []
        lane.mail |= {message.ident: message for message in burst}
        return burst

    def steer(self, key: str, token: str, fence: int, have: int) -> tuple[str, list[Message]]:
        lane = self.lanes.get(key)
        if not lane or (lane.token, lane.fence) != (token, fence):
            return self._refused(lane, token, "", "")[0], []
        return "steered", self._steer(lane, have)

    def cancel(self, key: str, ident: str, window: int) -> str:
        if self.mark(key, ident) == b"\0cancelled":
            return "cancelled"
        lane, message = self.lanes.get(key), self.find(key, ident)
        if not message:
            return "ended"
        is_delayed = (key, ident) in self.later
        if not is_delayed and (not lane or ident not in lane.mail or message.together):
            return "begun"
        self._write_off(key, message, b"cancelled", window)
        if lane and not is_delayed:
            self._stir(key, lane)
        return "cancelled"

    def _send(self, source: str, send: Send) -> None:
        if self.find(send.key, send.ident) or self.mark(send.key, send.ident) is not None:
            return
        new = Message(send.ident, -send.priority, send.body, send.ttl_ms, send.limit_ms, self.now, rule=send.rule)
        if send.delay_ms:
            self._postpone(send.key, new, send.keep_ms, send.delay_ms, is_own=send.key == source)
        else:
            self._arrive(send.key, new, send.keep_ms, is_own=send.key == source)

    def _refused(self, lane: Lane | None, token: str, next_token: str, done: str) -> tuple[str, Message | None]:
        if lane and next_token and lane.token == next_token:
            return done, lane.given
        return "lost" if self.now < self.lost.get(token, 0) else "gone", None

    def attend(self, process: str, key: str, ident: str) -> str:
        self.inbox.setdefault(process, set()).discard(("settled", f"{process}#0", f"{key}\0{ident}"))
        if (mark := self.mark(key, ident)) is not None:
            return word_of(mark) or "done"
        if message := self.find(key, ident):
            message.watchers.add(process)
            return "pending"
        lane = self.lanes.get(key)
        if lane and lane.running == ident:
            lane.awaited.add(process)
            return "pending"
        return "dead" if (key, ident) in self.letters else "unknown"

    # -- the owner's hand --------------------------------------------------------------------------------

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

    # -- processes ---------------------------------------------------------------------------------------------

    def beat(self, process: str) -> None:
        self.seen[process] = self.now
        self._arrive_due()
        self._bury_late()
        for where in [where for where in self.letters if self.now >= self.died[where] + self.letter_ms]:
            del self.letters[where]
        rank = next(self._numbers)
        for key, lane in list(self.lanes.items()):
            is_waiting = not lane.token and not lane.stopped and key not in self.ready
            if is_waiting or (lane.token and not self.is_leased(lane)):
                self._advance(key, lane, rank)

    def depart(self, process: str) -> None:
        self.seen.pop(process, None)
        self.inbox.pop(process, None)


def word_of(mark: bytes) -> str:
    """Why a message will never run; '' if it has."""
    return mark[1:].decode() if mark[:1] == b"\0" else ""
