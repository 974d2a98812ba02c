"""How a lane of the model goes on: whose turn it is, what is ready, what has ended, and what policies do to it.

The verbs are in `lane_model`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count

from inturn.store.lane import PLAIN, Rule, read_ident
from inturn.store.limits import CONFIRM_MS, LOST_NOTE_MS, MAX_CUTS, PLACE_LIVES_MS, YIELD_MS

FOREVER = 10**15


@dataclass
class Message:
    ident: str
    rank: int
    """Less comes first."""
    body: bytes
    ttl: int
    limit: int
    accepted: int
    late: int = 0
    caller: str = ""
    rule: Rule = PLAIN
    number: float = 0
    """Its place among those of its rank."""
    attempts: int = 0
    after: int = 0
    errors: int = 0
    watchers: set[str] = field(default_factory=set)
    together: list[Message] = field(default_factory=list)
    """The others of the burst that it leads."""
    is_open: bool = True
    cuts: int = 0
    """Interrupts in a row."""
    keep: int = 0
    """How long the state is to live, while it is delayed."""

    @property
    def handler(self) -> str:
        return read_ident(self.ident)[0]

    @property
    def all(self) -> list[Message]:
        return [self, *self.together]


@dataclass
class Lane:
    keep: int
    token: str = ""
    fence: int = 0
    """Told by the store; -1: not known yet."""
    ttl: int = 0
    ends: int = 0
    lapses: int = 0
    running: str = ""
    allows: bool = False
    cuts: int = 0
    """Interrupts in a row."""
    yields: str = ""
    """The token that was interrupted and has not ended."""
    yield_by: int = 0
    awaited: set[str] = field(default_factory=set)
    stopped: str = ""
    mail: dict[str, Message] = field(default_factory=dict)
    given: Message | None = None
    """The submitted message that runs."""

    def in_order(self) -> list[Message]:
        return sorted(self.mail.values(), key=lambda message: (message.rank, message.number))

    def every(self) -> list[Message]:
        """All that are here, the running ones first."""
        leads = [*([self.given] if self.given else []), *self.in_order()]
        return [message for lead in leads for message in lead.all]


class LaneLife:
    def __init__(self) -> None:
        self.now = 0
        self.lanes: dict[str, Lane] = {}
        self.later: dict[tuple[str, str], Message] = {}
        """Delayed messages, in no lane."""
        self.states: dict[str, tuple[bytes, int]] = {}
        """Of each key: the text and when it expires."""
        self.marks: dict[tuple[str, str], tuple[bytes, int]] = {}
        self.letters: dict[tuple[str, str], tuple[Message, int]] = {}
        """Each with the ttl of the state."""
        self.letter_ms = FOREVER
        self.died: dict[tuple[str, str], int] = {}
        self.seen: dict[str, int] = {}
        self.lost: dict[str, int] = {}
        """Of each token whose lease was taken away: until when that is remembered."""
        self.inbox: dict[str, set[tuple[str, str, str]]] = {}
        self.claims: dict[str, tuple[list[tuple[str, str]], int]] = {}
        self.ready: dict[str, tuple[str, int]] = {}
        """Of each ready lane: its handler, and since when. What becomes ready in one beat is in no order."""
        self._numbers = count(1)

    # -- what there is -----------------------------------------------------------------------------------------

    def state(self, key: str) -> bytes | None:
        text, expires = self.states.get(key, (b"", 0))
        return text if self.now < expires else None

    def mark(self, key: str, ident: str) -> bytes | None:
        result, until = self.marks.get((key, ident), (b"", 0))
        return result if self.now < until else None

    def find(self, key: str, ident: str) -> Message | None:
        """Waiting, running or delayed."""
        here = self.lanes[key].every() if key in self.lanes else []
        return next((message for message in here if message.ident == ident), self.later.get((key, ident)))

    def ends_of(self, lane: Lane) -> int:
        ends = min(self.seen.get(process_of(lane.token), -FOREVER) + lane.ttl, lane.ends)
        return min(ends, lane.lapses) if lane.lapses else ends

    def is_leased(self, lane: Lane) -> bool:
        return lane.token != "" and self.now < self.ends_of(lane)

    def _accept(self, key: str, message: Message, keep: int) -> Lane:
        """Into the mailbox; the lane is not stirred."""
        lane = self.lanes.setdefault(key, Lane(keep))
        lane.keep = max(lane.keep, keep, self._persist(key))
        message.number = next(self._numbers)
        lane.mail[message.ident] = message
        self.letters.pop((key, message.ident), None)
        return lane

    def _persist(self, key: str) -> int:
        """Returns how long the state had left, if it had an end."""
        if (text := self.state(key)) is None:
            return 0
        _, until = self.states[key]
        self.states[key] = text, FOREVER
        return 0 if until == FOREVER else until - self.now

    def _lease(self, lane: Lane, token: str, message: Message) -> None:
        lane.token, lane.fence, lane.running, lane.ttl = token, -1, message.ident, message.ttl
        lane.ends, lane.lapses, lane.awaited = self.now + message.limit + message.ttl, 0, set()
        lane.allows = message.rule.allows

    def _end_lease(self, lane: Lane) -> None:
        lane.token, lane.fence, lane.running, lane.lapses, lane.awaited, lane.given = "", 0, "", 0, set(), None

    def _put_back(self, lane: Lane) -> None:
        assert lane.given is not None
        lane.mail[lane.running] = lane.given
        self._end_lease(lane)

    def _bury(self, key: str, lane: Lane, message: Message) -> None:
        self.letters[key, message.ident] = message, lane.keep
        self.died[key, message.ident] = self.now
        self._tell_settled(message.watchers, key, message.ident)

    def _tell_loss(self, key: str, token: str) -> None:
        self.lost[token] = self.now + LOST_NOTE_MS
        self._tell(process_of(token), ("lost", token, key))

    def _take_away(self, key: str, lane: Lane) -> None:
        self._untell("turn", lane.token, key)
        self._tell_loss(key, lane.token)
        if lane.given:
            lane.given.errors += 1
            lane.given.is_open = False
            self._put_back(lane)
        else:
            self._tell_settled(lane.awaited, key, lane.running)
            self._end_lease(lane)

    # -- going on ----------------------------------------------------------------------------------------------

    def _stir(self, key: str, lane: Lane) -> None:
        if not self.is_leased(lane):
            self._advance(key, lane)

    def _joins(self, message: Message, handler: str) -> bool:
        is_free = message.is_open and not message.caller and message.after <= self.now
        return is_free and message.handler == handler

    def _is_quiet(self, lane: Lane, lead: Message) -> bool:
        """Nothing came for long enough, or it is too much or too long already."""
        burst = lead.rule
        first = lead.all[-1] if lead.cuts else lead
        last = first.accepted + first.rule.quiet_ms
        if first.rule.quiet_ms == 0 or not lead.is_open:
            return True
        number = len(lead.all)
        for other in lane.in_order()[1 : burst.cap]:
            if not self._joins(other, lead.handler) or other.late:
                break
            if other.rule.quiet_ms == 0:
                return True
            last, number = max(last, other.accepted + other.rule.quiet_ms), number + 1
        is_enough = number >= min(burst.cap, burst.cut_at or burst.cap)
        return is_enough or self.now >= min(last, first.accepted + first.rule.max_quiet_ms)

    def _join(self, lane: Lane, lead: Message, other: Message) -> None:
        del lane.mail[other.ident]
        lead.together += other.all
        lead.rank = min(lead.rank, other.rank)
        other.late, other.together = 0, []

    def _give_next(self, key: str, lane: Lane, token: str, can: Sequence[str]) -> Message | None:
        head = lane.in_order()[0] if lane.mail else None
        is_free = token and not lane.stopped and not lane.yields
        if is_free and head and not head.caller and head.after <= self.now and self._is_quiet(lane, head):
            is_late = head.late and self.now > head.late
            if not is_late and head.handler in can:
                del lane.mail[head.ident]
                for other in lane.in_order() if head.is_open else ():
                    is_too_many = len(head.all) + len(other.all) > head.rule.cap
                    if not self._joins(other, head.handler) or other.late or is_too_many:
                        break
                    self._join(lane, head, other)
                head.attempts += 1
                head.late = 0
                self._lease(lane, token, head)
                lane.given = head
                self.seen[process_of(token)] = self.now
                return head
        self._advance(key, lane)
        return None

    def _advance(self, key: str, lane: Lane, rank: int = 0) -> None:
        if lane.token:
            if self.is_leased(lane):
                return
            self._take_away(key, lane)
        if lane.yields and self.now < lane.yield_by:
            self.ready.pop(key, None)
            return
        lane.yields = ready = ""
        while not lane.stopped and not ready and not lane.token:
            if not lane.mail:
                self._go_idle(key, lane)
                return
            head = lane.in_order()[0]
            if head.caller:
                del lane.mail[head.ident]
                if self.now <= self.seen.get(process_of(head.caller), -FOREVER) + PLACE_LIVES_MS:
                    self._offer(key, lane, head)
                else:
                    self._tell_settled(head.watchers, key, head.ident)
                    self._tell(process_of(head.caller), ("lost", head.caller, key))
            elif head.late and self.now > head.late:
                del lane.mail[head.ident]
                head.errors += 1
                self._bury(key, lane, head)
            elif head.after > self.now or not self._is_quiet(lane, head):
                break
            else:
                ready = head.handler
        if self.ready.get(key, ("", 0))[0] != ready:
            self.ready.pop(key, None)
            if ready:
                self.ready[key] = ready, rank or next(self._numbers)

    def _bury_late(self) -> None:
        """Whoever should have begun by now, and did not; also behind a turn that runs."""
        for key, lane in list(self.lanes.items()):
            late = [message for message in lane.in_order() if message.late and self.now > message.late]
            for message in late:
                del lane.mail[message.ident]
                message.errors += 1
                self._bury(key, lane, message)
            if late and not self.is_leased(lane):
                self._advance(key, lane)

    def _offer(self, key: str, lane: Lane, message: Message) -> None:
        self._lease(lane, message.caller, message)
        lane.awaited, lane.lapses = message.watchers, self.now + CONFIRM_MS
        self._tell(process_of(message.caller), ("turn", message.caller, key))

    def _go_idle(self, key: str, lane: Lane) -> None:
        self.ready.pop(key, None)
        del self.lanes[key]
        if (text := self.state(key)) is not None and lane.keep and self.states[key][1] == FOREVER:
            self.states[key] = text, self.now + lane.keep

    def _tell(self, process: str, notice: tuple[str, str, str]) -> None:
        self.inbox.setdefault(process, set()).add(notice)

    def _untell(self, kind: str, token: str, name: str) -> None:
        self.inbox.get(process_of(token), set()).discard((kind, token, name))

    def _tell_settled(self, processes: Iterable[str], key: str, ident: str) -> None:
        for process in processes:
            self._tell(process, ("settled", f"{process}#0", f"{key}\0{ident}"))

    # -- policies: what the rule of a message does when it arrives --------------------------------------

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

    def _postpone(self, key: str, message: Message, keep: int, delay: int, *, is_own: bool = False) -> None:
        if message.rule.policy == "latest":
            self._supersede(key, message)
            lane = self.lanes.get(key)
            if lane and not lane.token and not is_own:
                self._advance(key, lane)
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

    def _interrupt(self, key: str, lane: Lane, message: Message) -> None:
        running = lane.given
        if lane.stopped or not self.is_leased(lane):
            return
        is_same = running is not None and running.handler == message.handler
        cuts, rank = (running.cuts, running.rank) if running else (lane.cuts, 0)
        if cuts >= MAX_CUTS or not (is_same or lane.allows) or rank < message.rank:
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
            running.is_open = True
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
        """What waits for the handler of the turn comes into it. Returns what the turn does not have yet."""
        lead = lane.given
        assert lead is not None
        for other in lane.in_order() if (lead.is_open or would_commit) and not lane.stopped else ():
            if other.handler != lead.handler or (other.late and self.now > other.late):
                continue
            if not self._joins(other, lead.handler):
                break  # nothing comes in past a message of the same handler that cannot
            self._join(lane, lead, other)
        return lead.all[have:]


def process_of(token: str) -> str:
    return token.rpartition("#")[0]
