"""Text from outside, shown as one line: whatever could begin a new line or command a terminal is escaped.

Ids and keys are anybody's text. The one place for it: `printable` is for what a command prints, and every logger of
inturn escapes its arguments and tracebacks with it, whatever handlers and formatters the user has.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

LOGGERS = (
    "inturn", "inturn.agents", "inturn.bot", "inturn.celery", "inturn.cli.main", "inturn.database", "inturn.heartbeat",
    "inturn.http", "inturn.jobs", "inturn.lanes", "inturn.locks", "inturn.process", "inturn.store", "inturn.tasks",
    "inturn.visitors", "inturn.web", "inturn.worker", "inturn.workflows",
)  # fmt: skip
"""Every logger that inturn has: a filter works only where a record begins."""


_as_usual = logging.Formatter()


def printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


class Lines(str):
    """Text that is meant to have several lines, such as a traceback: each of them is escaped by itself."""

    __slots__ = ()


class EscapedRecords(logging.Filter):
    """Lets every record pass, with its arguments and its traceback escaped. The message itself is ours."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, Mapping):
            record.args = {name: _escaped(value) for name, value in record.args.items()}
        elif record.args:
            record.args = tuple(map(_escaped, record.args))
        if record.exc_info and not record.exc_text:
            # an error's text may quote a key; formatters take this in place of what they would write themselves
            record.exc_text = "  " + _escaped(Lines(_as_usual.formatException(record.exc_info)))
        return True


def _escaped(value: Any) -> Any:
    if value is None or isinstance(value, int | float):  # those that a format may want as a number
        return value
    if isinstance(value, Lines):
        return "\n  ".join(map(printable, value.split("\n")))  # indented: none of them looks like a line of the log
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 - logging itself tells of an argument that cannot be written
        return value
    return value if text.isprintable() else printable(text)


def escape_records() -> None:
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(each, EscapedRecords) for each in logger.filters):
            logger.addFilter(EscapedRecords())
