"""The limits of the stores' transitions, each once: Redis gets them put into its scripts, SQLite imports them.

`…_MS` is a time in milliseconds, `MAX_…` a count. Changing one changes what both stores do.
"""

from __future__ import annotations

# -- processes: how long what a process has outlives its last beat

BEAT_S = 1.0
"""How often a process says that it lives."""

PLACE_LIVES_MS = 3000
"""A waiting place lives while its process was seen within three beats: two may be lost or late."""

CONFIRM_MS = 2000
"""A grant or turn that its process does not confirm lapses after two beats: one push or beat may be lost."""

CONFIRM_UNHEARD_MS = 500
"""The same when no connection heard the push (Redis knows): most likely the process is dead."""

INBOX_LIVES_MS = 3_600_000
"""How long a notice waits in an inbox, counted from the last one on Redis, from each on SQLite. A process that is away
for longer asks for everything anew.
"""

PROCESS_LIVES_MS = 8 * 86_400_000
"""A process that was not seen for eight days is forgotten: no lease can live longer than that."""

LOST_NOTE_MS = 60_000
"""How long a lease that was taken away is remembered, so that what its holder does later is told `lost`."""

CLAIM_NOTE_MS = 60_000
"""How long SQLite keeps the answer to a claim for its repeats. Redis counts in timeouts of the caller instead."""

LETTER_LIVES_MS = 7 * 86_400_000
"""How long a dead letter is kept, unless the process that buries it says otherwise."""

LOOK_AT_SHARED_MS = 100
"""How often a plain key that someone else holds is looked at: its holder deletes it without telling us."""

# -- priorities

MAX_PRIORITY = 1000
"""Priorities go from minus this to this. Redis sorts by `MAX_PRIORITY - priority`, the rank, in four digits."""

# -- interrupts: a lane must still get ahead, whatever its writers do

MAX_CUTS = 3
"""Interrupts in a row. Then the turn is left alone, so that a fast typist gets an answer in the end."""

YIELD_MS = 1000
"""An interrupted turn has this long to end, before the next one begins without it."""

MAX_JOINING = 100
"""How far back in the mailbox a message that interrupts may stand, as all before it for its handler come along."""

# -- bursts and steering: one turn, and one transition, stay bounded

MAX_TOGETHER = 1000
"""A burst of this many messages takes no more in."""

MAX_LOOKED_AT = 1000
"""Waiting messages that one steer looks at, to find those of its handler."""

MAX_STEERED = 100
"""Messages that one steer takes into the turn; the next steer takes more."""

# -- upkeep: one call does a bounded part of it, and the next call goes on

MAX_BURIED = 100
"""Late messages at the head of one lane that one transition buries."""

MAX_DUE = 64
"""Locks, lanes, late messages and delayed messages that one call looks after because their time has come."""

MAX_LETTERS = 64
"""Dead letters that one beat removes because their time is over, or gives their time because nobody has yet."""

MAX_UNCLAIM = 1000
"""Lanes that one call looks at on Redis, to find what a claim was given that left no note."""

MAX_SWEPT = 4
"""Locks and lanes (on Redis processes too) that one beat looks at without a reason, to find what the dead have left."""

MAX_ERRORS = 20
"""Errors that a message keeps: the first one and the last ones."""

# -- what one answer holds

MAX_NOTICES = 1000
"""Notices in the answer to one beat; the next beat brings more."""

MAX_AHEAD = 64
"""Waiters ahead in the queue that one wait names as its blockers."""

MAX_HOLDERS = 1000
"""Behind more holders of one lock than this, nobody is said to be stuck."""

MAX_WAITERS = 1000
"""Waiters that the view of one lock shows."""
BEHIND_MS = 600_000
"""For this long a group that was given a turn stands behind groups that come. As long as a turn may take by default."""
