"""Lanes for synchronous code: receipts, inline turns, a look inside."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar

from inturn import arguments
from inturn.errors import DuplicateMessage, LeaseLost
from inturn.lanes.admin import DeadLetter, LaneInfo, LaneSummary
from inturn.lanes.admin import DeadLetters as AsyncDeadLetters
from inturn.lanes.admin import Lanes as AsyncLanes
from inturn.lanes.inline import InlineTurn as AsyncInlineTurn
from inturn.lanes.receipt import Receipt as AsyncReceipt
from inturn.lanes.retry import describe
from inturn.lanes.runtime import enter_turn, leave_turn
from inturn.lanes.turn import Turn
from inturn.process.registry import post
from inturn.process.runner import Runner

log = logging.getLogger("inturn.lanes")

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Receipt(AsyncReceipt):
    """What the submitter holds; `result` blocks."""

    _runner: Runner | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, receipt: AsyncReceipt, runner: Runner) -> Receipt:
        return cls(
            receipt.status,
            key=receipt.key,
            handler=receipt.handler,
            id=receipt.id,
            ahead=receipt.ahead,
            _runtime=receipt._runtime,
            _result=receipt._result,
            _runner=runner,
        )

    def result(self, timeout: arguments.Seconds | None = None) -> Any:
        """Returns what the handler returned. Waits for it: `TimeoutError` after `timeout` seconds.

        `HandlerFailed` for a dead letter, `ResultExpired` when the duplicate window is over.
        """
        assert self._runner is not None, "only the app makes receipts"
        return self._runner.run(AsyncReceipt.result(self, timeout))

    def cancel(self) -> bool:  # type: ignore[override] # as `result`: the same name, and it blocks
        """Take the message back before it begins. `False`: it is running, has run, or is gone."""
        assert self._runner is not None, "only the app makes receipts"
        return self._runner.run(AsyncReceipt.cancel(self))


class BodyFailed(Exception):
    """Stands for the body's error on the background loop: a `KeyboardInterrupt` itself would end that loop."""


class InlineTurn:
    """`with app.turn(key) as turn:`. One task on the background loop holds the turn for as long as the block lasts.

    If the lease is lost, that task ends, `turn.lost` is true, and the end of the block raises.
    """

    def __init__(self, runner: Runner, turn: AsyncInlineTurn[Any]) -> None:
        self._runner = runner
        self._inner = turn
        self._begun: Future[Turn[Any]] = Future()
        self._over = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._failure: BodyFailed | None = None
        self._holding: Future[None] | None = None
        self._turn: Turn[Any] | None = None

    def __enter__(self) -> Turn[Any]:
        if self._holding is not None:
            raise RuntimeError("a turn can be entered only once; call app.turn() again for another")
        self._holding = holding = self._runner.start(self._hold())
        try:
            holding.add_done_callback(self._refused)
            self._turn = turn = self._begun.result()
            # what this thread does from here on is part of that turn: it must not wait for its own lane
            enter_turn(turn, is_thread=True)
        except DuplicateMessage as error:
            error.receipt = Receipt.of(error.receipt, self._runner)
            raise
        except BaseException:
            holding.cancel()  # Ctrl-C while waiting: leave the mailbox, or give back what was granted meanwhile
            if self._turn is not None:
                leave_turn(self._turn)
            raise
        return turn

    async def _hold(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._inner as turn:
            self._begun.set_result(turn)
            try:
                await self._over.wait()
            except asyncio.CancelledError:
                if turn.lost:  # the block runs on, and no other turn should begin before it ends
                    await self._over.wait()
                raise
            if self._failure is not None:
                raise self._failure

    def _refused(self, holding: Future[None]) -> None:
        """It ended before it began."""
        if self._begun.done():
            return
        if holding.cancelled():
            self._begun.cancel()
        else:
            self._begun.set_exception(holding.exception())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        turn, holding = self._turn, self._holding
        assert turn is not None, "entered before it is left"
        assert holding is not None
        assert self._loop is not None
        leave_turn(turn)
        if not self._runner.is_running:
            # a fork inside the block: the turn, and the thread that holds it, are the parent's
            if error is None:
                raise LeaseLost(turn.key, turn.fence, turn._lease.why_lost or "its event loop is gone")
            return
        if error is not None:
            self._failure = BodyFailed(describe(error))
        post(self._loop, self._over.set)
        try:
            holding.result()
        except BodyFailed:
            pass  # rolled back; the body's own error goes on
        except Exception as failure:
            if error is None:
                raise
            log.warning("leave key=%s after the body raised: %s", turn.key, failure)


class Lanes:
    """Look into the lanes of the store, and stop, resume or clear them."""

    def __init__(self, runner: Runner, lanes: AsyncLanes) -> None:
        self._run = runner.run
        self._lanes = lanes

    def list(self, limit: int = 1000) -> list[LaneSummary]:
        return self._run(self._lanes.list(limit))

    def inspect(self, key: str, limit: int = 100) -> LaneInfo:
        return self._run(self._lanes.inspect(key, limit))

    def state(self, key: str, kind: type[M]) -> M | None:
        return self._run(self._lanes.state(key, kind))

    def pause(self, key: str, why: str = "paused by hand") -> None:
        self._run(self._lanes.pause(key, why))

    def resume(self, key: str) -> bool:
        return self._run(self._lanes.resume(key))

    def clear(self, key: str) -> int:
        return self._run(self._lanes.clear(key))


class DeadLetters:
    """Messages that failed for good."""

    def __init__(self, runner: Runner, letters: AsyncDeadLetters) -> None:
        self._run = runner.run
        self._letters = letters

    def list(self, limit: int = 1000) -> list[DeadLetter]:
        return self._run(self._letters.list(limit))

    def show(self, key: str, handler: str, message_id: str) -> DeadLetter | None:
        return self._run(self._letters.show(key, handler, message_id))

    def replay(self, key: str, handler: str, message_id: str) -> bool:
        return self._run(self._letters.replay(key, handler, message_id))

    def drop(self, key: str, handler: str, message_id: str) -> bool:
        return self._run(self._letters.drop(key, handler, message_id))
