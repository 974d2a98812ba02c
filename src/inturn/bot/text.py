"""An agent's answer becomes parts: what Telegram shows is what the agent wrote, and Telegram refuses none of them.

No text is lost: markup that is unclosed or odd stays as it is written. A part is never empty or over the limit, and
is not cut inside a character, nor inside a word or an entity that fits into one part. All of it takes linear time.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, dropwhile, islice
from typing import Any, Literal, NamedTuple

from inturn.agents.json_object import mended

MAX_CHARACTERS = 4096
"""Telegram's own limit; parts stay a little below it."""
MAX_PARTS = 50
MAX_ENTITIES = 100
"""Telegram ignores what is beyond it."""
MAX_PAUSE_S = 5.0

EntityType = Literal["bold", "italic", "strikethrough", "code", "pre", "text_link"]


class Entity(NamedTuple):
    """Offset and length are in UTF-16 code units, as Telegram counts them. As JSON it is a short list."""

    type: EntityType
    offset: int
    length: int
    url: str | None = None
    language: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if value is not None}


@dataclass(frozen=True)
class Part:
    """One Telegram message of an answer."""

    text: str
    entities: tuple[Entity, ...] = ()

    def in_plain_text(self) -> str:
        """For where entities cannot be sent: addresses of links stand behind their words, as far as they fit in."""
        written = self.text.encode("utf-16-le")
        room = MAX_CHARACTERS - len(self.text)
        for entity in sorted(self.entities, key=lambda entity: -entity.offset):
            address = f" ({entity.url})"
            if entity.url and entity.url not in self.text and len(address) <= room:
                end = 2 * (entity.offset + entity.length)
                written = written[:end] + address.encode("utf-16-le") + written[end:]
                room -= len(address)
        return written.decode("utf-16-le")


def split(answer: str, limit: int = 4000, is_markdown: bool = True) -> list[Part]:
    """A paragraph is a part, or several if it is longer than `limit` code points. Nothing to see gives no parts.

    Beyond `MAX_PARTS` the last paragraphs share parts; only what does not fit even so is cut off, with "…".
    """
    if limit < 2:
        raise ValueError(f"limit must be at least 2, not {limit}: a character and the mark that something was cut off")
    answer = _NEW_LINE.sub("\n", mended(answer)).replace("\0", "\ufffd")
    text, marks, paragraphs = _joined(_paragraphs(answer, is_markdown))
    cutter = _Cutter(text, marks, limit)
    spans = [span for start, end in paragraphs for span in cutter.spans(start, end)]
    if len(spans) <= MAX_PARTS:
        return _parts(text, marks, spans)
    fewer = _fewer(cutter, spans)
    if fewer is not None:
        return _parts(text, marks, fewer)
    spans = list(islice(cutter.spans(0, len(text), is_dense=True), MAX_PARTS))
    spans[-1] = next(_Cutter(text, marks, limit - 1).spans(spans[-1][0], len(text), is_dense=True))
    *whole, last = _parts(text, marks, spans)
    return [*whole, Part(last.text + "…", last.entities)]


def reading_pause_s(part_text: str, chars_per_s: float) -> float:
    """How long to wait before a later part goes out, so that the one who reads it can keep pace."""
    return min(MAX_PAUSE_S, len(part_text) / chars_per_s)


class _Mark(NamedTuple):
    """An entity in the making: it counts code points."""

    type: EntityType
    start: int
    end: int
    url: str | None = None
    language: str | None = None


_Marked = tuple[str, list[_Mark]]

_NEW_LINE = re.compile("\r\n?|[\u2028\u2029]")  # Telegram removes the last two, and the words around them would join

# From the answer to its paragraphs


def _joined(paragraphs: Iterable[_Marked], gap: str = "\n\n") -> tuple[str, list[_Mark], list[tuple[int, int]]]:
    """One text, its marks in the order of their starts, and where in it each paragraph is."""
    texts, marks, ranges, start = [], [], [], 0
    for text, own in paragraphs:
        texts.append(text)
        marks += [mark._replace(start=start + mark.start, end=start + mark.end) for mark in own]
        ranges.append((start, start + len(text)))
        start += len(text) + len(gap)
    return gap.join(texts), marks, ranges


def _paragraphs(text: str, is_markdown: bool) -> Iterator[_Marked]:
    lines = text.split("\n")
    blocks = _blocks(lines) if is_markdown else ((line, []) if line.strip() else None for line in lines)
    together: list[_Marked] = []
    for block in blocks:
        if block is not None:
            together.append(block)
        elif together:
            yield _joined(together, "\n")[:2]
            together = []
    if together:
        yield _joined(together, "\n")[:2]


_FENCE = re.compile(r"(`{3,}+)([^`]*+)")
_RULE = re.compile(r"[ \t]{0,3}-{3,}[ \t]*")
_HEADING = re.compile(r"[ \t]{0,3}#{1,6}[ \t]+(\S.*)")


def _blocks(lines: Sequence[str]) -> Iterator[_Marked | None]:
    """Code blocks, headings and the lines between them, read; None is a blank line."""
    longest = _longest_closing(lines)
    plain: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        fence, heading = _FENCE.fullmatch(line.strip()), _HEADING.fullmatch(line)
        if fence and len(fence[1]) > longest[at + 1]:
            fence = None  # never closed
        at += 1
        if _RULE.fullmatch(line) and at > 1 and not lines[at - 2].strip() and not "".join(lines[at : at + 1]).strip():
            line = ""  # it parts paragraphs, which are parts already
        if plain and (fence or heading or not line.strip()):
            yield _inline("\n".join(plain))
            plain = []
        if fence:
            end = next(end for end in range(at, len(lines)) if _closing(lines[end]) >= len(fence[1]))
            yield _code_block(lines[at - 1 : end + 1], fence[2].strip() or None)
            at = end + 1
        elif heading:
            yield _inline(heading[1].rstrip(), is_heading=True)
        elif line.strip():
            plain.append(line)
        else:
            yield None
    if plain:
        yield _inline("\n".join(plain))


def _closing(line: str) -> int:
    """How long a fence this line can close."""
    line = line.strip()
    return len(line) if len(line) >= 3 and not line.strip("`") else 0


def _longest_closing(lines: Sequence[str]) -> list[int]:
    """The longest fence that is closed at a line or after it: no fence looks in vain for its end."""
    return [*accumulate((_closing(line) for line in reversed(lines)), max, initial=0)][::-1]


def _code_block(lines: Sequence[str], language: str | None) -> _Marked:
    indent = _indent(lines[0])
    code = [line[min(indent, _indent(line)) :] for line in lines[1:-1]]
    text = "\n".join(dropwhile(lambda line: not line.strip(), code)).rstrip()
    if not _is_shown(text):
        return "\n".join(lines), []
    return text, [_Mark("pre", 0, len(text), language=language)]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


# From Markdown in a line to text with marks

_URL = r"(?:(?:https?|tg)://|mailto:)[^\s()<>]++(?:\([^\s()<>]*+\)[^\s()<>]*+)*+"
_TOKENS = [
    r"\\(?P<escaped>[!-/:-@\[-`{-~])",
    r"(?P<ticks>`+)",
    r"(?P<run>\*+|_+|~+)",
    r"(?P<bare_url>https?://[^\s*`~\[\]()<>\\]*[^\s*`~\[\]()<>\\_])",
]
_LINK_TOKENS = [r"(?P<bracket>!?\[)", rf"\]\((?P<url>{_URL})\)", r"(?P<bracket_end>\])"]
_TOKEN = re.compile("|".join(_TOKENS), re.IGNORECASE)
_TOKEN_OR_LINK = re.compile("|".join(_TOKENS + _LINK_TOKENS), re.IGNORECASE)
_STYLES: dict[str, EntityType] = {
    "**": "bold", "__": "bold", "*": "italic", "_": "italic", "~~": "strikethrough",
}  # fmt: skip


def _inline(source: str, is_heading: bool = False) -> _Marked:
    text, marks = _Inline(source).read() if _TOKEN_OR_LINK.search(source) else (source, [])
    if is_heading:
        marks.insert(0, _Mark("bold", 0, len(text)))
    return text, _tidied(text, marks)


class _Inline:
    """Reads once from left to right. An opening delimiter is a piece of the text until its end is found."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.pieces: list[str] = []
        self.shown: list[int] = []
        """Which pieces have something to see, in order; also some that have been emptied since."""
        self.found: list[tuple[EntityType, int, int, str | None]] = []
        self.opened: dict[str, list[int]] = {delimiter: [] for delimiter in (*_STYLES, "[")}
        self.ticks: dict[int, list[int]] = defaultdict(list)
        for run in re.finditer("`+", source):
            self.ticks[len(run[0])].append(run.start())

    def read(self) -> _Marked:
        at = 0
        pattern = _TOKEN_OR_LINK if "](" in self.source else _TOKEN
        while token := pattern.search(self.source, at):
            self.add(self.source[at : token.start()])
            at = token.end()
            if token.lastgroup == "escaped":
                self.add(token["escaped"])
            elif token.lastgroup == "ticks":
                at = self.code(token)
            elif token.lastgroup == "run":
                self.style(token)
            elif token.lastgroup == "url":
                self.link(token)
            else:
                if token.lastgroup == "bracket":
                    self.opened["["].append(len(self.pieces))
                elif token.lastgroup == "bracket_end" and self.opened["["]:
                    self.opened["["].pop()
                self.add(token[0])
        self.add(self.source[at:])
        starts = [*accumulate(map(len, self.pieces), initial=0)]
        # the outer of two is found after the inner one, and goes before it
        marks = [_Mark(kind, starts[first], starts[end], url) for kind, first, end, url in reversed(self.found)]
        return "".join(self.pieces), marks

    def add(self, piece: str) -> None:
        if _is_shown(piece):
            self.shown.append(len(self.pieces))
        self.pieces.append(piece)

    def code(self, token: re.Match[str]) -> int:
        """Ends at the next run of as many backticks; returns where to read on."""
        ends = self.ticks[len(token[0])]
        index = bisect_left(ends, token.end())
        code = self.source[token.end() : ends[index]] if index < len(ends) else ""
        if not _is_shown(code):
            self.add(token[0])
            return token.end()
        if code[0] == code[-1] == " ":
            code = code[1:-1]  # they keep a backtick of the code from the delimiter
        self.found.append(("code", len(self.pieces), len(self.pieces) + 1, None))
        self.add(code)
        return ends[index] + len(token[0])

    def style(self, token: re.Match[str]) -> None:
        run, left = token[0], len(token[0])
        before, after = (
            self.source[max(0, token.start() - 1) : token.start()],
            self.source[token.end() : token.end() + 1],
        )
        delimiters = [run] if left < 3 else [run[:2], run[0]]
        if left > 3 or not all(delimiter in _STYLES for delimiter in delimiters):
            self.add(run)
            return
        if _may_close(run, before, after):
            # of three, the delimiter goes first that was opened last
            while inner := [each for each in delimiters if len(each) <= left and self.opened[each]]:
                last = max(inner, key=lambda each: self.opened[each][-1])
                if not self.close(last, _STYLES[last]):
                    break
                left -= len(last)
        rest = run[:left]
        if rest and _may_open(run, before, after):
            for delimiter in delimiters if left == 3 else [rest]:
                self.opened[delimiter].append(len(self.pieces))
                self.add(delimiter)
        else:
            self.add(rest)

    def link(self, token: re.Match[str]) -> None:
        url = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", token["url"])
        if self.opened["["] and self.close("[", "text_link", url):
            self.opened["["].clear()  # a link has no link in it
        else:
            self.add(token[0])

    def close(self, delimiter: str, kind: EntityType, url: str | None = None) -> bool:
        """False if there is nothing to see between the two."""
        first = self.opened[delimiter].pop()
        for others in self.opened.values():
            while others and others[-1] > first:
                others.pop()
        while self.shown and not self.pieces[self.shown[-1]]:
            self.shown.pop()
        if not self.shown or self.shown[-1] <= first:
            return False
        self.pieces[first] = ""
        self.found.append((kind, first, len(self.pieces), url))
        return True


def _may_open(run: str, before: str, after: str) -> bool:
    """Not after a word: snake_case and x**2 stay."""
    return bool(after) and not after.isspace() and not _is_word(run, before)


def _may_close(run: str, before: str, after: str) -> bool:
    """Not before a word, but for the likes of **API**s; nor after what opens something, as in f(*a), g(*b)."""
    if not before or before.isspace() or before in "([{/":
        return False
    return not _is_word(run, after) or (run in ("**", "~~") and before.isalnum())


def _is_word(run: str, char: str) -> bool:
    """Languages that have no capitals often have no spaces between words either, but no names with "_"."""
    return char.isalnum() and (run[0] == "_" or unicodedata.category(char) != "Lo")


def _tidied(text: str, marks: Sequence[_Mark]) -> list[_Mark]:
    """Sorted and as Telegram wants them: nothing is twice bold, and code has no style.

    A link around code stays a link, as its address would be lost.
    """
    kept: list[tuple[_Mark, list[_Mark]]] = []  # with the code in it
    around: list[tuple[_Mark, list[_Mark]]] = []
    for mark in sorted(marks, key=lambda mark: (mark.start, -mark.end)):
        while around and around[-1][0].end <= mark.start:
            around.pop()
        types = {outer.type for outer, _ in around}
        if mark.type in types or (mark.type == "code" and "text_link" in types):
            continue
        if mark.type == "code":
            for _, code in around:
                code.append(mark)
        around.append((mark, []))
        kept.append(around[-1])
    return sorted(
        (mark._replace(start=start, end=end) for mark, code in kept for start, end in _without(mark, code)),
        key=lambda mark: (mark.start, -mark.end),
    )


def _without(mark: _Mark, code: Sequence[_Mark]) -> Iterator[tuple[int, int]]:
    starts = [mark.start, *(each.end for each in code)]
    ends = [*(each.start for each in code), mark.end]
    return ((start, end) for start, end in zip(starts, ends, strict=True) if start < end)


# From paragraphs to parts


class _Ranges:
    """Ranges that do not overlap, in order."""

    def __init__(self, marks: Iterable[_Mark]) -> None:
        self.ranges: list[tuple[int, int]] = []
        for mark in marks:
            if not self.ranges or mark.start >= self.ranges[-1][1]:  # else it is inside the one before
                self.ranges.append((mark.start, mark.end))

    def start_around(self, at: int) -> int | None:
        """Where the range starts that has this position in it."""
        index = bisect_right(self.ranges, at, key=lambda each: each[0]) - 1
        if index < 0 or at >= self.ranges[index][1]:
            return None
        return self.ranges[index][0]


class _Cutter:
    def __init__(self, text: str, marks: Sequence[_Mark], limit: int) -> None:
        self.text = text
        self.limit = limit
        self.whole = _Ranges(mark for mark in marks if mark.end - mark.start <= limit)
        self.code_blocks = _Ranges(mark for mark in marks if mark.type == "pre")

    def spans(self, start: int, end: int, is_dense: bool = False) -> Iterator[tuple[int, int]]:
        """What to show of this range. A piece ends at a line break if it has one; a dense piece at any white space."""
        while (ink := _INK.search(self.text, start, end)) is not None:
            start = self.without_gap(start, ink.start())
            stop = end if end - start <= self.limit else self.cut(start, ink.start(), is_dense)
            piece = self.text[start:stop].rstrip()
            if _is_shown(piece):
                yield start, start + len(piece)
            start = stop

    def without_gap(self, start: int, ink: int) -> int:
        """Code keeps the indentation of its first line: Telegram leaves white space alone in an entity."""
        block = self.code_blocks.start_around(ink)
        if block is None:
            return ink
        new_line = self.text.rfind("\n", start, ink)
        return max(block, new_line + 1) if new_line >= 0 or start <= block else ink

    def cut(self, start: int, ink: int, is_dense: bool) -> int:
        stop = start + self.limit
        gaps = [*_GAP.finditer(self.text, ink, stop + 1)][::-1]
        for is_break in (True,) if is_dense else (False, True):
            for gap in gaps:
                if (is_break or "\n" in gap[0]) and self.may_end(gap):
                    return gap.start()
        for whole in (self.whole, None):
            at = stop
            while at > ink:
                around = whole.start_around(at) if whole else None
                if around is not None and around < at:
                    at = around
                elif _is_one_character(self.text, at, start):
                    at -= 1
                else:
                    return at
        return stop  # it is all one character

    def may_end(self, gap: re.Match[str]) -> bool:
        around = self.whole.start_around(gap.start())
        is_inside = around is not None and around < gap.start()
        return not is_inside and not _is_one_character(self.text, gap.end(), gap.start())


_INK = re.compile(r"\S")
_GAP = re.compile(r"\s+")


def _fewer(cutter: _Cutter, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]] | None:
    """Keeps as many parts as they are as it can, and lets the rest share parts. None if that is still too much."""
    for is_dense in (False, True):

        def tail(kept: int, is_dense: bool = is_dense) -> list[tuple[int, int]]:
            return list(islice(cutter.spans(spans[kept][0], len(cutter.text), is_dense), MAX_PARTS + 1))

        if len(tail(0)) <= MAX_PARTS:
            kept = bisect_right(range(MAX_PARTS), MAX_PARTS, key=lambda kept: kept + len(tail(kept))) - 1
            return [*spans[:kept], *tail(kept)]
    return None


def _parts(text: str, marks: Sequence[_Mark], spans: Iterable[tuple[int, int]]) -> list[Part]:
    parts = []
    reached, live = 0, list[_Mark]()
    for start, end in spans:
        while reached < len(marks) and marks[reached].start < end:
            live.append(marks[reached])
            reached += 1
        own = [mark for each in live if (mark := _clipped(each, text, start, end))]
        parts.append(Part(text[start:end], tuple(_entity(mark, text, start) for mark in _most_wanted(own))))
        live = [mark for mark in live if mark.end > end]
    return parts


def _clipped(mark: _Mark, text: str, start: int, end: int) -> _Mark | None:
    start, end = max(start, mark.start), min(end, mark.end)
    inner = text[start:end]
    if not inner.strip():
        return None
    if mark.type not in ("code", "pre"):
        start, end = start + len(inner) - len(inner.lstrip()), start + len(inner.rstrip())
    return mark._replace(start=start, end=end)


def _most_wanted(marks: list[_Mark]) -> list[_Mark]:
    """Of too many, links and code: they say more than styles do."""
    by_worth = sorted(range(len(marks)), key=lambda index: marks[index].type in _STYLES.values())
    return [marks[index] for index in sorted(by_worth[:MAX_ENTITIES])]


def _entity(mark: _Mark, text: str, start: int) -> Entity:
    offset, length = _utf16_length(text[start : mark.start]), _utf16_length(text[mark.start : mark.end])
    return Entity(mark.type, offset, length, mark.url, mark.language)


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


# What a reader sees

# White space, control and format characters, the blanks of several scripts, variation selectors, tags, and the marks
# that Telegram removes.
_SHOWN = re.compile(
    "[^\\s\x00-\x1f\x7f-\x9f\xad\u030a\u0333\u033f\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffc\U000e0000-\U000e0fff]"
)


def _is_shown(text: str) -> bool:
    """Telegram refuses a message in which there is nothing to see."""
    return _SHOWN.search(text) is not None


# What joins the character before it, though its category does not tell: skin tones, two vowels, two sound marks, and
# the vowels and ends of Hangul syllables.
_JOINS = re.compile("[\U0001f3fb-\U0001f3ff\u0e33\u0eb3\uff9e\uff9f\u1160-\u11ff\ud7b0-\ud7ff]")
_TIES = re.compile("[\u200d\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd]")  # to the next one
_HANGUL_BEGIN = re.compile("[\u1100-\u115f\ua960-\ua97c][\u1100-\u115f\ua960-\ua97c\uac00-\ud7a3]")
_FLAG_LETTER = re.compile("[\U0001f1e6-\U0001f1ff]")
_VIRAMA = 9


def _is_one_character(text: str, at: int, start: int) -> bool:
    """Whether a reader sees one character in what is left and right of the position. If in doubt, yes."""
    if at >= len(text):
        return False
    before, after = text[at - 1], text[at]
    if unicodedata.category(before) == "Cc":
        return False
    if unicodedata.category(after) in ("Mn", "Mc", "Me", "Cf") or _JOINS.match(after):
        return True
    if _TIES.match(before) or unicodedata.combining(before) == _VIRAMA:
        return True
    if _FLAG_LETTER.match(before) and _FLAG_LETTER.match(after):
        letters = 0
        while at - letters > start and _FLAG_LETTER.match(text[at - letters - 1]):
            letters += 1
        return letters % 2 == 1
    return _HANGUL_BEGIN.match(text, at - 1) is not None
