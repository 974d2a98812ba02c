"""How well due dates are read out of task sentences: ours beside `dateparser`, tuned and held-back sentences apart.

right: the expected day, or rightly none. wrong: a day that is not the expected one. missed: none, where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any
from zoneinfo import ZoneInfo

from dateparser.search import search_dates  # type: ignore[import-untyped]

from inturn.capabilities.parse_task.due_date import RECURRING, due_date_in
from tests.capabilities.date_sentences import HELD_BACK, TUNED, Sentence

Reader = Callable[[Sentence], date | None]


def measure_dates() -> dict[str, Any]:
    readers = {"inturn": ours, "dateparser": by_dateparser, "dateparser_once_only": by_dateparser_once_only}
    return {
        part: {"sentences": len(sentences), **{name: score(read, sentences) for name, read in readers.items()}}
        for part, sentences in (("tuned", TUNED), ("held_back", HELD_BACK))
    }


def score(read: Reader, sentences: Sequence[Sentence]) -> dict[str, int]:
    counts = {"right": 0, "wrong": 0, "missed": 0}
    for sentence in sentences:
        found = read(sentence)
        counts["right" if found == sentence.due else "missed" if found is None else "wrong"] += 1
    return counts


def ours(sentence: Sentence) -> date | None:
    return due_date_in(sentence.text, sentence.today).day


def by_dateparser(sentence: Sentence) -> date | None:
    """The first day that it finds, as one would call it for tasks."""
    base = sentence.now.astimezone(ZoneInfo(sentence.time_zone)).replace(tzinfo=None)
    settings = {"PREFER_DATES_FROM": "future", "RELATIVE_BASE": base}
    found = search_dates(sentence.text, languages=["en"], settings=settings)
    return found[0][1].date() if found else None


def by_dateparser_once_only(sentence: Sentence) -> date | None:
    """The same behind our own rule for what recurs, which a library for dates cannot know of."""
    return None if RECURRING.search(sentence.text) else by_dateparser(sentence)
