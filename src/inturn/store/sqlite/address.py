"""Where the database file is: sqlite:///relative.db, sqlite:////absolute.db, sqlite:///:memory:.

A namespace other than the default has a file of its own beside it (`app.db` and `app.<namespace>.db`), so
that namespaces share nothing, not even the write lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from inturn.errors import SettingsError

DEFAULT_NAMESPACE = "inturn"
_MEMORY = ":memory:"
_SYNCHRONOUS = ("full", "normal", "off")


@dataclass(frozen=True, slots=True)
class Address:
    """One database. `path` is None for a database in memory."""

    path: Path | None
    namespace: str
    synchronous: str

    @classmethod
    def from_url(cls, url: str, namespace: str) -> Address:
        """No message shows the URL itself: where it is wrong, anything may stand in it."""
        location, _, query = url.removeprefix("sqlite://").partition("?")
        synchronous = _read_query(query)
        if location.removeprefix("/") == _MEMORY:
            return cls(None, namespace, synchronous)
        if not location.startswith("/") or location == "/":
            raise SettingsError(
                "the SQLite URL names no file: use sqlite:///relative.db, sqlite:////absolute.db or sqlite:///:memory:"
            )
        path = Path(unquote(location[1:])).absolute()
        if path.is_dir():
            raise SettingsError(f"{path} is a folder: name a file in it, such as {path / 'inturn.db'}")
        if not path.parent.is_dir():
            raise SettingsError(f"the folder {path.parent} does not exist: make it, or name another one")
        if namespace != DEFAULT_NAMESPACE:
            path = path.with_name(f"{path.stem}.{namespace}{path.suffix}")
        return cls(path, namespace, synchronous)

    def __str__(self) -> str:
        return _MEMORY if self.path is None else str(self.path)


def _read_query(query: str) -> str:
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    synchronous = parameters.pop("synchronous", "full").lower()
    if parameters:
        unknown = ", ".join(sorted(parameters))
        raise SettingsError(
            f"unknown parameter in the SQLite URL: {unknown} (there is only synchronous=full|normal|off)"
        )
    if synchronous not in _SYNCHRONOUS:
        raise SettingsError(f"synchronous={synchronous!r}: use one of {', '.join(_SYNCHRONOUS)}")
    return synchronous
