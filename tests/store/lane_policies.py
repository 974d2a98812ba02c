"""What the rule of a message does in the model of a lane, when the message arrives."""

from __future__ import annotations

from tests.store.lane_life import YIELD_MS, Lane, LaneLife, Message

MOST_CUTS = 3


class LanePolicies(LaneLife):
    def _arrive(self, key: str, message: Message, keep: int, *, is_own: bool = False) -> None:
        """`is_own`: a turn sends it to its own lane, which goes on when all effects of the turn are written."""
        if key in self.lanes and self.lanes[key].token and not self.is_leased(self.lanes[key]) and not is_own:
            self._advance(key, self.lanes[key])
        lane = self._accept(key, message, keep)
        policy = message.rule.policy
        if policy in ("latest", "rollback"):
            self._supersede(key, message)
        if policy in ("interrupt", "rollback") and not is_own:
            self._interrupt(key, lane, message)
        if not is_own:
            self._stir(key, lane)

    def _postpone(self, key: str, message: Message, keep: int, delay: int) -> None:
        if message.rule.policy == "latest":
            self._supersede(key, message)
        message.after, message.keep = self.now + delay, keep
        self.later[key, message.ident] = message
        self.letters.pop((key, message.ident), None)

    def _arrive_due(self) -> None:
        due = [(key, message) for (key, _), message in self.later.items() if message.after <= self.now]
        for key, message in sorted(due, key=lambda pair: pair[1].after):
            if self.later.pop((key, message.ident), None):  # one that came before it may have superseded it
                message.accepted, message.after = message.after, 0
                self._arrive(key, message, message.keep)

    def _write_off(self, key: str, message: Message, why: bytes, window: int) -> None:
        """It will never run; if it leads a burst, its burst will not."""
        if key in self.lanes:
            self.lanes[key].mail.pop(message.ident, None)
        self.later.pop((key, message.ident), None)
        for each in message.all:
            due_in = max(0, each.after - self.now)  # one that is delayed stays known from when it would have run
            self.marks[key, each.ident] = b"\0" + why, self.now + window + due_in
            self._tell_settled(each.watchers, key, each.ident)

    def _supersede(self, key: str, by: Message) -> None:
        """What waits or is delayed for the same handler; what runs does not."""
        waiting = list(self.lanes[key].mail.values()) if key in self.lanes else []
        waiting += [message for (where, _), message in self.later.items() if where == key]
        for message in waiting:
            if message is not by and message.handler == by.handler:
                by.cuts = max(by.cuts, message.cuts)
                self._write_off(key, message, b"superseded", by.rule.window_ms)
        if key in self.lanes and self.lanes[key].token == "" and by.ident not in self.lanes[key].mail:
            self._advance(key, self.lanes[key])

    def _interrupt(self, key: str, lane: Lane, message: Message) -> None:
        running = lane.given
        if lane.stopped or not self.is_leased(lane):
            return
        is_same = running is not None and running.handler == message.handler
        cuts, rank = (running.cuts, running.rank) if running else (lane.cuts, 0)
        if cuts >= MOST_CUTS or not (is_same or lane.allows) or rank < message.rank:
            return
        is_rollback = is_same and message.rule.policy == "rollback"
        if running is not None and not is_rollback and self._company(lane, message) is None:
            return
        token = lane.token
        self._tell_loss(key, token)
        if lane.lapses:
            self._untell("turn", token, key)
        else:
            lane.yields, lane.yield_by = token, self.now + YIELD_MS
        if running is None:
            self._tell_settled(lane.awaited, key, lane.running)
        self._end_lease(lane)
        if running is not None:
            self._make_way(key, lane, running, message)
        else:
            lane.cuts += 1

    def _company(self, lane: Lane, message: Message) -> list[Message] | None:
        """What joins a turn that this message interrupts: what waits for its handler before it, and itself.

        `None`: one of them was tried before, and its own turn comes first.
        """
        waiting = lane.in_order()
        before = [other for other in waiting[: waiting.index(message)] if other.handler == message.handler]
        return [*before, message] if all(self._joins(other, message.handler) for other in before) else None

    def _make_way(self, key: str, lane: Lane, running: Message, message: Message) -> None:
        """Where the messages of the turn go that this one has interrupted."""
        running.attempts, running.cuts = running.attempts - 1, running.cuts + 1
        if running.handler != message.handler:
            before = self._company(lane, message) or []
            for place, other in enumerate(before):  # directly before it
                other.number = running.number - 0.5 + place / (2 * len(before))
            lane.mail[running.ident] = running
        elif message.rule.policy == "interrupt":
            for other in self._company(lane, message) or ():
                self._join(lane, running, other)
            running.is_open, running.rank = True, message.rank
            lane.mail[running.ident] = running
        else:
            self._write_off(key, running, b"superseded", message.rule.window_ms)
            message.number, message.cuts = running.number, running.cuts

    def _stop_yielding(self, key: str, lane: Lane | None, token: str) -> None:
        """If it is the one that was interrupted, it has ended now."""
        if lane and lane.yields == token:
            lane.yields = ""
            self._advance(key, lane)

    def _steer(self, lane: Lane, have: int, *, would_commit: bool = False) -> list[Message]:
        """What waits for the handler of the turn comes into it. Answers what the turn does not have yet."""
        lead = lane.given
        assert lead is not None
        for other in lane.in_order() if (lead.is_open or would_commit) and not lane.stopped else ():
            if other.handler != lead.handler or (other.late and self.now > other.late):
                continue
            if not self._joins(other, lead.handler):
                break  # nothing comes in past a message of the same handler that cannot
            self._join(lane, lead, other)
        return lead.all[have:]
