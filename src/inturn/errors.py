"""The errors that callers meet. A backend's own exception never leaves the store.

InTurnError
├── ArgumentError          an argument is invalid; names the field (also ValueError)
│   └── ArgumentTypeError  it is of the wrong type (also TypeError)
├── SettingsError          a variable, URL or argument of the set-up is wrong (also ValueError)
│   ├── MissingExtra       an optional dependency is not installed; names the extra
│   └── DefinitionError    a workflow definition or graph is wrong; names file, line, field or node
│       └── DefinitionMissing  the workflow of a conversation is not loaded here
├── StoreUnavailable       the store is away, refuses, or did not answer in time
│   └── NotReplicated      it took the call, but too few replicas confirmed it in time
├── BrokerUnavailable      the broker is away, refuses, or did not confirm in time
│   ├── BrokerFull         too many jobs are waiting; nothing was published
│   └── QueueMismatch      a queue exists with other arguments
├── LockError
│   ├── LockTimeout        not granted within `wait`; plain, retryable
│   ├── LockMismatch       the name is in use with another capacity
│   ├── AlreadyHeld        this `owner=` already holds the name (see `reentrant=True`)
│   ├── NotHeld            releasing or extending what is not held
│   ├── LeaseLost          the lease ended while a body or turn was running
│   │   └── Interrupted    by a newer message of its lane
│   ├── DeadlockDetected   a cycle of waits, which this waiter was chosen to break
│   └── ConversationLockError   the conversation is being answered by someone else
├── AgentError
│   ├── AgentTimeout       the agent did not answer in time
│   ├── AgentUnavailable   it cannot be reached, is overloaded, or broke off
│   └── AgentRejected      it refused what it was asked
├── CapabilityError
│   ├── UnknownCapability  none of this name is registered here
│   ├── InputRefused       the input guard refused the text
│   └── VagueInput         the text does not say enough; carries suggestions
├── UnknownJob             there is none of this id, or it is someone else's
├── DatabaseError
│   ├── DatabaseUnavailable   it did not answer in time, or cannot be reached
│   └── DatabaseOutdated   its schema is older or newer than this version: run `inturn migrate`
├── TasksError
│   ├── UnknownTask        there is none of this id, or it is someone else's
│   ├── UnknownRequest     the same, for a request of the Tasks service
│   └── BudgetExhausted    the user's tokens of this window are spent or reserved
├── ConversationError
│   ├── UnknownConversation   there is none of this id, or it is someone else's
│   ├── SessionCompleted   the workflow is completed; it takes no more turns
│   ├── CardNotAllowed     the definition lists no such card or action
│   └── GraphTooDeep       a graph went from node to node without end
└── LaneError
    ├── UnknownHandler     no handler of this name is registered here
    ├── BadMessage         an invalid body, state, result or key (also ValueError)
    │   └── TooLarge       it is over the limit
    ├── LaneBusy           the lane is busy, and the policy is `reject`
    ├── LaneTimeout        the turn did not begin within `wait`
    ├── MailboxFull        too many messages are waiting
    ├── DuplicateMessage   an inline turn for a message that is running or has run; carries its receipt
    ├── OwnLane            a turn waits for its own lane, which could never end
    ├── StateMismatch      the stored state does not fit its schema; the lane is parked
    ├── HandlerTimeout     the handler reached its time limit
    ├── HandlerFailed      the message is a dead letter; carries its errors
    ├── Superseded         the message will not run: a newer one took its place
    ├── MessageCancelled   the message will not run: it was cancelled
    ├── ResultExpired      the result is no longer kept
    ├── CommitUnknown      the store did not say whether the commit happened
    └── HandlerSignal      raised by a handler to say how it failed
        ├── Retry          try again, after a time
        ├── Apart          try each message of the burst again by itself
        └── Stop           do not try again
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from inturn.masking import masked, masked_passwords

if TYPE_CHECKING:
    from inturn.agents.completion import ProviderCall
    from inturn.lanes.receipt import Receipt

MAX_RETRY_DELAY_S = 365 * 86400.0

__all__ = [
    "AgentError",
    "AgentRejected",
    "AgentTimeout",
    "AgentUnavailable",
    "AlreadyHeld",
    "Apart",
    "ArgumentError",
    "ArgumentTypeError",
    "BadMessage",
    "BrokerFull",
    "BrokerUnavailable",
    "BudgetExhausted",
    "CapabilityError",
    "CardNotAllowed",
    "CommitUnknown",
    "ConversationError",
    "ConversationLockError",
    "DatabaseError",
    "DatabaseOutdated",
    "DatabaseUnavailable",
    "DeadlockDetected",
    "DefinitionError",
    "DefinitionMissing",
    "DuplicateMessage",
    "GraphTooDeep",
    "HandlerFailed",
    "HandlerSignal",
    "HandlerTimeout",
    "InTurnError",
    "InputRefused",
    "Interrupted",
    "LaneBusy",
    "LaneError",
    "LaneTimeout",
    "LeaseLost",
    "LockError",
    "LockMismatch",
    "LockTimeout",
    "MailboxFull",
    "MessageCancelled",
    "MissingExtra",
    "NotHeld",
    "NotReplicated",
    "OwnLane",
    "QueueMismatch",
    "ResultExpired",
    "Retry",
    "SessionCompleted",
    "SettingsError",
    "StateMismatch",
    "Stop",
    "StoreUnavailable",
    "Superseded",
    "TasksError",
    "TooLarge",
    "UnknownCapability",
    "UnknownConversation",
    "UnknownHandler",
    "UnknownJob",
    "UnknownRequest",
    "UnknownTask",
    "VagueInput",
]


class InTurnError(Exception):
    """The root of the tree. Errors can be pickled and copied, so that they pass from process to process."""

    def __reduce__(self) -> tuple[object, ...]:
        # an exception is rebuilt by its class and `args`, but ours take other arguments than they show
        return _rebuilt, (type(self), self.args), self.__dict__


def _rebuilt(kind: type[InTurnError], args: tuple[object, ...]) -> InTurnError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


_NOT_SHOWN = object()


class ArgumentError(InTurnError, ValueError):
    """An invalid argument. `field` names it; `problem` says what is wrong with it."""

    def __init__(self, field: str, problem: str, value: object = _NOT_SHOWN) -> None:
        shown = f"{field}: " if value is _NOT_SHOWN else f"{field}={masked_passwords(repr(value))}: "
        super().__init__(shown + problem)
        self.field = field
        self.problem = problem


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument of the wrong type."""


class SettingsError(InTurnError, ValueError):
    """Something in the set-up is wrong. The message names it and says what to do."""


class MissingExtra(SettingsError):
    """An optional dependency is missing."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the extra {extra!r}: pip install 'inturn[{extra}]'")
        self.extra = extra


class DefinitionError(SettingsError):
    """A workflow definition or graph cannot be used. `problems` lists all that was found, one sentence each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class DefinitionMissing(DefinitionError):
    """A conversation is in a workflow that this process has not loaded."""

    def __init__(self, conversation_id: str, definition: str) -> None:
        super().__init__([f"conversation {conversation_id!r} is in workflow {definition!r}, which is not loaded"])
        self.conversation_id = conversation_id
        self.definition = definition


class StoreUnavailable(InTurnError):
    """The store did not confirm the call, which may or may not have happened. `__cause__` says why."""


class NotReplicated(StoreUnavailable):
    """The store did it, but too few replicas confirmed it in time: a failover could lose it. A repeat is safe."""


class BrokerUnavailable(InTurnError):
    """The broker did not confirm. `is_certain`: it has not taken the message; otherwise that is not known."""

    def __init__(self, why: str, *, is_certain: bool = False) -> None:
        super().__init__(why)
        self.is_certain = is_certain


class BrokerFull(BrokerUnavailable):
    """Too many jobs are waiting. Nothing was published."""

    def __init__(self, why: str) -> None:
        super().__init__(why, is_certain=True)


class QueueMismatch(BrokerUnavailable):
    """A queue exists on the broker with other arguments than ours."""

    def __init__(self, why: str) -> None:
        super().__init__(why, is_certain=True)


class LockError(InTurnError):
    """The root of the lock errors."""


class LockTimeout(LockError):
    """The lock was not granted within the time to wait."""

    def __init__(self, name: str, waited_s: float, holder: str | None = None) -> None:
        by = f"; held by {holder}" if holder else ""
        super().__init__(f"lock {name!r} was not granted within {waited_s:.3g} s{by}")
        self.name = name
        self.waited_s = waited_s
        self.holder = holder


class LockMismatch(LockError):
    """The name is in use with another capacity: the two callers mean different locks."""

    def __init__(self, name: str, asked: int, found: int) -> None:
        super().__init__(
            f"{name!r} is in use with a capacity of {found}, but {asked} was asked for: "
            "use one kind of lock (and one number of permits) per name"
        )
        self.name = name
        self.asked = asked
        self.found = found


class AlreadyHeld(LockError):
    """An `owner=` asked for a lock that it holds itself."""

    def __init__(self, name: str, owner: str) -> None:
        super().__init__(
            f"{owner} already holds {name!r} and would wait for itself; release it first, "
            "or make the lock with reentrant=True"
        )
        self.name = name
        self.owner = owner


class NotHeld(LockError):
    """There is nothing to release or extend."""

    def __init__(self, name: str, why: str = "this object does not hold it") -> None:
        super().__init__(f"lock {name!r} is not held: {why}")
        self.name = name


class LeaseLost(LockError):
    """The lease ended while its body ran. What the body writes elsewhere may be stale: use the fence."""

    def __init__(self, name: str, fence: int, why: str) -> None:
        super().__init__(f"the lease on {name!r} (fence {fence}) was lost: {why}")
        self.name = name
        self.fence = fence
        self.why = why


class Interrupted(LeaseLost):
    """A newer message of the lane ended this turn. Nothing from this turn was written."""


class DeadlockDetected(LockError):
    """A cycle of waits was seen twice, and its youngest waiter gets this error, so that the others can go on.

    Or a task would wait without a limit for what its own block holds.
    """

    is_for_result = False
    """The wait was for the result of a message, which stands behind a turn of the cycle. A handler that raises it is
    not tried again: its next attempt would stand in the way of that message, too.
    """

    def __init__(self, name: str, cycle: list[str]) -> None:
        super().__init__(f"waiting for {name!r} would never end: {' -> '.join(cycle)}")
        self.name = name
        self.cycle = cycle


class ConversationLockError(LockError):
    """The conversation's lock is held by someone else."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"conversation {conversation_id!r} is already being answered; try again later")
        self.conversation_id = conversation_id


class AgentError(InTurnError):
    """The root of what agents raise. `said`: the provider's own words, if any, without secrets.

    `status` and `retry_after_s`: the provider's HTTP status and its `Retry-After`, if it gave them.
    """

    is_worth_retry = True
    """Whether the same request may succeed later."""

    def __init__(
        self, agent: str, why: str, said: str = "", *, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        why, said = masked(why), masked(said)  # here, because it goes to clients, logs and dead letters
        super().__init__(f"agent {agent!r} {why}" + (f": {said}" if said else ""))
        self.agent = agent
        self.why = why
        self.said = said
        self.status = status
        self.retry_after_s = retry_after_s
        self.calls: tuple[ProviderCall, ...] = ()
        """The provider's calls that were billed before it failed."""


class AgentTimeout(AgentError):
    """The agent did not answer in time."""


class AgentUnavailable(AgentError):
    """The agent cannot be reached, is overloaded, or broke off in the middle of its answer."""


class AgentRejected(AgentError):
    """The provider refused the request: asking it the same again would not help."""

    is_worth_retry = False


class CapabilityError(InTurnError):
    """The root of the capability errors."""


class UnknownCapability(CapabilityError):
    """No capability of this name is registered in this process."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"there is no capability {name[:64]!r}; there are: {', '.join(known) or 'none'}")
        self.name = name


class InputRefused(CapabilityError):
    """The input guard refused the text. Its words give no hint; `family` is for metrics and logs alone."""

    def __init__(self, family: str) -> None:
        super().__init__("Invalid input provided.")
        self.family = family


class VagueInput(CapabilityError):
    """The text does not say enough to act on. `suggestions`: 1 to 3 texts that would."""

    def __init__(self, reason: str, suggestions: list[str]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.suggestions = suggestions
        self.calls: tuple[ProviderCall, ...] = ()
        """The provider's calls that were billed to find that out."""


class UnknownJob(InTurnError):
    """There is no such job, it has expired, or it belongs to someone else. The error does not tell which."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"there is no job {job_id!r}")
        self.job_id = job_id


class DatabaseError(InTurnError):
    """The root of the errors of the database."""


class DatabaseUnavailable(DatabaseError):
    """The database did not come to an end with a transaction in time. If that was a commit, it may have happened."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"the database {url} cannot be used now: {why}")
        self.url = url
        self.why = why


class DatabaseOutdated(DatabaseError):
    """The schema of the database does not fit this version of inturn."""

    def __init__(self, found: str | None, needed: str) -> None:
        at = f"at version {found}" if found else "empty"
        is_newer = found is not None and found > needed
        todo = "update inturn here" if is_newer else "run `inturn migrate`"
        super().__init__(f"the database is {at}, and this inturn needs version {needed}: {todo}")
        self.found = found
        self.needed = needed


class TasksError(InTurnError):
    """The root of the errors of the Tasks service."""


class UnknownTask(TasksError):
    """There is no such task, or it belongs to someone else. The error does not tell which."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"there is no task {task_id!r}")
        self.task_id = task_id


class UnknownRequest(TasksError):
    """There is no such request, or it belongs to someone else. The error does not tell which."""

    def __init__(self, request_id: str) -> None:
        super().__init__(f"there is no request {request_id!r}")
        self.request_id = request_id


class BudgetExhausted(TasksError):
    """A reservation does not fit into what is left of the user's tokens. `resets_at`: seconds since the epoch."""

    def __init__(self, needed: int, limit: int, remaining: int, resets_at: float, retry_after_s: int) -> None:
        super().__init__(
            f"this needs about {needed} tokens, and {remaining} of {limit} are left: the budget resets in "
            f"{retry_after_s} s"
        )
        self.needed = needed
        self.limit = limit
        self.remaining = remaining
        self.resets_at = resets_at
        self.retry_after_s = retry_after_s


class ConversationError(InTurnError):
    """The root of the conversation errors."""


class UnknownConversation(ConversationError):
    """There is no such conversation, it has expired, or it belongs to someone else. The error does not tell which."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"there is no conversation {conversation_id!r}; begin a new one")
        self.conversation_id = conversation_id


class SessionCompleted(ConversationError):
    """The workflow of this conversation has been completed."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"the workflow of conversation {conversation_id!r} is completed; begin a new one")
        self.conversation_id = conversation_id


class CardNotAllowed(ConversationError):
    """The workflow's definition does not list this card, or this action of it."""

    def __init__(self, card_id: str, why: str) -> None:
        super().__init__(f"card {card_id!r}: {why}")
        self.card_id = card_id


class GraphTooDeep(ConversationError):
    """A project's graph went from node to node without ever waiting. `path` lists the nodes it went through."""

    def __init__(self, path: list[str], limit: int) -> None:
        super().__init__(
            f"the graph went through more than {limit} nodes in one turn: {' -> '.join(path[-6:])}; "
            "make it wait for the visitor somewhere on this path"
        )
        self.path = path


class LaneError(InTurnError):
    """The root of the lane errors."""


class UnknownHandler(LaneError):
    """No handler of this name is registered in this process."""

    def __init__(self, name: str, known: list[str]) -> None:
        there_are = f"known: {', '.join(known)}" if known else "there are none: register one with @app.handler(…)"
        super().__init__(f"no handler {name!r} is registered here; {there_are}")
        self.name = name


class BadMessage(LaneError, ValueError):
    """An invalid body, state, result or key. `field` names the argument, or is '' if it is not one."""

    def __init__(self, message: str, field: str = "", problem: str = "") -> None:
        super().__init__(message)
        self.field = field
        self.problem = problem or message.removeprefix(f"{field}: ")


class TooLarge(BadMessage):
    """Over the limit; nothing was written."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        super().__init__(
            f"{what} is {size} bytes long; at most {limit} are allowed: store it elsewhere, and send a reference to it"
        )
        self.size = size
        self.limit = limit


class LaneBusy(LaneError):
    """The lane is busy: it is held, messages are waiting, or it is stopped."""

    def __init__(self, key: str, holder: str | None, since_s: float, waiting: int, stopped: str = "") -> None:
        if stopped:
            why = f"it is {stopped} (resume it with: inturn lanes resume {key})"
        elif holder:
            why = f"held by {holder} for {since_s:.3g} s, {waiting} waiting"
        else:
            why = f"{waiting} waiting"
        super().__init__(f"lane {key!r} is busy: {why}")
        self.key = key
        self.holder = holder
        self.since_s = since_s
        self.waiting = waiting
        self.stopped = stopped


class LaneTimeout(LaneError):
    """The turn did not begin within the time to wait."""

    def __init__(self, key: str, waited_s: float) -> None:
        super().__init__(f"lane {key!r}: the turn did not begin within {waited_s:.3g} s")
        self.key = key
        self.waited_s = waited_s


class MailboxFull(LaneError):
    """The mailbox of this lane is full."""

    def __init__(self, key: str, waiting: int) -> None:
        super().__init__(f"lane {key!r} is full: {waiting} messages are waiting; try again later, or raise max_waiting")
        self.key = key
        self.waiting = waiting


class DuplicateMessage(LaneError):
    """This message is running, or was committed before: `await error.receipt.result()` returns its first result."""

    def __init__(self, key: str, message_id: str, receipt: Receipt) -> None:
        super().__init__(f"lane {key!r} already has message {message_id!r}; its receipt has the first result")
        self.key = key
        self.message_id = message_id
        self.receipt = receipt


class OwnLane(LaneError):
    """A turn would wait for its own lane, which goes on only after the turn has ended."""

    def __init__(self, key: str) -> None:
        super().__init__(f"a turn of lane {key!r} cannot wait for that lane: it would wait for itself")
        self.key = key


class StateMismatch(LaneError):
    """Another version of the code wrote the state. It was not touched, and the lane is parked."""

    def __init__(self, key: str, why: str, needs: int = 0, *, is_lane: bool = True) -> None:
        if needs:
            to_do = f"; only workers on version {needs} can read it, and the lane waits for one"
        elif is_lane:
            to_do = f"; the lane is parked: deploy code that reads it, then run: inturn lanes resume {key}"
        else:
            to_do = ""
        super().__init__(f"the state of {'lane ' * is_lane}{key!r} does not fit its schema: {why}{to_do}")
        self.key = key
        self.why = why
        self.needs = needs
        """The version of the handler that wrote it, if that is newer than ours; else 0."""


class HandlerTimeout(LaneError):
    """The handler reached its time limit, and the attempt has failed."""

    def __init__(self, key: str, limit_s: float) -> None:
        super().__init__(f"the turn of lane {key!r} took longer than its time limit of {limit_s:g} s")
        self.key = key
        self.limit_s = limit_s


class HandlerFailed(LaneError):
    """The message failed for good and is a dead letter. `errors` has all that were kept, the newest last."""

    def __init__(self, key: str, message_id: str, attempts: int, errors: list[dict[str, object]]) -> None:
        last = errors[-1] if errors else {"type": "Error", "message": "no error was kept"}
        super().__init__(
            f"message {message_id!r} of lane {key!r} failed after {attempts} attempt(s): "
            f"{last.get('type')}: {last.get('message')}"
        )
        self.key = key
        self.message_id = message_id
        self.attempts = attempts
        self.errors = errors


class Superseded(LaneError):
    """A newer message of its handler replaced this one (`latest`, `rollback`). It will never run."""

    def __init__(self, key: str, message_id: str) -> None:
        super().__init__(f"message {message_id!r} of lane {key!r} was superseded by a newer one, and will not run")
        self.key = key
        self.message_id = message_id


class MessageCancelled(LaneError):
    """The message was cancelled before it began."""

    def __init__(self, key: str, message_id: str) -> None:
        super().__init__(f"message {message_id!r} of lane {key!r} was cancelled, and will not run")
        self.key = key
        self.message_id = message_id


class ResultExpired(LaneError):
    """The message's duplicate window is over (or it was removed), and its result is gone with it."""

    def __init__(self, key: str, message_id: str) -> None:
        super().__init__(
            f"the result of message {message_id!r} of lane {key!r} is no longer kept; raise dedup_window to keep it"
        )
        self.key = key
        self.message_id = message_id


class CommitUnknown(LaneError):
    """The store went away during the commit: either all of it happened or nothing. Repeat the message to find out."""

    def __init__(self, key: str, fence: int) -> None:
        super().__init__(f"it is not known whether the turn of lane {key!r} (fence {fence}) was committed")
        self.key = key
        self.fence = fence


class HandlerSignal(LaneError):
    """The root of what a handler raises to say how it failed."""


class Retry(HandlerSignal):
    """Try this message again after `after`: seconds or a `timedelta`, up to 365 days (`None`: after the usual backoff).

    The attempt counts.
    """

    def __init__(
        self, why: str = "asked for another attempt", *, after: float | datetime.timedelta | None = None
    ) -> None:
        if isinstance(after, datetime.timedelta):
            after = after.total_seconds()
        if after is not None and (isinstance(after, bool) or not isinstance(after, int | float)):
            raise ArgumentTypeError("after", "must be a number of seconds, or a timedelta", after)
        if after is not None and not 0.0 <= after <= MAX_RETRY_DELAY_S:
            raise ArgumentError("after", f"must be between 0 and {MAX_RETRY_DELAY_S:.0f} seconds (365 days)", after)
        super().__init__(why)
        self.after = after


class Apart(HandlerSignal):
    """Try each message of this burst again by itself, at once: one of them may be at fault. The attempt counts."""

    def __init__(self, why: str = "each of its messages is tried by itself") -> None:
        super().__init__(why)


class Stop(HandlerSignal):
    """Do not try this message again: it becomes a dead letter."""

    def __init__(self, why: str = "the handler gave up on it") -> None:
        super().__init__(why)
