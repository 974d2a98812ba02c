"""Reading `Idempotency-Key`: a structured-field string (RFC 9651), as the IETF draft has it.

Many clients send the value without quotes; `8e03978e` and `"8e03978e"` are the same key.
"""

from __future__ import annotations

import re

from inturn.http.asgi import Scope, values_of
from inturn.web.problem import Problem, key_malformed

MAX_KEY = 255
MAX_VALUE = 2 * MAX_KEY + 256
"""Every character of a key escaped, and some room for parameters."""

_STRING = rb'"((?:[ !#-\[\]-~]|\\["\\])*)"'
_BARE = rb"[!#-+\--:<-\[\]-~]+"  # printable, but none of: space " , ; \
_PARAMETERS = rb'(?: *; *[a-z*][a-z0-9_.*-]*(?:=(?:"(?:[ !#-\[\]-~]|\\["\\])*"|[!#-+\--:<-\[\]-~]+))?)*'
_QUOTED_VALUE = re.compile(_STRING + _PARAMETERS)
_BARE_VALUE = re.compile(_BARE)
_ESCAPED = re.compile(rb'\\(["\\])')


def key_of(scope: Scope) -> str | None:
    """The key of a request, `None` if it has none. Raises `Problem` for one that cannot be read."""
    values = values_of(scope["headers"], b"idempotency-key")
    if not values:
        return None
    if len(values) > 1:
        raise key_malformed("The header stands there more than once")
    return read_key(values[0])


def read_key(value: bytes) -> str:
    value = value.strip(b" \t")
    if len(value) > MAX_VALUE:
        raise _too_long(len(value))
    quoted = _QUOTED_VALUE.fullmatch(value)
    if quoted:
        key = _ESCAPED.sub(rb"\1", quoted[1])  # parameters have no meaning here, and are ignored as the RFC asks
    elif _BARE_VALUE.fullmatch(value):
        key = value
    else:
        raise key_malformed("The value is no string of printable ASCII characters" if value else "The value is empty")
    if not key:
        raise key_malformed("The value is empty")
    if len(key) > MAX_KEY:
        raise _too_long(len(key))
    return key.decode("ascii")


def _too_long(length: int) -> Problem:
    return key_malformed(f"The value has {length} characters")
