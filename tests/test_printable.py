"""Ids and keys are anybody's text, and forge neither a line of the log nor an order to the terminal."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import inturn
from inturn import printable
from inturn.errors import LockTimeout
from inturn.testing import app_for_tests

NASTY = "user:7\n2026-11-17 12:00:00 INFO inturn.locks acquire name=forged\r\x1b[2J\x9b31m\u202e\u2028"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """As an application writes it: a handler and a formatter of its own, that know nothing of inturn."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    root, ours = logging.getLogger(), logging.getLogger("inturn")
    level = ours.level
    root.addHandler(handler)
    ours.setLevel(logging.DEBUG)
    yield written
    ours.setLevel(level)
    root.removeHandler(handler)


def must_be_harmless(text: str) -> None:
    assert all(line.isprintable() for line in text.splitlines(keepends=False))
    assert "\x1b" not in text
    assert not any(line.startswith("2026-11-17") for line in text.splitlines())


def test_what_is_printable_stays_and_the_rest_is_escaped() -> None:
    assert printable.printable("repo:acme/зал 7") == "repo:acme/зал 7"
    assert printable.printable("a\nb\x1b[0m\x9b\u202e\ud83d") == "a\\nb\\x1b[0m\\x9b\\u202e\\ud83d"


async def test_a_name_cannot_forge_a_line_of_the_log(log: io.StringIO) -> None:
    async with app_for_tests() as app:
        async with app.lock(NASTY):
            with pytest.raises(LockTimeout):
                await app.lock(NASTY, wait=0, owner="other").take()
        async with app.turn(NASTY) as turn:
            turn.state = {"a": 1}
    written = log.getvalue()
    assert "acquire name=user:7\\n2026-11-17" in written
    assert "contention name=user:7\\n" in written
    must_be_harmless(written)


def test_texts_mappings_and_errors_are_escaped_and_numbers_stay_numbers(log: io.StringIO) -> None:
    ours = logging.getLogger("inturn.locks")
    ours.warning("a=%s b=%d c=%.1f d=%s e=%r", NASTY, 7, 0.5, ValueError(NASTY), NASTY)
    ours.warning("%(name)s", {"name": NASTY})
    written = log.getvalue()
    assert " b=7 c=0.5 " in written
    assert written.count("\n") == 2
    must_be_harmless(written)


def test_a_traceback_stays_readable_and_forges_no_line(log: io.StringIO) -> None:
    try:
        raise ValueError(NASTY)
    except ValueError:
        logging.getLogger("inturn.web").exception("failed")
    first, *traceback = log.getvalue().splitlines()
    assert first == "ERROR inturn.web failed"
    assert traceback[0] == "  Traceback (most recent call last):"
    assert traceback[-2] == "  ValueError: user:7"
    assert all(line.startswith("  ") for line in traceback)
    must_be_harmless(log.getvalue())


def test_an_argument_that_cannot_be_written_is_left_to_logging() -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("no words")

    odd = Odd()
    record = logging.makeLogRecord({"msg": "a=%s b=%s", "args": (odd, "x\ny")})
    assert printable.EscapedRecords().filter(record)
    assert record.args == (odd, "x\\ny")


def test_every_logger_of_ours_escapes() -> None:
    used = set()
    for path in Path(inturn.__file__).parent.rglob("*.py"):
        used |= set(re.findall(r"getLogger\(\"(inturn[^\"]*)\"\)", path.read_text("utf-8")))
        assert "getLogger(__name__)" not in path.read_text("utf-8"), path
    assert used == set(printable.LOGGERS)
    for name in used:
        kinds = [type(each) for each in logging.getLogger(name).filters]
        assert kinds.count(printable.EscapedRecords) == 1, name
