"""Readings of a text: what a language model may make of letters that a plain search does not recognise.

Every step takes time in proportion to the length of the text.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
import sys
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

_LOOKALIKES = str.maketrans(
    "аеорсухіјѕһԁԛԝѵкмнтвгпиьʟɡɩɪαβεηικνορτυχωγσ",
    "aeopcyxijshdqwvkmhtbrnnblgiiabenikvoptuxwyo",
)
_LEET = {"0": "o", "3": "e", "4": "a", "5": "s", "7": "t", "@": "a", "$": "s", "!": "i", "|": "i"}
_LEET_I, _LEET_L = (str.maketrans({**_LEET, "1": letter}) for letter in "il")
_HAS_LEET = re.compile(r"[0-9@$!|]")
_NOT_WORD = re.compile(r"[\W_]+")
_APOSTROPHE = re.compile(r"['\u2019\u02bc`]")
_SPACED_OUT = re.compile(r"(?<![^\W_])[^\W\d_](?:[\W_]{1,3}[^\W\d_](?![^\W_])){5}")
_LONG_WORD = re.compile(r"[^\W_]{18,}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}[\s:]?){10,}")
_BITS = re.compile(r"(?:[01]{8}\s?){6,}")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4}))")
_LONG_LIGATURES = str.maketrans({0xFDFA: " ", 0xFDFB: " "})
"""A compatible form of these is a whole phrase: a text of them would become many times as long."""
_CHARACTER_REFERENCE = re.compile(r"&#(?:x([0-9a-f]{1,6})|([0-9]{1,7}));?", re.IGNORECASE)
_MIN_LETTERS = 6


def plain(text: str) -> str:
    """Returns the text in lower case, in compatible letters, without marks, zero-width and direction characters."""
    parts = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text.translate(_LONG_LIGATURES)).casefold())
    kept = (character for character in parts if unicodedata.category(character) not in ("Mn", "Me", "Cf"))
    return unicodedata.normalize("NFC", "".join(kept))


def words(text: str) -> str:
    """Returns the words of a plain text with one blank around each, so that a pattern needs no other separator."""
    return f" {_NOT_WORD.sub(' ', _APOSTROPHE.sub('', text)).strip()} "


def readings(text: str) -> Iterator[str]:
    """Yields the plain text, and what it reads as with look-alike letters and digits replaced."""
    yield text
    folded = text.translate(_LOOKALIKES)
    if folded != text:
        yield folded
    if _HAS_LEET.search(folded):
        yield _unleeted(folded, _LEET_I)
        yield _unleeted(folded, _LEET_L)


def _unleeted(text: str, table: dict[int, str]) -> str:
    """Only in words that have letters, too: `10` stays a number, and the `!` at the end of a word stays a mark."""
    told = []
    for word in text.split():
        bare = word.rstrip("!|.,")
        has_letter = any(character.isalpha() for character in bare)
        told.append(bare.translate(table) if has_letter else word)
    return " ".join(told)


def squashed(text: str) -> str:
    """Returns the letters of `i g n o r e` and of very long words without anything between them; '' without such."""
    if _SPACED_OUT.search(text):
        return _NOT_WORD.sub("", text)
    return " ".join(_LONG_WORD.findall(text))


def decoded(text: str) -> Iterator[tuple[str, bool]]:
    """Yields what is encoded in a text, each with whether it is readable text in a code that nobody types by chance."""
    for block in _BASE64.findall(text):
        yield from _readable(_from_base64(block))
    for block in _HEX.findall(text):
        digits = re.sub(r"[\s:]", "", block)
        yield from _readable(bytes.fromhex(digits))
    for block in _BITS.findall(text):
        bits = "".join(block.split())
        yield from _readable(bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8)))
    unescaped = _CHARACTER_REFERENCE.sub(_referred, unquote(text))
    unescaped = _ESCAPE.sub(lambda match: chr(int(match[1] or match[2], 16)), unescaped)
    if unescaped != text:
        yield unescaped, False
    yield codecs.encode(text, "rot13"), False
    yield text[::-1], False


def _referred(match: re.Match[str]) -> str:
    """By hand: `html.unescape` fails on a reference of thousands of digits, which `int` refuses."""
    number = int(match[1], 16) if match[1] else int(match[2])
    return chr(number) if number <= sys.maxunicode else ""


def _from_base64(block: str) -> bytes:
    block = block.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(block[: len(block) - (len(block) % 4 == 1)] + "=" * (-len(block) % 4 % 3))
    except binascii.Error:
        return b""


def _readable(content: bytes) -> Iterator[tuple[str, bool]]:
    """Yields the content if it is text with a blank and some letters."""
    try:
        text = content.decode("ascii")
    except UnicodeDecodeError:
        return
    if text.isprintable() and " " in text.strip() and sum(map(str.isalpha, text)) >= _MIN_LETTERS:
        yield text, True
