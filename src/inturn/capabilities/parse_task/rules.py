"""parse-task without a language model: the same words on the same day give the same task, and nothing is invented."""

from __future__ import annotations

import re
from datetime import date

from inturn.capabilities.parse_task.due_date import Due, due_date_in
from inturn.capabilities.parse_task.models import (
    MAX_SUBTASKS,
    MAX_TEXT,
    MIN_SUBTASKS,
    ParsedTask,
    ParseTaskAnswer,
    ParseTaskConfig,
    ParseTaskInput,
    Priority,
    Vague,
)
from inturn.capabilities.parse_task.vocabulary import (
    CRITICAL,
    FALLBACK_CATEGORIES,
    GENERIC,
    HIGH,
    LOW,
    NOTHING_SAID,
    OBJECTS,
    WORDS_OF,
)

_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?")
_ASKED = re.compile(
    r"(?:(?:hey|hi|hello|ok|okay|so|and|also|please|pls|kindly|todo|to-do|task|reminder|note|urgent|asap|important|"
    r"not urgent|no rush|(?:low|high|top) priority)[\s,:!-]+"
    r"|(?:could|can|would|will)\syou\s(?:please\s)?"
    r"|(?:please\s)?remind\s(?:me|us)\s(?:again\s)?(?:to|that|about|of)\s"
    r"|(?:don't|don\u2019t|do\snot|never)\sforget\s(?:to|about)\s|remember\sto\s|make\ssure\s(?:to|that|i)\s|"
    r"be\ssure\sto\s"
    r"|(?:i|we)\s(?:really\s)?(?:need|have|want|ought|would\slike)\sto\s|(?:i|we)\s(?:must|should|gotta|will)\s"
    r"|(?:i'd|i\u2019d|we'd)\slike\sto\s|(?:i've|we've)\sgot\sto\s|add\s(?:a\s)?(?:task|reminder)\s(?:to|for|"
    r":)\s)",
    re.IGNORECASE,
)
_THANKED = re.compile(
    r"[\s,.!-]+(?:please|pls|thanks|thank\syou|thx|asap|as\ssoon\sas\spossible|urgently)[\s.!]*$", re.IGNORECASE
)
_TIME = (
    r"(?:\s?,?\s?(?:at\s|around\s)?(?:[01]?\d|2[0-3])(?::[0-5]\d)?\s?(?:am|pm|o'clock|sharp)\b"
    r"|,?\s(?:at\s)?(?:[01]?\d|2[0-3]):[0-5]\d\b|\sat\s(?:noon|midnight|lunchtime|\d{1,2}\b)"
    r"|\s(?:morning|afternoon|evening|night|noon)\b)"
)
_TIME_AFTER = re.compile(f"{_TIME}{{0,2}}", re.IGNORECASE)
_LEADING_IN = re.compile(
    r"\b(?:(?:is|are)\s)?(?:due|deadline|no later than|at the latest|on|by|before|until|till|for|at|over|from|in|this)"
    r"(?:\s(?:on|by|the|at|is))?[\s:(]*$",
    re.IGNORECASE,
)
_STEPS = re.compile(r"(?P<title>[^:]{3,120}[^\d\s:])\s?:\s+(?P<steps>\S.*)", re.DOTALL)
_BETWEEN_STEPS = re.compile(r"\s*(?:[,;\n]|(?:^|\s)(?:[-*•]|\d{1,2}[.)])\s)\s*(?:and\s|then\s)?")
_LAST_STEP = re.compile(r"\s(?:and(?:\sthen)?|then)\s")
_NOT_URGENT = re.compile(
    r"\b(?:not|isn't|no)\s(?:so\s|very\s|really\s|that\s)?(?:urgent|important|critical|rush|hurry|priority)\b",
    re.IGNORECASE,
)
_UNNAMED = re.compile(
    r"\b(?:(?:all|some|the|my|our|those|these)\s){0,2}(?:it|this|that|them|those|these|something|anything|"
    r"everything|stuff|"
    r"things?|whatever)\b",
    re.IGNORECASE,
)
_ABOUT_IT = re.compile(r"\sabout\s(?:it|this|that|them)\b|\ssoon\b", re.IGNORECASE)
_SOON_D, _NEAR_D, _FAR_D = 1, 7, 30
_MAX_OWN_WORDS = MAX_TEXT // 2
"""Characters of the user's words that a suggestion repeats."""


def parse(given: ParseTaskInput, today: date) -> ParseTaskAnswer:
    text = " ".join(given.natural_language.split())
    due = due_date_in(text, today)
    asked = _without_politeness(text)
    said = {word.casefold() for word in _WORD.findall(asked)}
    if vague := _vague(asked, due, text):
        return ParseTaskAnswer(task=None, vague=vague)
    head, steps = _steps(given.natural_language, text, today)
    title = _title(head, due_date_in(head, today) if head is not text else due)
    task = ParsedTask(
        title=title,
        due_date=due.day,
        category=_category(said, given.config),
        priority=_priority(text, due.day, today, given.config),
        subtasks=steps,
    )
    return ParseTaskAnswer(task=task, vague=None)


def _without_politeness(text: str) -> str:
    """Takes `Hey, could you please remind me to` off the front, layer by layer, and `, thanks!` off the end."""
    text = _THANKED.sub("", text)
    while found := _ASKED.match(text):
        text = text[found.end() :]
    return text


def _without_date(text: str, due: Due) -> str:
    if due.day is None or text[due.end :].startswith(("'s", "\u2019s")):
        return text  # `Friday's meeting` names a meeting
    before, after = text[: due.start], text[due.end :]
    time = _TIME_AFTER.match(after)
    after = after[time.end() :] if time else after
    leading = _LEADING_IN.search(before)
    return f"{before[: leading.start()] if leading else before} {after}"


def _title(text: str, due: Due) -> str:
    dated = _without_date(text, due).strip(" ,;:-")
    cleaned = _without_politeness(dated)
    if cleaned != dated:
        cleaned = cleaned.rstrip(" ?")  # `could you …?` asks for nothing but the task
    cleaned = re.sub(r"\(\s*\)", " ", cleaned)
    cleaned = re.sub(r"\s+([,.;:!?)])", r"\1", " ".join(cleaned.split())).strip(" ,;:-.!")
    if not _WORD.search(cleaned):
        cleaned = text.strip()
    return (cleaned[0].upper() + cleaned[1:])[:MAX_TEXT]


def _steps(written: str, text: str, today: date) -> tuple[str, list[str] | None]:
    """Returns what stands before the colon and the steps behind it, if there are 3 to 7; otherwise the whole text."""
    found = _STEPS.fullmatch(written.strip())
    if not found or not _WORD.search(_without_date(found["title"], due_date_in(found["title"], today))):
        return text, None
    parts = [part for part in _BETWEEN_STEPS.split(found["steps"]) if part.strip()]
    if len(parts) > 1:
        # `a, b and c`; a single `a and b` is no list
        parts[-1:] = _LAST_STEP.split(parts[-1], maxsplit=1)
    steps = [_step(part, today) for part in parts]
    if not MIN_SUBTASKS <= len(steps) <= MAX_SUBTASKS or not all(_WORD.search(step) for step in steps):
        return text, None
    return " ".join(found["title"].split()), steps


def _step(part: str, today: date) -> str:
    part = " ".join(part.split())
    return _title(part, due_date_in(part, today))


def _vague(asked: str, due: Due, text: str) -> Vague | None:
    dated = _without_date(text, due) if due.day else asked
    words = [word.casefold() for word in _WORD.findall(_without_politeness(dated.strip(" ,;:-")))]
    telling = [word for word in words if word not in NOTHING_SAID]
    if any(word not in GENERIC for word in telling) or (len(telling) > 1 and not _UNNAMED.search(asked)):
        return None
    verb = telling[0] if telling else ""
    reason = f"It does not say what to {verb}." if verb and verb in OBJECTS else "It does not say what there is to do."
    # a suggestion is a text that would do, so it has the same bound
    said = asked if verb and len(asked) <= _MAX_OWN_WORDS else f"{verb or 'do'} it"
    suggestions = [_named(said, thing) for thing in OBJECTS.get(verb, OBJECTS[""])]
    if not due.day:
        suggestions[-1] += " by Friday"
    return Vague(reason=reason, suggestions=suggestions)


def _named(asked: str, thing: str) -> str:
    """Returns the user's own words with a thing in the place of `it` or `stuff`."""
    named, count = _UNNAMED.subn(thing, _ABOUT_IT.sub("", asked.rstrip(" .!?")), count=1)
    if not count:
        verb, _, rest = named.partition(" ")
        named = f"{verb} {thing} {rest}".strip()
    return named[0].upper() + named[1:]


def _category(said: set[str], config: ParseTaskConfig) -> str:
    """Returns the category that the text names, or else the one that most of its words belong to."""
    for category in config.categories:
        if category.casefold() in said:
            return category
    by_name = {category.casefold(): category for category in config.categories}
    scores = {name: sum(_is_among(word, words) for word in said) for name, words in WORDS_OF.items() if name in by_name}
    best = max(scores, key=lambda name: scores[name], default="")
    if best and scores[best]:
        return by_name[best]
    return next((by_name[name] for name in FALLBACK_CATEGORIES if name in by_name), config.categories[0])


def _is_among(word: str, words: frozenset[str]) -> bool:
    return word in words or (word.endswith("s") and word[:-1] in words)


def _priority(text: str, due: date | None, today: date, config: ParseTaskConfig) -> Priority:
    levels = sorted(config.priority_levels, key=lambda each: each.low)
    for each in levels:
        name = re.escape(each.level)
        if re.search(rf"\b(?:{name}[\s-]priority|priority\s?(?:is\s|:\s?|=\s?)?{name})\b", text, re.IGNORECASE):
            score = (each.low + each.high) // 2
            return Priority(level=each.level, score=score, reason=f"The text says that its priority is {each.level}.")
    grade, place, reason = _grade(text, due, today)
    level = levels[round(grade * (len(levels) - 1) / 3)]
    score = level.low + round((level.high - level.low) * place)
    return Priority(level=level.level, score=score, reason=reason)


def _grade(text: str, due: date | None, today: date) -> tuple[int, float, str]:
    """Returns a grade from 0 to 3, a place inside its level from 0 to 1, and the reason."""
    if found := _NOT_URGENT.search(text) or LOW.search(text):
        return 0, 0.5, f'The text says "{found.group().casefold()}".'
    days = None if due is None else (due - today).days
    if found := CRITICAL.search(text):
        return 3, 1.0 if days is not None and days <= _SOON_D else 0.5, f'The text says "{found.group().casefold()}".'
    if found := HIGH.search(text):
        near = days is not None and days <= _SOON_D
        return 3 if near else 2, 0.0 if near else 0.5, f'The text says "{found.group().casefold()}".'
    if days is None:
        return 1, 0.0, "It has no due date and says nothing about urgency."
    if days <= _SOON_D:
        return 2, 1.0 if days == 0 else 0.0, f"It is due {'today' if days == 0 else 'tomorrow'}."
    if days <= _NEAR_D:
        return 1, 1.0, f"It is due in {days} days."
    if days <= _FAR_D:
        return 1, 0.5, f"It is due in {days} days."
    return 0, 1.0, f"It is due in {days} days."
