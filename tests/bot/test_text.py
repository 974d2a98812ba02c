"""Whatever an agent writes arrives: nothing lost, nothing that Telegram refuses, no character torn apart."""

from __future__ import annotations

import json
import re
import time
from itertools import pairwise

import pytest
from aiogram.types import MessageEntity
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from inturn.bot import text as module
from inturn.bot.text import MAX_ENTITIES, MAX_PARTS, Entity, Part, reading_pause_s, split

STYLES = {"bold", "italic", "strikethrough"}
UNSEEN = "\u200b\u2060\ufeff\u3164"


def words(part: Part) -> list[tuple[str, str]]:
    """Each entity's type and words, as aiogram reads them."""
    return [(each.type, MessageEntity(**each.as_dict()).extract_from(part.text)) for each in part.entities]


def only(answer: str) -> tuple[str, list[tuple[str, str]]]:
    (part,) = split(answer)
    return part.text, words(part)


def texts(answer: str, limit: int = 4000, is_markdown: bool = True) -> list[str]:
    return [part.text for part in split(answer, limit, is_markdown)]


@pytest.mark.parametrize(
    ("answer", "text", "entities"),
    [
        ("a **b c** d", "a b c d", [("bold", "b c")]),
        ("__b__ *i* _i_ ~~s~~", "b i i s", [("bold", "b"), ("italic", "i"), ("italic", "i"), ("strikethrough", "s")]),
        ("`a*b*` **c**", "a*b* c", [("code", "a*b*"), ("bold", "c")]),
        ("a `` `b` `` c", "a `b` c", [("code", "`b`")]),
        ("***both***", "both", [("bold", "both"), ("italic", "both")]),
        ("**b *i***", "b i", [("bold", "b i"), ("italic", "i")]),
        ("*i **b***", "i b", [("italic", "i b"), ("bold", "b")]),
        ("# A *b*\nc", "A b\nc", [("bold", "A b"), ("italic", "b")]),
        ("### A **b**", "A b", [("bold", "A b")]),
        ("# `a`", "a", [("code", "a")]),
        ("😀 **😀é** x", "😀 😀é x", [("bold", "😀é")]),
        ("这是**重点**内容", "这是重点内容", [("bold", "重点")]),
        ("**API**s", "APIs", [("bold", "API")]),
        ("*❤️*", "❤️", [("italic", "❤️")]),
        ("**a `b` c**", "a b c", [("bold", "a"), ("code", "b"), ("bold", "c")]),
        ("**`a` `b`**", "a b", [("code", "a"), ("code", "b")]),
        ("__a **b**__", "a b", [("bold", "a b")]),
        ("**a *b** c*", "a *b c*", [("bold", "a *b")]),
    ],
)
def test_the_markdown_of_models_becomes_entities(answer: str, text: str, entities: list[tuple[str, str]]) -> None:
    assert only(answer) == (text, entities)


@pytest.mark.parametrize(
    "answer",
    [
        "snake_case_name and _one", "x**2 + y**2", "2 * 3 * 4", "**/*.py and **/*.js", "f(*a), g(*b), f(**a), g(**b)",
        "**open", "a ** b ** c", "a ` ` b", "`open", "`` ` ``` ", "[a](javascript:x)", "[a](b)", "[](http://a.b)", "[a] (http://a.b)",
        "a](http://a.b)", "~one~ ~~~three~~~", "****", "#tag", "####### seven", "```", "``` \n\n ```", "*\u200b*", "https://a.b/_c_/d__e__",
        "C:\\dir\\new", "* one\n* two", "<b>&amp;</b>", "**a\n# b**",
    ],
)  # fmt: skip
def test_what_is_unclosed_or_odd_stays_as_it_is_written(answer: str) -> None:
    text, entities = only(answer)
    assert text == answer.strip().replace("# b**", "b**")
    assert not [each for each in entities if each != ("bold", "b**")]


def test_an_unclosed_fence_stays_and_what_follows_is_read() -> None:
    assert texts("```py\n**a**\n\nb") == ["```py\na", "b"]


def test_escapes_are_resolved_but_not_in_code() -> None:
    assert only(r"\*a\* 1\. \\ `\*` \a") == (r"*a* 1. \ \* \a", [("code", r"\*")])


def test_a_link_has_its_address() -> None:
    (part,) = split(r"[a *b*](https://x.y/c_(d)?e=1) [`f`](tg://resolve) ![i](MAILTO:a\_b@c.d) [[1]](http://q.r)")
    assert part.text == "a b f i [1]"
    assert words(part) == [
        ("text_link", "a b"), ("italic", "b"), ("text_link", "f"), ("text_link", "i"), ("text_link", "[1]"),
    ]  # fmt: skip
    assert [each.url for each in part.entities if each.url] == [
        "https://x.y/c_(d)?e=1", "tg://resolve", "MAILTO:a_b@c.d", "http://q.r",
    ]  # fmt: skip


def test_a_link_has_no_link_in_it() -> None:
    assert only("[a [b](http://u) c](http://v)") == ("[a b c](http://v)", [("text_link", "b")])


def test_a_code_block_keeps_its_language_its_indentation_and_its_blank_lines() -> None:
    (part,) = split("Look:\n```python\n    if a:\n\n        b = '**c**'\n```\nDone.")
    assert part.text == "Look:\n    if a:\n\n        b = '**c**'\nDone."
    assert words(part) == [("pre", "    if a:\n\n        b = '**c**'")]
    assert part.entities[0].language == "python"


def test_a_code_block_in_a_list_loses_the_indentation_of_the_list() -> None:
    assert only("1. a\n   ```\n   b\n     c\n   ```") == ("1. a\nb\n  c", [("pre", "b\n  c")])


def test_a_longer_fence_holds_a_shorter_one() -> None:
    assert only("````\n```\na\n```\n````") == ("```\na\n```", [("pre", "```\na\n```")])


def test_a_dictionary_for_telegram_has_only_what_is_set() -> None:
    assert Entity("bold", 0, 1).as_dict() == {"type": "bold", "offset": 0, "length": 1}
    assert Entity("pre", 0, 1, language="py").as_dict() == {"type": "pre", "offset": 0, "length": 1, "language": "py"}


def test_where_entities_cannot_be_sent_links_keep_their_addresses() -> None:
    (part,) = split("😀 read [the *manual*](https://a.b/c), [this](http://d.e) and [http://f.g](http://f.g)")
    assert part.in_plain_text() == "😀 read the manual (https://a.b/c), this (http://d.e) and http://f.g"
    (part,) = split(f"[far away](https://a.b/{'x' * 200}) {'y' * 3900} [near](http://a.b)")
    assert len(part.in_plain_text()) <= 4096
    assert part.in_plain_text().endswith("near (http://a.b)")
    assert part.in_plain_text().startswith("far away yyy"), "for this one there is no room"


def test_a_part_travels_as_json() -> None:
    adapter = TypeAdapter(list[Part])
    parts = split("**a** [b](http://c.d)\n\n```py\ne\n```")
    assert adapter.validate_json(adapter.dump_json(parts)) == parts
    assert adapter.validate_python(json.loads(json.dumps(adapter.dump_python(parts)))) == parts


def test_plain_text_is_left_alone() -> None:
    assert split("**a** `b\n\n```\n\n# c", is_markdown=False) == [Part("**a** `b"), Part("```"), Part("# c")]


def test_a_paragraph_is_a_part() -> None:
    assert texts("\n\na\nb\n \t\nc\r\n\r\n\r\n- d\n\n- e\n") == ["a\nb", "c", "- d", "- e"]
    assert texts("a\u2028b\rc") == ["a\nb\nc"]


@pytest.mark.parametrize("answer", ["", " \n\t", UNSEEN, f"{UNSEEN}\n\n{UNSEEN}", "\u200d\ufe0f\x01\xad", "\u2800"])
def test_an_answer_with_nothing_to_see_has_no_parts(answer: str) -> None:
    assert split(answer) == []
    assert texts(f"a\n\n{answer}\n\nb") == ["a", "b"]


def test_what_cannot_be_sent_is_replaced() -> None:
    assert texts("a\0b \ud83d \ude00 \ud83d\ude00") == ["a\ufffdb \ufffd \ufffd 😀"]


def test_a_long_paragraph_is_cut_at_a_line_break_or_else_at_white_space() -> None:
    assert texts("aa bb\ncc dd ee", 11) == ["aa bb", "cc dd ee"]
    assert texts("aa bb cc dd ee", 11) == ["aa bb cc dd", "ee"]
    assert texts("aa bbbbbbbbbbbbb cc", 6) == ["aa", "bbbbbb", "bbbbbb", "b cc"]


def test_an_entity_that_fits_is_not_cut() -> None:
    assert [words(part) for part in split("aaa **bb cc** dd", 7)] == [[], [("bold", "bb cc")], []]
    assert texts("aaa **bb cc** dd", 7) == ["aaa", "bb cc", "dd"]
    assert texts("aaa**bb cc** dd", 7) == ["aaa**bb", "cc** dd"]
    assert texts("(**bb cc dd**)", 8) == ["(", "bb cc dd", ")"]


def test_each_piece_of_an_entity_that_is_too_long_has_its_own() -> None:
    parts = split("a [bb cc dd ee](http://x.y) f", 6)
    assert [part.text for part in parts] == ["a bb", "cc dd", "ee f"]
    assert [words(part) for part in parts] == [[("text_link", each)] for each in ("bb", "cc dd", "ee")]
    assert {each.url for part in parts for each in part.entities} == {"http://x.y"}


def test_a_long_code_block_is_cut_at_line_breaks_and_keeps_its_indentation() -> None:
    parts = split("```py\nif a:\n    bbbb\n\n    cccc\n        d\n```", 18)
    assert [part.text for part in parts] == ["if a:\n    bbbb", "    cccc\n        d"]
    assert [words(part) for part in parts] == [[("pre", part.text)] for part in parts]
    assert [part.entities[0].language for part in parts] == ["py", "py"]


def test_indentation_that_is_over_the_limit_goes() -> None:
    assert texts("```\n" + " " * 30 + "aaa bbb\n```", 5) == ["aaa", "bbb"]


def test_of_too_many_entities_links_and_code_stay() -> None:
    (part,) = split("*a* " * 150 + "`b` [c](http://d.e)")
    assert len(part.entities) == MAX_ENTITIES
    assert words(part)[-3:] == [("italic", "a"), ("code", "b"), ("text_link", "c")]
    assert [each.offset for each in part.entities] == sorted(each.offset for each in part.entities)


def test_many_paragraphs_share_the_last_parts() -> None:
    lines = [f"**{number}**" for number in range(MAX_PARTS + 10)]
    parts = split("\n\n".join(lines))
    assert len(parts) == MAX_PARTS
    assert [part.text for part in parts[:-1]] == [str(number) for number in range(MAX_PARTS - 1)]
    assert parts[-1].text == "\n\n".join(str(number) for number in range(MAX_PARTS - 1, MAX_PARTS + 10))
    assert words(parts[-1]) == [("bold", str(number)) for number in range(MAX_PARTS - 1, MAX_PARTS + 10)]


def test_only_as_many_paragraphs_share_parts_as_must() -> None:
    found = texts("\n\n".join(["aa aa"] * 70), 12)
    assert found == ["aa aa"] * 30 + ["aa aa\n\naa aa"] * 20


def test_parts_are_filled_before_anything_is_cut_off() -> None:
    found = texts("\n\n".join(["aaa bbb"] * 70), 12)  # two paragraphs do not fit into a part, but one and a half do
    assert len(found) <= MAX_PARTS
    assert " ".join(found).split() == ["aaa", "bbb"] * 70


def test_what_does_not_fit_is_cut_off_and_that_is_said() -> None:
    found = texts("\n\n".join(["aaa bbb"] * 200), 12)
    assert len(found) == MAX_PARTS
    assert found[-1].endswith("…")
    assert max(map(len, found)) <= 12
    assert len("".join(found)) > MAX_PARTS * 11
    long = texts("a" * 5000, 20)
    assert long == ["a" * 20] * (MAX_PARTS - 1) + ["a" * 19 + "…"]


def test_a_limit_has_room_for_a_character_and_the_mark() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        split("a", 1)


CHARACTERS = [
    "a", "é", "e\u0301", "y\u0336\u0301", "漢", "각", "\u1100\u1161\u11a8", "\u1100가", "क्षि", "நி", "กำ", "ｶﾞ", "😀",
    "👍🏽", "❤️", "👩‍👩‍👧‍👦", "🏳️‍🌈",
    "1️⃣", "🇩🇪", "🇫🇷", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "☝🏿", "ʰ",
]  # fmt: skip


@pytest.mark.parametrize("limit", [8, 9])
@pytest.mark.parametrize("character", CHARACTERS)
def test_a_part_of_one_character_over_and_over_holds_as_many_as_fit(character: str, limit: int) -> None:
    most = character * (limit // len(character))
    first, *_, last = texts(character * 30, limit)
    assert first == most
    assert last == character * (30 % (limit // len(character))) or last == most


@given(st.lists(st.sampled_from(CHARACTERS), min_size=1, max_size=60), st.integers(8, 20))
@settings(max_examples=300, deadline=None)
def test_no_character_is_torn_apart(characters: list[str], limit: int) -> None:
    ends = {sum(map(len, characters[:count])) for count in range(len(characters) + 1)}
    at = 0
    for part in texts("".join(characters), limit, is_markdown=False):
        at += len(part)
        assert at in ends
    assert at == max(ends)


def test_a_mark_on_a_space_stays_on_it() -> None:
    assert texts("aaa bbb \u0301ccc", 9) == ["aaa", "bbb \u0301ccc"]


def test_a_character_that_is_over_the_limit_is_cut() -> None:
    assert texts("a" + "\u0301" * 9, 5) == ["a" + "\u0301" * 4, "\u0301" * 5]


MARKDOWN = st.lists(
    st.sampled_from(
        [
            "a", "b ", " c", "dd ee", "\n", "\n\n", "    ", "*", "**", "***", "_", "__", "~~", "`", "``", "[", "]",
            "](http://u.v)", "![", "\\", "\\*", "#", "# ", "## h\n", "```", "\n```\n", "\n```py\n", "\n````\n",
            "😀", "👍🏽", "🇩🇪", "é", "字", "(", ".",
            "\u200b", "\ufe0f", "\u0301", "https://a.b/_c_", "*i*", "**b c**", "`d e`", "~~f~~",
            "[g h](http://i.j)", "\r\n", "\0", "\ud83d",
        ]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@given(MARKDOWN | st.text(max_size=60), st.integers(2, 30), st.booleans())
@settings(max_examples=600, deadline=None)
def test_whatever_is_written_telegram_takes_every_part(answer: str, limit: int, is_markdown: bool) -> None:
    parts = split(answer, limit, is_markdown)
    assert len(parts) <= MAX_PARTS
    for part in parts:
        must_be_sound(part, limit)


def must_be_sound(part: Part, limit: int) -> None:
    assert 0 < len(part.text) <= limit
    assert part.text == part.text.rstrip()
    assert part.text == part.text.lstrip() or part.entities[0].type == "pre"
    assert "\0" not in part.text
    assert part.text.strip(UNSEEN + " ")
    encoded = part.text.encode("utf-16-le")
    around: list[Entity] = []
    for entity in part.entities:
        inner = encoded[entity.offset * 2 : (entity.offset + entity.length) * 2]
        assert len(inner) == entity.length * 2 > 0
        assert inner.decode("utf-16-le").strip()
        while around and around[-1].offset + around[-1].length <= entity.offset:
            around.pop()
        if around:
            assert entity.offset + entity.length <= around[-1].offset + around[-1].length
        assert entity.type not in {outer.type for outer in around}
        assert not around or around[-1].type in STYLES | {"text_link"}
        assert not around or entity.type in STYLES | {"text_link"}
        around.append(entity)


def seen(text: str) -> str:
    return re.sub(r"[\s\u200b-\u200f\u2060-\u206f\u0300-\u036f\ufe0f]", "", text)


@given(MARKDOWN, st.integers(2, 30))
@settings(max_examples=600, deadline=None)
def test_cutting_loses_nothing(answer: str, limit: int) -> None:
    """A limit that nothing reaches shows what there is; it shows the same however it is cut, and entities with it."""
    uncut, cut = split(answer), split(answer, limit)
    if len(cut) == MAX_PARTS:
        return
    assert seen("".join(part.text for part in cut)) == seen("".join(part.text for part in uncut))
    for kind in ("bold", "italic", "strikethrough", "code", "pre", "text_link"):
        of_kind = [
            "".join(inner for part in parts for each, inner in words(part) if each == kind) for parts in (uncut, cut)
        ]
        assert seen(of_kind[0]) == seen(of_kind[1])


@given(MARKDOWN)
@settings(max_examples=600, deadline=None)
def test_reading_takes_away_nothing_but_markup(answer: str) -> None:
    """What is shown is a subsequence of what was written, and what is missing is markup."""
    written = answer.replace("\0", "\ufffd").replace("\ud83d", "\ufffd")
    shown = "".join(part.text for part in split(answer))
    rest = iter(seen(written))
    assert all(char in rest for char in seen(shown))
    for markup in ("http://u.v", "http://i.j", "py"):  # an address or a language is with its entity, or in the text
        kept = sum(
            part.text.count(markup) + sum(markup in (entity.url, entity.language) for entity in part.entities)
            for part in split(answer)
        )
        assert kept >= written.count(markup)
    letters = re.compile(r"[^\W_]|[😀🇩🇪👍🏽(.]")
    without = re.sub(r"http://(u\.v|i\.j)|py", "", written), re.sub(r"http://(u\.v|i\.j)|py", "", shown)
    lost = len(letters.findall(without[0])) - len(letters.findall(without[1]))
    assert lost <= without[0].count("](") - without[1].count("](")  # the parenthesis of a link


WORDS = st.lists(st.sampled_from(["a", "bb", "ccc", "😀", "dd.", "(e)"]), min_size=1, max_size=4).map(" ".join)
PIECES = st.tuples(st.sampled_from(["", "**", "*", "`", "~~"]), WORDS)


@given(st.lists(PIECES, min_size=1, max_size=12), st.sampled_from([" ", "\n"]), st.integers(16, 40))
@settings(max_examples=300, deadline=None)
def test_neither_a_word_nor_an_entity_that_fits_is_cut(pieces: list[tuple[str, str]], gap: str, limit: int) -> None:
    answer = gap.join(f"{delimiter}{inner}{delimiter}" for delimiter, inner in pieces)
    parts = split(answer, limit)
    assert " ".join(part.text for part in parts).split() == " ".join(inner for _, inner in pieces).split()
    assert [inner for part in parts for _, inner in words(part)] == [inner for delimiter, inner in pieces if delimiter]
    for before, after in pairwise(parts):  # and no part is shorter than it must be
        rest = re.split(r"\s", after.text)[0]
        is_styled = bool(after.entities) and after.entities[0].offset == 0
        is_line = gap == "\n"
        assert is_styled or is_line or len(before.text) + 1 + len(rest) > limit


@pytest.mark.parametrize(
    "unit",
    [
        "*", "[", "`", "_", "a", "~", "\\", "](", "*a ", "**a", "*_", "[a](", "](http://a", "[a](http://b)", "](http://x()",
        "`a`", "`a", "```a\n", "```\n", "# a\n", "a\n\n", "a\n", "🇩", "\u0301", "a\u200d", "http://_", "\n",
        "```\n\n```\n", "\u200b", "**a `b` ", "*\u200b", "[\u200b",
    ],
)  # fmt: skip
def test_the_work_grows_with_the_length_of_the_answer_and_no_faster(unit: str) -> None:
    """Sixteen times the text: linear work takes sixteen times as long, quadratic work 256 times."""
    assert min(growth(unit) for _ in range(2)) < 64


@pytest.mark.parametrize(("opening", "closing"), [("*_", "_*"), ("**~~", "~~**"), ("[*", "*](http://a)")])
def test_markup_in_markup_is_no_more_work_than_markup_beside_markup(opening: str, closing: str) -> None:
    def nested(length: int) -> str:
        times = length // (len(opening) + len(closing))
        return opening * times + "a" + closing * times

    def growth_of_nested() -> float:
        return cpu_seconds(nested(64_000)) / max(cpu_seconds(nested(4_000)), 0.0005)

    assert min(growth_of_nested() for _ in range(2)) < 64


def growth(unit: str) -> float:
    few, many = (cpu_seconds(unit * (length // len(unit))) for length in (4_000, 64_000))
    return many / max(few, 0.0005)


def cpu_seconds(answer: str) -> float:
    before = time.process_time()
    split(answer, limit=40)  # so that both are more than fits
    return time.process_time() - before


def test_a_fence_looks_for_its_end_only_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    closing = module._closing

    def spied(line: str) -> int:
        looked.append(line)
        return closing(line)

    monkeypatch.setattr(module, "_closing", spied)
    split("```a\n" * 500)
    assert len(looked) == 501


def test_the_pause_is_as_long_as_reading_takes_and_five_seconds_at_most() -> None:
    assert reading_pause_s("a" * 40, 20) == 2.0
    assert reading_pause_s("a" * 4000, 20) == 5.0
    assert reading_pause_s("", 20) == 0.0


def test_a_rule_between_paragraphs_is_no_part_and_one_elsewhere_stays() -> None:
    assert [part.text for part in split("one\n\n---\n\ntwo\n\n----")] == ["one", "two"]
    assert [part.text for part in split("---\n\none\n---\ntwo")] == ["---", "one\n---\ntwo"]
