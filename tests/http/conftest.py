"""Apps on both stores, and a shop behind the middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from inturn import InTurn
from inturn.http import IdempotencyMiddleware
from inturn.settings import Settings
from tests.conftest import PATIENT_S
from tests.http.calls import Shop
from tests.http.site import KEYS, Site, opened

MakeTurns = Callable[..., InTurn]


@pytest.fixture
async def make_turns(namespace: str) -> AsyncIterator[MakeTurns]:
    apps: list[InTurn] = []

    def make(url: str, **settings: Any) -> InTurn:
        patient = {"store_timeout": PATIENT_S, **settings}
        apps.append(InTurn(url, namespace=namespace, settings=Settings(**patient)))
        return apps[-1]

    yield make
    for app in apps:
        await app.close()


@pytest.fixture
async def turns(make_turns: MakeTurns, store_url: str) -> InTurn:
    return make_turns(store_url)


@pytest.fixture
async def other_turns(make_turns: MakeTurns, store_url: str) -> InTurn:
    """Another process, as far as the store can tell."""
    return make_turns(store_url)


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
async def guarded(shop: Shop, turns: InTurn) -> IdempotencyMiddleware:
    return IdempotencyMiddleware(shop, turns)


@pytest.fixture
async def site(sqlite_url: str, namespace: str) -> AsyncIterator[Site]:
    async with opened(sqlite_url, namespace) as made:
        yield made


@pytest.fixture
async def keyed_site(sqlite_url: str, namespace: str) -> AsyncIterator[Site]:
    async with opened(sqlite_url, namespace, api_keys=KEYS) as made:
        yield made
