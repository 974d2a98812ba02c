"""What others said, without the secrets in it: keys, tokens, passwords, and the parts of URLs that may hold one.

A provider's error may repeat the request, with its key and its address. Rather a harmless word too many is hidden.
"""

from __future__ import annotations

import re

HIDDEN = "***"
MAX_TEXT = 20_000
"""Characters that are looked at; the rest is cut off."""

_URL = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,20}://)([^\s\"'<>]++)")
_QUERY = re.compile(r"(?<=[?#]).+")
_VALUE = r"[^\s\"'&,;<>(){}\[\]]"
# `++` and `?+` do not backtrack, and what stands before a fixed word is bounded: so each rule is linear
_RULES = (
    # a secret by its name: with "=" any short name will do, with ":" only a plain one
    (re.compile(rf"(?i)\b([\w-]{{0,30}}(?:key|token|sig|signature|code|credential)[\"']?\s*=\s*[\"']?){_VALUE}{{4,}}"),
     rf"\1{HIDDEN}"),
    (re.compile(rf"(?i)((?:api[-_ ]?key|access[-_ ]?(?:token|key)|secret|password|passwd|pwd)(?: \w{{1,20}})?[\"']?\s*"
                rf"[=:]\s*[\"']?){_VALUE}{{4,}}"), rf"\1{HIDDEN}"),
    (re.compile(rf"(?i)(\bauthorization[\"']?\s*[=:]\s*[\"']?(?:[a-z]+\s+)?+){_VALUE}{{4,}}"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)(\b(?:set-)?cookie[\"']?\s*[=:]\s*[\"']?)[\w.-]{1,60}=[^\r\n\"'<>]++"), rf"\1{HIDDEN}"),
    # in a sentence only what is no word: `Bearer authentication failed`, `the password is required`
    (re.compile(rf"(?i)\b(bearer\s+(?:token\s+)?+)(?:(?={_VALUE}*\d){_VALUE}{{8,}}|{_VALUE}{{16,}})"), rf"\1{HIDDEN}"),
    (re.compile(rf"(?i)((?:secret|password|passwd|pwd)\s+is\s+[\"']?)(?={_VALUE}*\d){_VALUE}{{4,}}"), rf"\1{HIDDEN}"),
    (re.compile(r"(?i)\b(key\W{1,3})(?=[\w-]*\d)[\w-]{16,}"), rf"\1{HIDDEN}"),
    # a secret by its looks: the prefixes of well-known issuers, signed tokens, and what is long and no word
    (re.compile(r"\b(?:[sprk]k-|sk_|rk_|pk_|gh[pousr]_|github_pat_|glpat-|hf_|xox[abeprs]-|AKIA|ASIA|AIza|ya29\.)"
                r"[\w*.-]{6,}"), HIDDEN),
    (re.compile(r"\beyJ[\w-]{8,}+(?:\.[\w-]*+){1,4}"), HIDDEN),
    (re.compile(r"(?<![\w-])(?=[A-Za-z_-]*\d)(?=[\d_-]*[A-Za-z])[\w-]{40,}={0,2}"), HIDDEN),
)  # fmt: skip


def masked_passwords(text: str) -> str:
    """Without those that stand in URLs. All else stays."""
    return _URL.sub(lambda url: url[1] + _host_of(url[2]), text)


def masked(text: str) -> str:
    text = _URL.sub(_without_secrets, text[:MAX_TEXT])
    for pattern, instead in _RULES:
        text = pattern.sub(instead, text)
    return text


def _without_secrets(url: re.Match[str]) -> str:
    """Leaves out whoever is named before the host, and what stands behind `?` or `#`."""
    return _QUERY.sub(HIDDEN, url[1] + _host_of(url[2]), count=1)


def _host_of(place: str) -> str:
    named, slash, rest = place.partition("/")
    user, at, host = named.rpartition("@")
    return f"{HIDDEN if user else ''}{at}{host}{slash}{rest}"
