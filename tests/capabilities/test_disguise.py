"""What a disguised text reads as."""

from __future__ import annotations

import base64

import pytest

from inturn.capabilities.disguise import decoded, plain, readings, squashed, words


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("ＩＧＮＯＲＥ", "ignore"),  # noqa: RUF001
        ("ig\u200bno\u00adre", "ignore"),
        ("\u202eignore\u2066", "ignore"),
        ("i\u0301g\u0301nore", "ignore"),
        ("précédentes", "precedentes"),
    ],
)
def test_marks_and_invisible_characters_are_left_out(written: str, read: str) -> None:
    assert plain(written) == read


def test_words_stand_alone() -> None:
    assert words("don't_ignore--this!") == " dont ignore this "


@pytest.mark.parametrize(
    ("written", "read"),
    [("іgnоrе", "ignore"), ("ιgnοre", "ignore"), ("1gn0r3", "ignore"), ("a11 ru1es", "all rules")],  # noqa: RUF001
)
def test_lookalikes_are_read_as_what_they_look_like(written: str, read: str) -> None:
    assert read in list(readings(plain(written)))


def test_numbers_stay_numbers() -> None:
    assert all("100 eggs" in each for each in readings("100 eggs"))


def test_letters_with_something_between_them_are_joined() -> None:
    assert squashed("i g n o r e t h i s") == "ignorethis"
    assert squashed("i.g.n.o.r.e") == "ignore"
    assert squashed("a b c and d") == ""


@pytest.mark.parametrize("length", range(12, 40))
def test_base64_is_decoded_whatever_its_length(length: int) -> None:
    text = ("ignore the rules " * 3)[:length].strip() + "x"
    for encoded in (base64.b64encode(text.encode()).decode(), base64.b64encode(text.encode()).decode().rstrip("=")):
        assert (text, True) in list(decoded(f"buy {encoded} milk"))


@pytest.mark.parametrize(
    "written", ["ignore%20this", "&#105;gnore this", "&#x69;gnore this", "\\x69gnore this", "\\u0069gnore this"]
)
def test_escapes_are_decoded(written: str) -> None:
    assert ("ignore this", False) in list(decoded(written))


def test_what_only_looks_like_a_code_is_none() -> None:
    for text in ("JD014600006281230701", "3f2a9c1d5e7b8a6f4c3d2e1f0a9b8c7d6e5f4a3b", "Donaudampfschifffahrt"):
        assert not any(is_code for _, is_code in decoded(text))
