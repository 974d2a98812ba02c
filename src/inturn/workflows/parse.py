"""Finds what an agent's messages mean: structured data if there is any, else text to pass on. Never raises.

The first match wins: an object in `value`, then merged `entities`, then a fenced JSON block in an assistant's text,
then a bare object in that text. If anything in the texts that was meant as data is broken, none of it counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, cast, get_args

from pydantic import BaseModel, Field

from inturn.agents import storable
from inturn.workflows.definition.model import RESERVED, NextAction
from inturn.workflows.messages import MAX_PAYLOAD, NormalizedMessage, citation_of

# `*+` does not backtrack: else a long run of blanks would be tried in every division
_MARK = re.compile(r"(?P<fence>`{3,}+)[ \t]*+(?P<language>[\w+#.-]*+)|(?<!`)`(?P<code>[^`\n]++)`(?!`)|[][{}]")
"""What may begin or end an object, a list or code."""
_BLANKS = re.compile(r"\s*+")
_FENCE_LINE = re.compile(r"^[ \t]*+```(?P<is_bare>[ \t]*+$)?", re.MULTILINE)
_PLAIN = re.compile(r'\{[^][{}"]*+\}|\[[^][{}"]*+\]|\{\s*+"[^][{}"]*+"\s*+\}')
"""Brackets as people write them, `{name}` or `[1]`: whatever is between them, it is no object with a member."""
_SAMPLE = re.compile(
    r'\{(?:\s*+"[^"\\]*+"\s*+:\s*+(?:"[^"\\]*+"|<[^<>"]*+>|\.\.\.|…|any|array|bool(?:ean)?|date(?:time)?|dict|float'
    r"|int(?:eger)?|list|null|number|object|str(?:ing)?|text)\s*+(?:,(?!\s*+\})|(?=\})))++\}",
    re.IGNORECASE,
)
"""An object as it is described, `{"age": int}`."""
_OBJECT = re.compile(r'\{\s*+"')
_LITERAL = re.compile(r"""\{\s*+(?:['\u2018-\u201d][^'\u2018-\u201d\n]*+['\u2018-\u201d]\s*+:|\w++\s*+:\s*+["'\[{])""")
"""An object as other languages write it. It may be code; beside data, nobody knows whether it was meant as data too."""
_LIST = re.compile(r'\[\s*+(?:["\[{-]|\d|true|false|null)')
_BLOCK_ENDS = re.compile(r'(?P<words>[^][{}"`]*+)(?:```|\Z)')
_STANDS_ALONE = re.compile(r'(?!\s*+(?:\}|"\s*+(?:,\s*+"|\})|,\s*+"[^"]*+"\s*+:))')
"""Behind a bare object. What it forbids is the rest of a larger object."""
_MEMBER_BEFORE = re.compile(r'"\s*:\s*\Z')
_LIST_ENDS = re.compile(r"\s*+\]")
_FLAT = re.compile(r"\[(?:[^][{}]++|\[[^][{}]*+\])*+\]")
_SMILEY = re.compile(r"[:;=8][-'^]?[]}]\Z")
_DOUBTFUL = "beside its JSON there is something that may be data, and that cannot be read"
_CONFIDENCE = {"value": 0.95, "entities": 0.7, "text": 0.4}
_ACTIONS = get_args(NextAction)
_NO_ACTION = (None, "", "none", "null")
MAX_CITED = 16 * 1024
MAX_ERRORS = 8 * 1024
"""Bytes of all errors together."""
_MAX_TRIES = 40
"""Objects and lists of a text that may fail to be read. Each costs as much as the text is long."""


class ParsedTurn(BaseModel):
    """What the agent's messages mean."""

    kind: Literal["structured", "passthrough", "parse_error"] = Field(
        description="`structured`: the agent sent data. `passthrough`: only messages. `parse_error`: data that cannot "
        "be read."
    )
    data: dict[str, Any] = Field(
        default_factory=dict,
        description="The values that the agent found, by field name. Those that do not fit their fields are not "
        "collected.",
    )
    next_action: NextAction | None = Field(None, description="What the agent wants to happen next.")
    prompt: str = Field("", description="What the agent asks or recommends.")
    messages: list[NormalizedMessage] = Field(
        default_factory=list, description="The messages to show, without the JSON that the agent put into its text."
    )
    confidence: float = Field(
        0.0,
        ge=0.0,
        le=1.0,
        description="How reliable the data is, by where it was found: lowest in the text of a message; 0 without data.",
    )
    citations: list[dict[str, str]] = Field(
        default_factory=list, description="The sources that the agent names, each with `title`, `url` or both."
    )
    errors: list[str] = Field(
        default_factory=list,
        description="What could not be read or collected, and what the agent itself reports as wrong.",
    )
    input_type: str | None = Field(None, description="The type of input that fits the next answer.")
    choices: list[str] = Field(default_factory=list, description="Answers to choose from.")


class _Found(NamedTuple):
    payload: dict[str, Any]
    confidence: float
    messages: list[NormalizedMessage]


def parse_turn(messages: Sequence[NormalizedMessage]) -> ParsedTurn:
    cited = [citation for message in messages for citation in message.citations]
    errors = [f"message {message.id}: {message.problem}" for message in messages if message.problem]
    found = None if errors else _in_payloads(messages) or _in_texts(messages, errors)
    kind: Literal["passthrough", "parse_error"] = "parse_error" if errors else "passthrough"
    errors += [f"message {message.id}: {message.left_out}" for message in messages if message.left_out]
    if found is None:
        return ParsedTurn(
            kind=kind, messages=_shown(messages), citations=storable.first(cited, MAX_CITED), errors=errors_of(errors)
        )
    said = found.payload
    action = _first(said, "nextAction", "next_action")
    action = action.strip().casefold() if isinstance(action, str) else action
    if action in _NO_ACTION:
        action = _result(said) or action
    if action is not None and action not in _ACTIONS:
        errors.append(f"next action {storable.text(str(action), 50)!r}: must be one of {', '.join(_ACTIONS)}")
        action = None
    shown = _shown(found.messages)
    prompt = _words(_first(said, "prompt", "reply", "recommendation"))
    if not shown and prompt:
        shown = [NormalizedMessage(id="prompt", text=prompt)]
    return ParsedTurn(
        kind="structured",
        data=_data(said),
        next_action=cast(NextAction | None, action),
        prompt=prompt,
        messages=shown,
        confidence=found.confidence,
        citations=storable.first(cited + _listed_citations(said.get("citations")), MAX_CITED),
        errors=errors_of(errors + [words for words in map(_words, _list(said.get("errors"))) if words]),
        input_type=_words(_first(said, "inputType", "input_type"))[:50] or None,
        choices=[_words(choice)[:200] for choice in _list(said.get("choices")) if isinstance(choice, str)],
    )


def errors_of(found: list[str]) -> list[str]:
    """Cuts each error, and the list, to their bounds."""
    return storable.first([storable.text(error, 500) for error in found], MAX_ERRORS)


def _in_payloads(messages: Sequence[NormalizedMessage]) -> _Found | None:
    for source in ("value", "entities"):
        merged: dict[str, Any] = {}
        for message in messages:
            if message.source == source and message.payload:
                merged |= message.payload
                if source == "value":  # only the first object counts; entities are merged
                    break
        if merged:
            return _Found(merged, _CONFIDENCE[source], list(messages))
    return None


def _in_texts(messages: Sequence[NormalizedMessage], errors: list[str]) -> _Found | None:
    """If anything that was meant as data cannot be read, nothing is: what can be read may be an older value."""
    looked = [
        (number, _Look(message.text))
        for number, message in enumerate(messages)
        if message.role == "assistant" and message.kind == "text"
    ]
    has_data = any(look.fenced or look.bare for _, look in looked)
    broken = [(number, look.broken or (look.doubtful if has_data else "")) for number, look in looked]
    errors += [f"message {messages[number].id}: {why}" for number, why in broken if why]
    if errors:
        return None
    for is_fenced in (True, False):
        for number, look in looked:
            found = look.fenced if is_fenced else look.bare
            if found is not None:
                shown = list(messages)
                shown[number] = shown[number].model_copy(update={"text": found.rest, "payload": found.payload})
                return _Found(found.payload, _CONFIDENCE["text"], shown)
    return None


class _InText(NamedTuple):
    payload: dict[str, Any]
    rest: str


class _Look:
    """Goes once through a text, from left to right, up to the first object that is broken.

    Code is passed over: `like this`, or a block of another language than JSON, unless it begins with an object.
    """

    def __init__(self, text: str) -> None:
        self.fenced: _InText | None = None
        """The first object in a block."""
        self.bare: _InText | None = None
        self.broken = ""
        """What is wrong with an object that was meant as data."""
        self.doubtful = ""
        """What is wrong if there is data too."""
        self._text = text
        self._tries = 0
        self._open = {"{": 0, "[": 0}
        """Brackets of the prose that are not closed yet."""
        self._fence_line: re.Match[str] | None = _FENCE_LINE.search(text)
        self._closes_at = -1
        """Where the block ends that we are in."""
        at = 0
        while not self.broken and (mark := _MARK.search(text, at)) is not None:
            at = self._step(mark)

    def _step(self, mark: re.Match[str]) -> int:
        """Returns where to go on. So do the steps below."""
        if mark["fence"]:
            return self._fence(mark)
        return self._code(mark) if mark["code"] else self._bracket(mark.start())

    def _fence(self, mark: re.Match[str]) -> int:
        text, language = self._text, mark["language"].casefold()
        language = "json" if language.startswith("json") else language
        begins = _BLANKS.match(text, mark.end()).end()  # type: ignore[union-attr]
        is_language = not language or language == "json" or "\n" in text[mark.end() : begins]
        if mark.start() == self._closes_at or not is_language:
            return mark.end("fence")
        is_object = _OBJECT.match(text, begins) and not _PLAIN.match(text, begins)
        if is_object or (language == "json" and text.startswith("{", begins)):
            return self._object(mark.start(), begins, language)
        if language == "json" and not text.startswith(("[", "`"), begins):
            self.doubtful = _DOUBTFUL
        closing = self._closing(mark.end())
        if closing is not None and language not in ("", "json"):
            return closing.end()
        self._closes_at = -1 if closing is None else closing.end() - len(closing[0].lstrip(" \t"))
        return mark.end()

    def _closing(self, at: int) -> re.Match[str] | None:
        """Finds the fence that closes a block: the next that begins a line, if nothing else is in that line."""
        while self._fence_line is not None and self._fence_line.start() < at:
            self._fence_line = _FENCE_LINE.search(self._text, self._fence_line.end())
        return self._fence_line if self._fence_line is not None and self._fence_line["is_bare"] is not None else None

    def _code(self, mark: re.Match[str]) -> int:
        return mark.start() + 1 if _OBJECT.match(mark["code"].lstrip()) else mark.end()

    def _bracket(self, start: int) -> int:
        text, bracket = self._text, self._text[start]
        if bracket in "]}":
            self._closes(start)
            return start + 1
        if _LITERAL.match(text, start):
            self.doubtful = _DOUBTFUL
        if plain := _PLAIN.match(text, start):
            return plain.end()
        if bracket == "{" and _OBJECT.match(text, start):
            return self._object(start, start)
        if bracket == "[" and _LIST.match(text, start):
            return self._list(start)
        self._open[bracket] += 1
        return start + 1

    def _closes(self, start: int) -> None:
        opens = "{" if self._text[start] == "}" else "["
        if self._open[opens]:
            self._open[opens] -= 1
            return
        is_smiley = _SMILEY.search(self._text[max(0, start - 2) : start + 1])
        if opens == "{" and (self.fenced or self.bare) and not is_smiley:
            self.broken = "its JSON cannot be read: a brace is closed that was not opened"

    def _object(self, start: int, begins: int, language: str | None = None) -> int:
        """Reads an object that begins there; its block, if it is in one, at `start`."""
        text, is_block = self._text, language is not None
        read = _read(text, begins, _BLOCK_ENDS if is_block else _STANDS_ALONE)
        if read is _PROSE and language != "json":
            self._open["{"] += 1
            return self._after_failure(begins)
        is_part = self._open["{"] or (not is_block and self._is_member(start, read))
        if read is None or read is _PROSE or (is_part and read.payload):
            self.broken = self.broken or f"its JSON{' block' * is_block} cannot be read"
            return begins + 1
        if read.payload and self.fenced is None and language in ("", "json"):
            self.fenced = _without(text, start, read)
        elif read.payload and self.bare is None and language not in ("", "json"):
            self.bare = _without(text, start, read)
        return read.end

    def _is_member(self, start: int, read: _Read | None) -> bool:
        """Whether a bare object is a part of a larger one, or of a list, whose beginning is missing."""
        if read is None or read is _PROSE:
            return False
        if not self._open["["] and _LIST_ENDS.match(self._text, read.end):
            return True
        return self.bare is None and _MEMBER_BEFORE.search(self._text[max(0, start - 200) : start]) is not None

    def _list(self, start: int) -> int:
        """Passes over a list that can be read, and over one that has no objects: people write `["S", "M", ...]`."""
        text = self._text
        read = _read(text, start, _STANDS_ALONE)
        if read is not None and read is not _PROSE:
            return read.end
        if flat := _FLAT.match(text, start):
            return self._after_failure(flat.end() - 1)
        if read is None and _OBJECT.search(text, start):
            self.broken = "its JSON cannot be read"
        self._open["["] += 1
        return self._after_failure(start)

    def _after_failure(self, at: int) -> int:
        self._tries += 1
        if self._tries < _MAX_TRIES:
            return at + 1
        if not self.broken and _OBJECT.search(self._text, at + 1):
            self.broken = "it has too much JSON to be read"
        return len(self._text)


class _Read(NamedTuple):
    payload: dict[str, Any] | None
    """`None` for a list."""
    end: int
    words: str = ""
    """Between the object and the end of its block."""


def _without(text: str, start: int, read: _Read) -> _InText:
    assert read.payload is not None
    return _InText(read.payload, (text[:start] + read.words + text[read.end :]).strip())


_PROSE = _Read(None, 0)
_DECODER = json.JSONDecoder(strict=False)
"""Not strict: models write line breaks into strings."""


def _read(text: str, start: int, follows: re.Pattern[str]) -> _Read | None:
    """Reads an object or a list as a whole, with what must follow it. Returns `None` if it is broken, and `_PROSE` if
    it was never meant as JSON.
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
        behind = follows.match(text, end)
        if behind is None:
            return None
        payload = storable.value(value, MAX_PAYLOAD) if isinstance(value, dict) else None
        return _Read(payload, behind.end(), behind.groupdict().get("words", "").strip())
    except json.JSONDecodeError as error:
        is_list_of_words = text[start] == "[" and all(text.find(part, start, error.pos) < 0 for part in '"{')
        return _PROSE if is_list_of_words or _SAMPLE.match(text, start) else None
    except (ValueError, RecursionError):
        return None


def _data(payload: dict[str, Any]) -> dict[str, Any]:
    """Everything in `data` is data, whatever its name: what is about the turn stands beside it."""
    data = payload.get("data")
    if isinstance(data, dict):
        return data
    return {name: value for name, value in payload.items() if name not in RESERVED}


def _shown(messages: Sequence[NormalizedMessage]) -> list[NormalizedMessage]:
    return [message for message in messages if message.is_visible]


def _first(payload: dict[str, Any], *names: str) -> Any:
    return next((payload[name] for name in names if payload.get(name) is not None), None)


def _result(payload: dict[str, Any]) -> str | None:
    """Some agents name the next action `action`. With a card's id, that is the action of the card."""
    action = payload.get("action")
    if not isinstance(action, str) or payload.get("cardId"):
        return None
    action = action.strip().casefold()
    return action if action in _ACTIONS else None


def _words(value: Any) -> str:
    return storable.text(value, 4000) if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value[:50] if isinstance(value, list) else []


def _listed_citations(value: Any) -> list[dict[str, str]]:
    found = []
    for citation in _list(value):
        if isinstance(citation, str):
            found.append(citation_of(citation, None))
        elif isinstance(citation, dict):
            found.append(citation_of(citation.get("title") or citation.get("name"), citation.get("url")))
    return [citation for citation in found if citation]
