"""Regular expressions in time that grows with the text, whatever they are: one that backtracks could stop a server.

The engine is that of pydantic. It has no look-around and no back references; a pattern with these is refused.
"""

from __future__ import annotations

from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema


class BadPattern(ValueError):
    """It is no regular expression that this engine takes."""


@lru_cache(64)
def compiled(pattern: str) -> SchemaValidator:
    """Its `isinstance_python(text)` says whether it is found anywhere in the text. Raises `BadPattern`."""
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex", strict=True))
    except (SchemaError, ValueError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        told = next((line for line in lines if line.startswith("error:")), lines[-1] if lines else "")
        raise BadPattern(told.removeprefix("error: ").removeprefix("SchemaError: ")) from None


def of_whole(pattern: str) -> SchemaValidator:
    """The same for the whole of a text. The pattern must be one by itself: `a)(b` becomes another one in here."""
    return compiled(rf"\A(?:{pattern})\z")
