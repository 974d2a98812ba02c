"""Responders on both stores, or in memory. Two apps are two processes as far as the store can tell."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from inturn import InTurn
from inturn.testing import app_for_tests
from inturn.visitors.responder import VisitorResponder
from tests.conftest import MakeApp
from tests.visitors.world import Recorder, set_up


@pytest.fixture(autouse=True)
def every_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "inturn")


@pytest.fixture
async def agent() -> Recorder:
    return Recorder()


@pytest.fixture
async def app() -> AsyncIterator[InTurn]:
    """In memory."""
    async with app_for_tests() as app:
        yield app


@pytest.fixture
async def front(make_app: MakeApp, agent: Recorder) -> VisitorResponder:
    """Serves; another process works."""
    responder = VisitorResponder(make_app(), agent)
    await set_up(responder, "c1", "c2")
    return responder


@pytest.fixture
async def back(make_app: MakeApp, agent: Recorder) -> VisitorResponder:
    return VisitorResponder(make_app(), agent)
