"""What `inturn` exports exists, is listed, and says where people should look for it."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import inturn
from inturn import errors, http, sync, testing
from inturn.lanes.admin import DeadLetters, Lanes
from inturn.locks import quorum
from inturn.locks.admin import Locks


def test_everything_listed_exists_and_is_public() -> None:
    for module in (inturn, errors, http, quorum, sync, testing):
        for name in module.__all__:
            assert not name.startswith("_")
            assert getattr(module, name) is not None
        assert sorted(module.__all__) == sorted(set(module.__all__))


def test_every_error_is_exported_and_drawn_in_the_tree() -> None:
    drawn = errors.__doc__ or ""
    for name, error in inspect.getmembers(errors, inspect.isclass):
        assert issubclass(error, errors.InTurnError)
        assert name in errors.__all__
        assert re.search(rf"\b{name}\b", drawn), f"{name} is missing in the tree of errors.py"


def test_the_front_page_has_what_people_write_in_their_first_week() -> None:
    assert len(inturn.__all__) <= 42
    caught = {name for name in inturn.__all__ if hasattr(errors, name)}
    assert all(getattr(inturn, name) is getattr(errors, name) for name in caught)
    assert {"InTurnError", "LaneBusy", "LeaseLost", "LockTimeout", "Retry", "Stop", "StoreUnavailable"} <= caught


def test_the_synchronous_face_has_the_same_doors() -> None:
    doors = {name for name, _ in inspect.getmembers(inturn.InTurn, inspect.isfunction) if not name.startswith("_")}
    assert doors - {"open"} <= {name for name, _ in inspect.getmembers(sync.InTurn) if not name.startswith("_")}


def test_the_synchronous_face_looks_inside_by_the_same_verbs() -> None:
    for ours, theirs in ((sync.Locks, Locks), (sync.Lanes, Lanes), (sync.DeadLetters, DeadLetters)):
        for name, verb in inspect.getmembers(theirs, inspect.isfunction):
            if not name.startswith("_"):
                assert inspect.signature(verb) == inspect.signature(getattr(ours, name))


def test_the_package_carries_its_types_and_scripts() -> None:
    package = Path(inturn.__file__).parent
    assert (package / "py.typed").exists()
    assert list((package / "store/redis/lua").glob("*/*.lua"))
    assert (package / "store/sqlite/schema/schema.sql").exists()
