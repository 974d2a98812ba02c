"""The check of the books finds what is wrong in them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from inturn.database import Database
from tests.acceptance.tasks_books import check_books

GOOD = """
INSERT INTO budget_windows VALUES ('home', 'ada', 0, 86400, 1000, 1100, 0);
INSERT INTO budget_holds VALUES ('h1', 'r1', 'home', 'ada', 0, 500, 'settled', 700, 1);
INSERT INTO budget_holds VALUES ('h2', 'r2', 'home', 'ada', 0, 500, 'settled', 400, 1);
INSERT INTO budget_holds VALUES ('h3', 'r3', 'home', 'ada', 0, 500, 'settled', 0, 1);
INSERT INTO budget_holds VALUES ('h4', 'r4', 'home', 'ada', 0, 500, 'released', 0, 1);
INSERT INTO task_requests VALUES ('r1', 'home', 'ada', 'x', 'UTC', 'done', 'h1', 'j1', 't1', NULL, 1, 1);
INSERT INTO task_requests VALUES ('r2', 'home', 'ada', 'x', 'UTC', 'done', 'h2', 'j2', 't2', NULL, 1, 1);
INSERT INTO task_requests VALUES ('r3', 'home', 'ada', 'x', 'UTC', 'failed', 'h3', 'j3', NULL, '{"message": ""}', 1, 1);
INSERT INTO task_requests VALUES ('r4', 'home', 'ada', 'x', 'UTC', 'refused', 'h4', NULL, NULL, NULL, 1, 1);
INSERT INTO tasks VALUES ('t1', 'home', 'ada', 'r1', 'x', 'x', NULL, 'c', 'l', 1, 'r', NULL, 1, 1);
INSERT INTO tasks VALUES ('t2', 'home', 'ada', 'r2', 'x', 'x', NULL, 'c', 'l', 1, 'r', NULL, 1, 1);
INSERT INTO received_webhooks VALUES ('j1-1', 'r1', '{}', 1);
"""
ACCEPTED = {"r1": 700, "r2": 400, "r3": None}
WRONG = {
    "a request without its task": "DELETE FROM tasks WHERE id = 't1'",
    "a task of a failure": "UPDATE task_requests SET state = 'failed', error = 'x' WHERE id = 'r1'",
    "a failure that is not told": "UPDATE task_requests SET error = NULL WHERE id = 'r3'",
    "a request that has not ended": "UPDATE task_requests SET state = 'queued' WHERE id = 'r3'",
    "a request that was lost": "UPDATE task_requests SET state = 'asking' WHERE id = 'r4'",
    "an accepted one that was refused": "UPDATE task_requests SET state = 'refused' WHERE id = 'r3'",
    "tokens that stay held": "UPDATE budget_windows SET held = 500",
    "a hold that stays active": "UPDATE budget_holds SET state = 'active' WHERE id = 'h4'",
    "a success that is charged twice": "UPDATE budget_windows SET spent = 1800",
    "one that costs nothing": "UPDATE budget_windows SET spent = 400; UPDATE budget_holds SET used = 0 WHERE id = 'h1'",
    "a failure that costs": "UPDATE budget_windows SET spent = 1110; UPDATE budget_holds SET used = 10 WHERE id = 'h3'",
    "too much spent": "UPDATE budget_windows SET tokens = 899",
    "a call-back without an answer": "UPDATE received_webhooks SET response = ''",
}


@pytest.fixture
async def books(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'tasks.db'}"
    database = Database(url, timeout_s=60.0)  # one that gets the processor late is not away
    await database.open()
    await database.close()
    write(url, GOOD)
    return url


def write(url: str, statements: str) -> None:
    with closing(sqlite3.connect(url.partition(":///")[2])) as file:
        file.executescript(statements)


async def test_books_that_are_in_order_pass(books: str) -> None:
    await check_books(books, ACCEPTED)


@pytest.mark.parametrize("wrong", WRONG)
async def test_what_is_wrong_is_found(books: str, wrong: str) -> None:
    write(books, WRONG[wrong])
    with pytest.raises(AssertionError):
        await check_books(books, ACCEPTED)


async def test_a_request_that_is_missing_is_found(books: str) -> None:
    with pytest.raises(KeyError):
        await check_books(books, ACCEPTED | {"r5": 1})
