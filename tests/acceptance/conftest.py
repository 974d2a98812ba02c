"""Processes of a test's own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.processes import Troupe


@pytest.fixture
def troupe() -> Iterator[Troupe]:
    made = Troupe()
    yield made
    made.end()
