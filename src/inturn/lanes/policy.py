"""What happens to a message when its lane is busy: the policies, and the options that go with each."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from inturn import arguments
from inturn.arguments import Seconds
from inturn.errors import ArgumentError, ArgumentTypeError, BadMessage
from inturn.lanes import template
from inturn.store.lane import Policy, Rule
from inturn.store.limits import MAX_PRIORITY

Busy = Literal["queue", "wait", "reject", "drop", "merge", "interrupt", "rollback", "latest"]
BUSY: tuple[Busy, ...] = get_args(Busy)

MAX_BURST = 200
MAX_QUIET_S = 3600.0
MAX_VERSION = 100
MAX_DELAY_S = 366 * 86400.0

_IN_STORE: dict[Busy, Policy] = {
    "merge": "merge", "interrupt": "interrupt", "rollback": "rollback", "latest": "latest",
}  # fmt: skip
_GATHERING = ("merge", "interrupt")


@dataclass(frozen=True, slots=True)
class Cut:
    """What ends a quiet time at once: a long message, a late one, or many.

    `text` and `sent_at` name fields of the body (`"message.text"`). A message is long if its text has more than
    `longer_than` characters, or `words` words or more, with white space between them. It is late if it was sent more
    than `older_than` seconds ago; `sent_at` is Unix time, a datetime, or a datetime's text. They are many if more than
    `more_than` wait, 1 to 199; all of them come into the burst, up to its `max_burst`.
    """

    text: str | None = None
    longer_than: int | None = None
    sent_at: str | None = None
    older_than: Seconds | None = None
    words: int | None = None
    more_than: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("longer_than", self.longer_than), ("words", self.words)):
            if value is not None and self.text is None:
                raise ArgumentError(name, "goes together with text= in a Cut")
        if self.text is not None and self.longer_than is None and self.words is None:
            raise ArgumentError("text", "goes together with longer_than= or words= in a Cut")
        if (self.sent_at is None) != (self.older_than is None):
            raise ArgumentError("older_than", "goes together with sent_at= in a Cut")
        if self.text is None and self.sent_at is None and self.more_than is None:
            problem = "a Cut needs text= with longer_than= or words=, sent_at= with older_than=, or more_than="
            raise ArgumentError("text", problem)
        if self.longer_than is not None:
            arguments.whole(self.longer_than, "longer_than", 0, 1_000_000)
        if self.older_than is not None:
            arguments.seconds(self.older_than, "older_than", allow_zero=True, maximum=MAX_DELAY_S)
        if self.words is not None:
            arguments.whole(self.words, "words", 1, 1_000_000)
        if self.more_than is not None:
            arguments.whole(self.more_than, "more_than", 1, MAX_BURST - 1)

    def __call__(self, body: Any) -> bool:
        """Whether this message does, by itself."""
        return self._is_long(body) or self._is_late(body)

    def _is_long(self, body: Any) -> bool:
        found = None if self.text is None else template.look_up(body, self.text.split("."))
        if not isinstance(found, str):
            return False
        has_length = self.longer_than is not None and len(found) > self.longer_than
        return has_length or (self.words is not None and len(found.split()) >= self.words)

    def _is_late(self, body: Any) -> bool:
        if self.sent_at is None or self.older_than is None:
            return False
        found = template.look_up(body, self.sent_at.split("."))
        older_than_s = arguments.seconds(self.older_than, "older_than", allow_zero=True, maximum=MAX_DELAY_S)
        if isinstance(found, str):
            try:
                found = datetime.fromisoformat(found)
            except ValueError:
                raise BadMessage(f"{self.sent_at!r} is {found!r}; it must be a time", self.sent_at) from None
        if isinstance(found, datetime):
            found = found.timestamp()
        if isinstance(found, bool) or not isinstance(found, int | float):
            return False
        return time.time() - found > older_than_s


def make_rule(
    busy: Busy,
    *,
    quiet: Seconds | None,
    max_quiet: Seconds | None,
    max_burst: int | None,
    cut: Callable[[Any], bool] | None,
    interruptible: bool,
    version: int,
    window_ms: int,
) -> Rule:
    """Raises `ArgumentError` for options that do not go together."""
    for name, value in (("quiet", quiet), ("max_quiet", max_quiet), ("cut", cut)):
        if value is not None and busy not in _GATHERING:
            problem = f"busy={busy!r} has no quiet time; only busy='merge' and 'interrupt' have one"
            raise ArgumentError(name, problem, value)
    if max_burst is not None and busy not in _GATHERING:
        problem = f"busy={busy!r} makes no bursts; only 'merge' and 'interrupt' do"
        raise ArgumentError("max_burst", problem, max_burst)
    for name, value in (("max_quiet", max_quiet), ("cut", cut)):
        if value is not None and quiet is None:
            raise ArgumentError(name, "without quiet= there is no quiet time to end", value)
    if cut is not None and not callable(cut):
        raise ArgumentTypeError("cut", "must be a function of the body, or a Cut", cut)
    quiet_s = 0.0 if quiet is None else arguments.seconds(quiet, "quiet", allow_zero=True, maximum=MAX_QUIET_S)
    max_quiet_s = 10 * quiet_s
    if max_quiet is not None:
        max_quiet_s = arguments.seconds(max_quiet, "max_quiet", maximum=10 * MAX_QUIET_S)
    if max_quiet_s < quiet_s:
        raise ArgumentError("max_quiet", f"must not be less than quiet={quiet!r}", max_quiet)
    cap = 1
    if busy in _GATHERING:
        cap = 20 if max_burst is None else arguments.whole(max_burst, "max_burst", 2, MAX_BURST)
    return Rule(
        policy=_IN_STORE.get(busy, "queue"),
        quiet_ms=round(quiet_s * 1000),
        cap=cap,
        max_quiet_ms=round(max_quiet_s * 1000),
        allows=bool(interruptible),
        version=arguments.whole(version, "version", 1, MAX_VERSION),
        window_ms=window_ms,
        cut_at=1 + cut.more_than if isinstance(cut, Cut) and cut.more_than is not None else 0,
    )


def delay_ms(delay: Seconds | None, not_before: datetime | float | None, now_s: float) -> int:
    """How long a message is held back; `not_before` is a datetime with its zone, or Unix time."""
    if delay is not None and not_before is not None:
        raise ArgumentError("delay", "give delay= or not_before=, not both")
    if delay is not None:
        return round(arguments.seconds(delay, "delay", allow_zero=True, maximum=MAX_DELAY_S) * 1000)
    if not_before is None:
        return 0
    if isinstance(not_before, datetime):
        if not_before.tzinfo is None:
            raise ArgumentError("not_before", "must have a time zone, such as tzinfo=UTC", not_before)
        not_before = not_before.timestamp()
    if isinstance(not_before, bool) or not isinstance(not_before, int | float):
        raise ArgumentTypeError("not_before", "must be a datetime, or Unix time in seconds", not_before)
    if not math.isfinite(not_before):
        raise ArgumentError("not_before", "must be a finite time", not_before)
    left_s = not_before - now_s
    return round(arguments.seconds(max(0.0, left_s), "not_before", allow_zero=True, maximum=MAX_DELAY_S) * 1000)


def priority(value: object) -> int:
    return arguments.whole(value, "priority", -MAX_PRIORITY, MAX_PRIORITY)
