"""Every policy as tables: those of `inturn demo policies`, and one for each option and limit.

The tests play them on both stores, and the pictures of docs/policies.md are drawn from them.
"""

from __future__ import annotations

from dataclasses import dataclass

from inturn.demo.tables import (
    DROP,
    INTERRUPT,
    LATEST,
    MERGE,
    MERGE_QUIET,
    QUEUE,
    REJECT,
    ROLLBACK,
    STEER,
    UNLESS_NEWER,
    WAIT,
    At,
    Cancel,
    Handles,
    Ran,
    Table,
)
from inturn.lanes.policy import Cut

MERGE_CAP = Table(
    "merge-cap",
    "merge with a cap of three: the third message ends the quiet time",
    (Handles(3, "merge", quiet=2, max_burst=3),),
    (At(0, "A"), At(0.5, "B"), At(1, "C"), At(2.5, "D")),
    (Ran(1, 4, "ABC"), Ran(4.5, 7.5, "D")),
    {"A": "ABC", "B": "ABC", "C": "ABC", "D": "D"},
)

MERGE_LONGEST = Table(
    "merge-longest",
    "merge with a longest wait: someone who keeps typing gets an answer, too",
    (Handles(3, "merge", quiet=1.5, max_quiet=3),),
    (At(0, "A"), At(1, "B"), At(2, "C"), At(2.5, "D"), At(4, "E")),
    (Ran(3, 6, "ABCD"), Ran(6, 9, "E")),
    {"A": "ABCD", "B": "ABCD", "C": "ABCD", "D": "ABCD", "E": "E"},
)

MERGE_CUT = Table(
    "merge-cut",
    "merge with a cut: a long message ends the quiet time at once",
    (Handles(3, "merge", quiet=3, cut=Cut(text="text", longer_than=20)),),
    (At(0, "A", text="hi"), At(1, "B", text="My order 4711 has not arrived yet."), At(2, "C", text="hello?")),
    (Ran(1, 4, "AB"), Ran(5, 8, "C")),
    {"A": "AB", "B": "AB", "C": "C"},
)

MERGE_FAILING = Table(
    "merge-failing",
    "merge, three attempts: a burst with a bad message is retried, then split",
    (Handles(1, "merge", quiet=1, fails="B", attempts=3),),
    (At(0, "A"), At(0.5, "B"), At(1, "C"), At(3.5, "D")),
    (
        Ran(2, 3, "ABC", "failed"), Ran(3, 4, "ABC", "failed"),
        Ran(4, 5, "A"), Ran(5, 6, "B", "dead"), Ran(6, 7, "C"), Ran(7, 8, "D"),
    ),
    {"A": "A", "B": "dead", "C": "C", "D": "D"},
)  # fmt: skip

MERGE_CONSECUTIVE = Table(
    "merge-consecutive",
    "merge keeps the order: another handler's message is not overtaken",
    (Handles(2.5, "merge"), Handles(2.5, name="other")),
    (At(0, "A"), At(0.5, "B"), At(1, "C"), At(1.5, "X", to="other"), At(2, "D")),
    (Ran(0, 2.5, "A"), Ran(2.5, 5, "BC"), Ran(5, 7.5, "X"), Ran(7.5, 10, "D")),
    {"A": "A", "B": "BC", "C": "BC", "X": "X", "D": "D"},
)

INTERRUPT_LIMIT = Table(
    "interrupt-limit",
    "interrupt, at most three times in a row: a fast typist gets an answer",
    (Handles(2, "interrupt"),),
    (At(0, "A"), At(1, "B"), At(2, "C"), At(3, "D"), At(4, "E")),
    (
        Ran(0, 1, "A", "interrupted"), Ran(1, 2, "AB", "interrupted"), Ran(2, 3, "ABC", "interrupted"),
        Ran(3, 5, "ABCD"), Ran(5, 7, "E"),
    ),
    {"A": "ABCD", "B": "ABCD", "C": "ABCD", "D": "ABCD", "E": "E"},
)  # fmt: skip

INTERRUPT_ALLOWED = Table(
    "interrupt-allowed",
    "interrupt: another handler's turn is cancelled, if that handler allows it",
    (Handles(2, "interrupt"), Handles(4, name="nudge", interruptible=True)),
    (At(0, "N", to="nudge"), At(1, "A")),
    (Ran(0, 1, "N", "interrupted"), Ran(1, 3, "A"), Ran(3, 7, "N")),
    {"N": "N", "A": "A"},
)

INTERRUPT_REFUSED = Table(
    "interrupt-refused",
    "interrupt: another handler's turn is left alone, if that handler does not allow it",
    (Handles(2, "interrupt"), Handles(4, name="nudge")),
    (At(0, "N", to="nudge"), At(1, "A")),
    (Ran(0, 4, "N"), Ran(4, 6, "A")),
    {"N": "N", "A": "A"},
)

INTERRUPT_PRIORITY = Table(
    "interrupt-priority",
    "interrupt: a turn of a higher priority is left alone",
    (Handles(3, "interrupt"),),
    (At(0, "A", priority=5), At(1, "B")),
    (Ran(0, 3, "A"), Ran(3, 6, "B")),
    {"A": "A", "B": "B"},
)

LATEST_AGAIN = Table(
    "latest-again",
    "latest: what was superseded does not come back, however often it is delivered",
    (Handles(3, "latest"),),
    (At(0, "A"), At(1, "B"), At(2, "C"), At(4.5, "B", says="superseded")),
    (Ran(0, 3, "A"), Ran(3, 6, "C")),
    {"A": "A", "B": "superseded", "C": "C"},
)

UNLESS_NEWER_LIMIT = Table(
    "unless-newer-limit",
    "commit unless newer, at most three refusals: then it is committed in any case",
    (Handles(1, unless_newer=True),),
    (At(0, "A"), At(0.5, "B"), At(1.5, "C"), At(2.5, "D"), At(3.5, "E")),
    (
        Ran(0, 1, "A", "newer"), Ran(1, 2, "AB", "newer"), Ran(2, 3, "ABC", "newer"),
        Ran(3, 4, "ABCD"), Ran(4, 5, "E"),
    ),
    {"A": "ABCD", "B": "ABCD", "C": "ABCD", "D": "ABCD", "E": "E"},
)  # fmt: skip

PRIORITIES = Table(
    "priorities",
    "priorities: a user's message comes before a proactive one that waits",
    (Handles(2), Handles(2, name="nudge", priority=-5)),
    (At(0, "A"), At(0.5, "N", to="nudge"), At(1, "B")),
    (Ran(0, 2, "A"), Ran(2, 4, "B"), Ran(4, 6, "N")),
    {"A": "A", "B": "B", "N": "N"},
)

DELAYED = Table(
    "delayed",
    "delay: the message takes its place when it is due, and holds up nothing until then",
    (Handles(1),),
    (At(0, "A", delay=3, says="delayed"), At(1, "B"), At(2.5, "C"), At(4, "D", says="queued")),
    (Ran(1, 2, "B"), Ran(2.5, 3.5, "C"), Ran(3.5, 4.5, "A"), Ran(4.5, 5.5, "D")),
    {"A": "A", "B": "B", "C": "C", "D": "D"},
)

DELAYED_LATEST = Table(
    "delayed-latest",
    "delay with latest: remind me, but only once",
    (Handles(1, "latest"),),
    (At(0, "A", delay=3), At(1, "B", delay=3), At(2, "C", delay=3)),
    (Ran(5, 6, "C"),),
    {"A": "superseded", "B": "superseded", "C": "C"},
)

CANCEL = Table(
    "cancel",
    "cancel: what has not begun can be taken back",
    (Handles(2),),
    (At(0, "A"), At(0.5, "B", delay=4), At(1, "C"), Cancel(1.5, "C"), Cancel(2.5, "B"), Cancel(3.5, "A", works=False)),
    (Ran(0, 2, "A"),),
    {"A": "A", "B": "cancelled", "C": "cancelled"},
)

TABLES = (
    QUEUE, WAIT, REJECT, DROP,
    MERGE, MERGE_QUIET, MERGE_CAP, MERGE_LONGEST, MERGE_CUT, MERGE_FAILING, MERGE_CONSECUTIVE,
    INTERRUPT, INTERRUPT_LIMIT, INTERRUPT_ALLOWED, INTERRUPT_REFUSED, INTERRUPT_PRIORITY,
    ROLLBACK, LATEST, LATEST_AGAIN, STEER, UNLESS_NEWER, UNLESS_NEWER_LIMIT,
    PRIORITIES, DELAYED, DELAYED_LATEST, CANCEL,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Note:
    """A span of time that the picture names."""

    since: float
    until: float
    text: str


NOTES = {
    "wait": (Note(2, 4.5, "how long C may wait"),),
    "merge-quiet": (Note(2, 3.5, "quiet"), Note(5.5, 7, "quiet")),
    "merge-cap": (Note(2.5, 4.5, "quiet"),),
    "merge-longest": (Note(0, 3, "the longest wait"),),
    "merge-cut": (Note(2, 5, "quiet"),),
    "merge-failing": (Note(1, 2, "quiet"),),
    "steer": (Note(0, 3, "A"), Note(3, 6, "and B, C"), Note(6, 9, "and D")),
}
"""By the name of the table."""
