"""What a body or a state looks like: a pydantic model, a dataclass, or plain JSON (`dict`, `list`).

A state is stored as `<version> <json>`, where the version counts its commits. It is read through its shape: what no
longer fits is never touched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError

from inturn.errors import BadMessage, TooLarge
from inturn.lanes import text

_PLAIN = (dict, list)


class Shape:
    """How values of one type are read and written."""

    def __init__(self, kind: Any, field: str) -> None:
        self.kind = kind
        self._field = field
        self._adapter: TypeAdapter[Any] | None = None
        if kind not in _PLAIN:
            try:
                self._adapter = TypeAdapter(kind)
            except (PydanticUserError, KeyError, TypeError) as error:
                raise TypeError(
                    f"{field}={kind!r}: must be a pydantic model, a dataclass, dict or list: {error}"
                ) from error

    def fields(self) -> set[str] | None:
        """The names that a value has; `None` where they are not known beforehand."""
        model_fields = getattr(self.kind, "model_fields", None) or getattr(self.kind, "__dataclass_fields__", None)
        return set(model_fields) if isinstance(model_fields, dict) else None

    def read(self, written: bytes) -> Any:
        """Raises `ValueError` for what does not fit."""
        if self._adapter is not None:
            return self._adapter.validate_json(written)
        value = text.read(written)
        if not isinstance(value, self.kind):
            raise ValueError(f"a {self.kind.__name__} was expected, and a {type(value).__name__} is there")
        return value

    def write(self, value: Any, what: str, limit: int) -> bytes:
        if self._adapter is None:
            if not isinstance(value, self.kind):
                raise BadMessage(f"{what} is a {type(value).__name__}, and {self._field}={self.kind.__name__} was said")
            return text.write(value, what, limit)
        try:
            # what could not be read back must not be written
            written = self._adapter.dump_json(self._adapter.validate_python(value), warnings="error")
        except (ValidationError, PydanticSerializationError) as error:
            raise BadMessage(f"{what} does not fit {self._field}={self.kind!r}: {_first(error)}") from error
        if len(written) > limit:
            raise TooLarge(what, len(written), limit)
        return written


class NewerState(ValueError):
    """A newer version of the code has written it, so nobody asks whether it could be read by chance."""

    def __init__(self, needs: int, have: int) -> None:
        super().__init__(f"version {needs} of the handler wrote it, and this is version {have}")
        self.needs = needs


class StateShape(Shape):
    """The state of a lane, and how it begins."""

    def __init__(self, kind: Any, initial: Callable[[], Any] | None = None) -> None:
        super().__init__(kind, "state")
        self._initial: Callable[[], Any] = initial or kind
        try:
            self._initial()
        except Exception as error:
            raise TypeError(
                f"state={kind!r}: cannot be made without arguments ({error}); give initial=, a function that makes it"
            ) from error

    def load(self, stored: bytes | None, code: int = 1) -> tuple[Any, int]:
        """The state and its version, for this version of the code.

        Raises `ValueError` for what does not fit, whatever its code raises at it.
        """
        if stored is None:
            return self._initial(), 0
        version, _, written = stored.partition(b" ")
        number, _, written_by = version.partition(b"@")
        if written_by and int(written_by) > code:
            raise NewerState(int(written_by), code)
        try:
            return self.read(written), int(number)
        except ValueError:
            raise
        except Exception as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error

    def save(self, state: Any, version: int, code: int = 1) -> bytes:
        written_by = b"@%d" % code if code > 1 else b""
        return b"%d%b " % (version + 1, written_by) + self.write(state, "the state", text.MAX_STATE)


def why_not(error: ValueError) -> str:
    """In one line, why a text did not fit."""
    return _first(error)


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        return f"{where}: {first['msg']}" if where else str(first["msg"])
    return str(error)
