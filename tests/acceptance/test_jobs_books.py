"""The books of jobs notice what must not be: they are right after a job, and wrong as soon as one thing is forged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.acceptance.jobs_books import Ask, Books, Desk, Reply
from tests.acceptance.processes import Processes
from tests.jobs.receiver import Call
from tests.jobs.world import world


def tell_again(books: Books, of: int, webhook_id: str | None = None) -> None:
    (told,) = books.world.receiver.of(books.accepted[of])
    headers = [(name, value) for name, value in told.headers if webhook_id is None or name != b"webhook-id"]
    headers += [] if webhook_id is None else [(b"webhook-id", webhook_id.encode())]
    books.world.receiver.calls.append(Call(told.path, headers, told.body, told.status))


def forget_calls(books: Books) -> None:
    books.world.receiver.calls.clear()


def forget_asks(books: Books) -> None:
    books.desk.asks.clear()


def tell_a_failure(books: Books) -> None:
    (told,) = books.world.receiver.of(books.accepted[1])
    told.body = told.body.replace(b'"success"', b'"failure"')


FORGERIES: dict[str, Callable[[Books], object]] = {
    "was called back under": forget_calls,
    "1 was called back 2 times": lambda books: tell_again(books, 1),
    "1 was called back under {'": lambda books: tell_again(books, 1, "another-id"),
    "was paid by ['w1', 'w2']": lambda books: books.desk.asks.update({1: [Ask("w1", True), Ask("w2", True)]}),
    "1 was paid by []": forget_asks,
    "1 was refused, and ran": lambda books: books.refused.append(1),
    "was called back, and never accepted": lambda books: books.accepted.pop(1),
    "1 has 0 dead letters, and was told ['failure']": tell_a_failure,
}


@pytest.mark.parametrize("why", FORGERIES)
async def test_forged_books_are_noticed(sqlite_url: str, namespace: str, processes: Processes, why: str) -> None:
    async with world(sqlite_url, namespace) as made:
        made.provider.script = desk = Desk(lambda number, nth: Reply(400 if number == 2 else 200))
        books = Books(made, desk, processes)
        await books.post(2)
        await books.close_books()
        FORGERIES[why](books)
        with pytest.raises(AssertionError) as wrong:
            await books.check()
        assert why in str(wrong.value)
