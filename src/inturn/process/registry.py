"""What this process waits for and holds, by token.

Any thread may read the tables, but only the loop that owns an entry changes it: everything that concerns a token is
posted to that loop.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Protocol, TypeVar, TypeVarTuple, cast

from inturn.errors import StoreUnavailable
from inturn.process.waiter import Waiter, Waiting
from inturn.store import clock
from inturn.store.lane import Begun, Opening
from inturn.store.limits import LOOK_AT_SHARED_MS
from inturn.store.protocol import Acquired, Notice, Released, Request, Store

log = logging.getLogger("inturn.process")

Args = TypeVarTuple("Args")
Asked = TypeVar("Asked", Request, Opening)
Answer = TypeVar("Answer", Acquired, Begun)

MAX_STRAYS = 1000

Undo = Callable[[], Awaitable[object]]
"""Tells the store that a token holds nothing and waits for nothing. It may be called again."""


class Held(Protocol):
    """A lease of a lock or of a lane, as the heartbeat needs to know it."""

    name: str
    token: str
    fence: int
    partition: int
    loop: asyncio.AbstractEventLoop
    ttl_s: float
    confirmed_at: float
    fixed_until: float

    def lose(self, why: str) -> None:
        """The lease is over, and its body must stop. Called on its loop."""
        ...

    def disown(self, why: str) -> None:
        """Only note that the lease is not ours. May be called from anywhere."""
        ...

    async def is_known(self) -> bool:
        """Returns whether the store still knows it."""
        ...

    async def undo(self) -> object:
        """Give it back to the store with nothing done."""
        ...


class Registry:
    """The waiters and leases of this process."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.is_closed = False
        self._why_closed: Exception | None = None
        """Set when closing begins."""
        self.waiting: dict[str, Waiter] = {}
        self.awaiting: dict[str, Waiting] = {}
        """Who awaits the result of a message."""
        self.holding: dict[str, Held] = {}
        self.leftovers: dict[int, tuple[float, Undo]] = {}
        """(not before, undo), numbered: what the heartbeat has to undo once more."""
        self.dropped: deque[tuple[Held, str]] = deque()
        """What nobody can release any more, and why: the heartbeat gives it back."""
        self.on_change: Callable[[], None] = lambda: None
        self.on_due: Callable[[float], None] = lambda at: None
        """Called with when the store has to be asked again, because nobody tells us."""
        self.listeners: dict[str, Callable[[Notice], None]] = {}
        """Who gets the notices that concern no token, by kind. They are called in any thread."""
        self.busy: set[object] = set()
        """What needs the heartbeat besides tokens: awaited results, workers."""
        self._loops: dict[str, asyncio.AbstractEventLoop] = {}
        self._early: dict[str, Notice] = {}
        """Notices that came before the answer to their acquire."""
        self._strays: dict[str, Notice] = {}
        """Losses of tokens that nobody knows: the claim that gave one may not have been answered yet."""
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    def new_token(self) -> str:
        return f"{self.store.process}#{next(self._numbers)}"

    def is_empty(self) -> bool:
        return not (self._loops or self.leftovers or self.dropped or self.busy)

    def claim(self, request: Request, wait_s: float | None) -> Awaitable[Acquired]:
        """Ask for a lock, and wait for it if the request says so. The answer `waiting` means: not within `wait_s`.

        After `granted` the caller calls `hold` before it awaits anything. Any other answer leaves nothing behind.
        """
        return self._claim(request, wait_s, self.store.acquire, None)

    def claim_turn(self, opening: Opening, wait_s: float | None) -> Awaitable[Begun]:
        """As `claim`, for an inline turn."""
        return self._claim(opening, wait_s, self.store.begin, self._way_out(opening))

    async def _claim(
        self, request: Asked, wait_s: float | None, ask: Callable[[Asked], Awaitable[Answer]], undo: Undo | None
    ) -> Answer:
        token = request.token
        self._loops[token] = asyncio.get_running_loop()
        try:
            self.on_change()
            answer = await ask(request)
            if self._why_closed is not None:  # those who waited were told before this answer came
                raise self._why_closed
            if answer.status == "waiting":
                answer = await self._wait(request, answer, wait_s, ask, undo)
        except BaseException:
            # cancelled, or the store is away: we do not know whether it was granted
            self.abandon(request.name, token, undo)
            raise
        if answer.status != "granted":
            self.forget(token)
            if answer.doubt_until:
                self.once_more(request.name, token, answer.doubt_until, undo)
        return answer

    async def _wait(
        self,
        request: Asked,
        first: Answer,
        wait_s: float | None,
        ask: Callable[[Asked], Awaitable[Answer]],
        undo: Undo | None,
    ) -> Answer:
        doubt_until = first.doubt_until
        waiter = self.waiting[request.token] = Waiter(request, ask, self.store.timeout_s)
        if getattr(request, "shares", ""):  # a plain key, whose holder tells nobody
            self.on_due(clock.now() + LOOK_AT_SHARED_MS / 1000)
        try:
            answer: Answer = await waiter.granted(wait_s, self._early.pop(request.token, None)) or first
        finally:
            doubt_until = max(doubt_until, waiter.close())
            del self.waiting[request.token]
        if answer.status == "waiting":
            await self.give_back(request.name, request.token, 0, 0.0, undo)
        return answer._replace(doubt_until=max(doubt_until, answer.doubt_until)) if doubt_until else answer

    def is_abandoned(self, token: str) -> bool:
        """Whether it is a token of this process that nobody here holds, waits with, or is giving back."""
        return token.startswith(f"{self.store.process}#") and token not in self._loops

    def is_on_its_way(self, token: str) -> bool:
        """Whether it is a token of this process whose grant or release is under way."""
        return token in self._loops and token not in self.holding and token not in self.waiting

    def hold(self, held: Held) -> None:
        self.holding[held.token] = held
        early = self._early.pop(held.token, None) if self._early else None
        if early is not None and early.kind == "lost" and early.fence >= held.fence:
            held.lose(early.why)

    def let_go(self, token: str) -> None:
        """The holder is done with it, and the release follows. The token is not forgotten until that is answered: a
        late notice of its grant must not look like a grant that nobody wants.
        """
        self.holding.pop(token, None)

    def forget(self, token: str) -> None:
        """Nothing here refers to the token any more: it is given back, left to the heartbeat, or ended by the store."""
        self._loops.pop(token, None)
        if self._early:
            self._early.pop(token, None)

    async def give_back(
        self, name: str, token: str, fence: int, doubt_until: float, undo: Undo | None = None
    ) -> Released:
        """Release, or leave the queue. It happens even if the caller is cancelled meanwhile."""
        try:
            released = await (undo() if undo else self.store.release(name, token, fence))
        except BaseException:
            self.abandon(name, token, undo)
            raise
        self.forget(token)
        if doubt_until > clock.now():
            self.once_more(name, token, doubt_until, undo)
        return cast(Released, released)

    def ended(self, held: Held, doubt_until: float) -> None:
        """A lease was ended by a commit or a failure rather than by a release."""
        self.forget(held.token)
        if doubt_until > clock.now():
            self.once_more(held.name, held.token, doubt_until, held.undo)

    def adopt(self, held: Held) -> None:
        """Keep a worker's lease, which was given without being asked for by its token."""
        self._loops[held.token] = held.loop
        self.holding[held.token] = held
        self.on_change()
        if self._strays and (stray := self._strays.pop(held.token, None)) is not None and stray.fence >= held.fence:
            held.lose(stray.why)

    def abandon(self, name: str, token: str, undo: Undo | None = None) -> None:
        """Make sure that the token holds nothing and waits for nothing, whatever happens to the caller.

        The release goes out at once, behind the acquire on the same connection. If the bytes of an acquire are still
        under way on a lost connection, it can take effect until its deadline: so the heartbeat releases once more then.
        """
        self.forget(token)
        if self.is_closed:
            return
        doubt_until = clock.now() + self.store.timeout_s
        undo = undo or partial(self.store.release, name, token)

        # First, because nothing below may come to run: whoever is cancelled twice in one tick, or a loop that ends,
        # cancels the task before it has begun. The heartbeat's thread outlives them all.
        self.once_more(name, token, doubt_until, undo)

        async def release() -> None:
            try:
                await undo()
            except BaseException as error:
                self.once_more(name, token, 0.0, undo)
                if not isinstance(error, StoreUnavailable):
                    raise
                # the store has logged it, now and then
                log.debug("abandon name=%s token=%s: left to the heartbeat: %s", name, token, error)

        releasing = release()
        try:
            task = asyncio.get_running_loop().create_task(releasing)
        except RuntimeError:
            releasing.close()
            self.once_more(name, token, 0.0, undo)
            return
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def drop(self, held: Held, why: str) -> None:
        """Nobody can release it any more. A finalizer calls this in any thread, in the middle of anything, even of
        logging: so it waits for nothing, and the heartbeat does the rest. That beats, because it has had this token.
        """
        self.dropped.append((held, why))  # first: it must not come to rest
        held.disown(why)
        self.let_go(held.token)
        self.forget(held.token)

    def give_back_dropped(self) -> None:
        """The heartbeat would keep for as long as the process lives what nobody is left for: on a closed loop, say."""
        for held in [held for held in list(self.holding.values()) if held.loop.is_closed()]:
            if held.ttl_s:
                self.drop(held, "its event loop was closed")
            else:  # nobody renews it: it lives to its end, as it was asked to
                self.let_go(held.token)
                self.forget(held.token)
        while self.dropped:
            held, why = self.dropped.popleft()
            log.warning("dropped name=%s fence=%d: %s, so it is given back", held.name, held.fence, why)
            self.once_more(held.name, held.token, 0.0, held.undo)
        for waiter in [waiter for waiter in list(self.waiting.values()) if waiter.loop.is_closed()]:
            self.waiting.pop(waiter.request.token, None)
            self.once_more(waiter.request.name, waiter.request.token, 0.0, self._way_out(waiter.request))

    @property
    def is_closing(self) -> bool:
        return self._why_closed is not None

    def begin_closing(self, error: Exception) -> None:
        """End all waiting and all leases, and begin nothing new."""
        self._why_closed = error
        for waiter in (*list(self.waiting.values()), *list(self.awaiting.values())):
            post(waiter.loop, waiter.give_up, error)
        for lease in list(self.holding.values()):
            post(lease.loop, lease.lose, str(error))

    async def close(self, held: Iterable[Held], gives_up_at: float) -> bool:
        """Give these back. Returns whether the store has confirmed it in time."""
        giving_back = [asyncio.ensure_future(lease.undo()) for lease in held]
        if giving_back:
            await asyncio.wait(giving_back, timeout=gives_up_at - clock.now())
        for giving in giving_back:
            giving.cancel()
        answers = await asyncio.gather(*giving_back, return_exceptions=True)
        await asyncio.sleep(0)  # those who were told leave their queues
        await self.quiet(gives_up_at - clock.now())
        self.is_closed = True
        return not any(isinstance(answer, BaseException) for answer in answers)

    async def quiet(self, within_s: float | None = None) -> None:
        """Wait until everything abandoned on this loop is given back, or left to the heartbeat."""
        here = asyncio.get_running_loop()
        tasks = [task for task in list(self._tasks) if task.get_loop() is here]
        if tasks:
            # not `gather`: if we are cancelled, they go on
            await asyncio.wait(tasks, timeout=None if within_s is None else max(within_s, 0.0))

    def once_more(self, name: str, token: str, not_before: float, undo: Undo | None = None) -> None:
        """Have the heartbeat release it then, or as soon after as it can."""
        self.forget(token)
        if not self.is_closed:
            self.leftovers[next(self._numbers)] = (not_before, undo or partial(self.store.release, name, token))
            self.on_change()

    def _way_out(self, request: Request | Opening) -> Undo | None:
        if isinstance(request, Opening):
            return partial(self.store.leave, request.name, request.token, request.ident)
        return None

    def notice(self, notice: Notice) -> None:
        """Pass a notice on to the loop that it concerns. May be called in any thread."""
        listener = self.listeners.get(notice.kind)
        loop = self._loops.get(notice.token)
        if listener is not None:
            listener(notice)
        elif loop is not None:
            post(loop, self._take_note, notice)
        else:
            self._decline(notice)

    def _decline(self, notice: Notice) -> None:
        """Nobody waits for it any more: give it back, or this process would hold it for as long as it lives."""
        if notice.kind == "granted":
            self.abandon(notice.name, notice.token)
        elif notice.kind == "turn":
            self.abandon(notice.name, notice.token, partial(self.store.leave, notice.name, notice.token, ""))
        elif notice.kind == "lost":
            while len(self._strays) >= MAX_STRAYS:
                self._strays.pop(next(iter(self._strays), ""), None)
            self._strays[notice.token] = notice

    def _take_note(self, notice: Notice) -> None:
        waiter, held = self.waiting.get(notice.token), self.holding.get(notice.token)
        if held is not None:
            if notice.kind == "lost" and notice.fence >= held.fence:
                held.lose(notice.why)
        elif notice.token in self._loops:
            if waiter is None or notice.kind == "lost":
                self._early[notice.token] = notice  # for `hold`: the grant may already be on its way to its caller
            if waiter is not None:
                waiter.notice(notice)
        else:
            self._decline(notice)

    def look_again(self) -> None:
        """Pushes or grants may have been missed, or places dropped: every waiter asks again."""
        for waiter in list(self.waiting.values()):
            post(waiter.loop, waiter.look_again)


def post(loop: asyncio.AbstractEventLoop, call: Callable[[*Args], None], *args: *Args) -> None:
    """Call it on that loop, at once if we are on it. A closed loop has nobody left to tell."""
    if _running() is loop:
        call(*args)
        return
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
