"""FastAPI on uvicorn, in processes of their own, over both stores, with a client that repeats itself."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from inturn.store import clock
from tests.acceptance.processes import Child
from tests.connections import NEW_EACH_TIME
from tests.servers import PrivateRedis

ORDER = {"item": "tea"}
HELD = {"item": "tea", "hold": True}
TTL_S = 60.0
"""Nobody is taken for dead who only gets the processor late."""
SHORT_TTL_S = 5.0
"""Short enough to wait for after a kill."""


class Pair:
    """Two server processes on one store."""

    def __init__(self, url: str, folder: Path, ttl_s: float) -> None:
        self.folder = folder
        self._command = ["tests.http.shop_server", url, f"test-{uuid.uuid4().hex[:12]}", str(folder), str(ttl_s)]
        self._children: list[Child] = []
        self._urls: list[str] = []

    def running(self) -> list[tuple[Child, str]]:
        """Both, each with its URL."""
        while len(self._children) < 2:
            self._children.append(Child(*self._command))
        for child in self._children[len(self._urls) :]:
            self._urls.append(f"http://127.0.0.1:{child.hears('port')['port']}")
        return list(zip(self._children, self._urls, strict=True))

    def end(self) -> None:
        for child in self._children:
            child.end()


class Served:
    def __init__(self, children: list[Child], clients: list[httpx.AsyncClient], folder: Path) -> None:
        self.children = children
        self.clients = clients
        self._folder = folder

    def runs(self) -> list[str]:
        file = self._folder / "runs"
        return file.read_text().split() if file.exists() else []

    def open(self) -> None:
        (self._folder / "opened").touch()

    async def until_runs(self, count: int) -> None:
        ends_at = clock.now() + 30
        while len(self.runs()) < count:
            assert clock.now() < ends_at, f"these ran: {self.runs()}"
            await asyncio.sleep(0.005)


@pytest.fixture(scope="module", params=["sqlite", "redis"])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, redis_server: PrivateRedis
) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("shop")
    pair = Pair(redis_server.url if request.param == "redis" else f"sqlite:///{folder / 'inturn.db'}", folder, TTL_S)
    yield pair
    pair.end()


@asynccontextmanager
async def known_to(pair: Pair, namespace: str) -> AsyncIterator[Served]:
    """The two servers, for a caller that they have never seen: keys are scoped by caller."""
    for name in ("runs", "opened"):
        (pair.folder / name).unlink(missing_ok=True)
    running = await asyncio.to_thread(pair.running)
    async with AsyncExitStack() as stack:
        headers = {"authorization": f"Bearer {namespace}"}
        clients = [
            await stack.enter_async_context(
                httpx.AsyncClient(base_url=url, headers=headers, timeout=30, limits=NEW_EACH_TIME)
            )
            for _, url in running
        ]
        yield Served([child for child, _ in running], clients, pair.folder)


@pytest.fixture
async def served(pair: Pair, namespace: str) -> AsyncIterator[Served]:
    async with known_to(pair, namespace) as made:
        yield made


@pytest.fixture
async def short_lived(store_url: str, tmp_path: Path, namespace: str) -> AsyncIterator[Served]:
    """Two servers for one test, to be killed."""
    pair = Pair(store_url, tmp_path, SHORT_TTL_S)
    try:
        async with known_to(pair, namespace) as made:
            yield made
    finally:
        await asyncio.to_thread(pair.end)


def keyed(key: str = "k") -> dict[str, str]:
    return {"idempotency-key": f'"{key}"'}


async def test_a_repeat_at_another_server_gets_the_first_response(served: Served) -> None:
    here, there = served.clients
    first = await here.post("/orders", json=ORDER, headers=keyed())
    again = await there.post("/orders", json=ORDER, headers=keyed())
    assert (first.status_code, first.json()["item"]) == (201, "tea")
    assert (again.status_code, again.content) == (201, first.content)
    for name in ("location", "content-type", "content-length", "x-stamp"):
        assert again.headers[name] == first.headers[name]
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    assert served.runs() == ["order"]


async def test_refusals_are_problems_that_say_what_to_do(served: Served) -> None:
    here, there = served.clients
    await here.post("/orders", json=ORDER, headers=keyed())
    missing = await here.post("/orders", json=ORDER)
    other = await there.post("/orders", json={"item": "coffee"}, headers=keyed())
    large = await there.post("/orders", content=b"x" * (1024 * 1024 + 1), headers=keyed("large"))
    twice = await here.post("/orders", json=ORDER, headers=[("idempotency-key", "a"), ("idempotency-key", "b")])
    for answer, status in ((missing, 400), (other, 422), (large, 413), (twice, 400)):
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == status
        assert answer.json()["detail"]
    assert (await here.get("/orders")).status_code == 405
    assert served.runs() == ["order"]


async def test_while_one_server_runs_it_the_other_answers_409(served: Served) -> None:
    here, there = served.clients
    first = asyncio.create_task(here.post("/orders", json=HELD, headers=keyed()))
    await served.until_runs(1)
    early = await there.post("/orders", json=HELD, headers=keyed())
    assert (early.status_code, early.headers["retry-after"]) == (409, "1")
    assert (await there.post("/orders", json=ORDER, headers=keyed())).status_code == 422
    served.open()
    assert (await there.post("/orders", json=HELD, headers=keyed())).status_code in (201, 409)
    done = await first
    assert (await there.post("/orders", json=HELD, headers=keyed())).content == done.content
    assert served.runs() == ["order"]


async def test_of_fifty_equal_requests_to_two_servers_one_runs(served: Served) -> None:
    async def until_done(client: httpx.AsyncClient) -> httpx.Response:
        while True:
            answer = await client.post("/orders", json=ORDER, headers=keyed())
            if answer.status_code == 201:
                return answer
            assert answer.status_code == 409
            await asyncio.sleep(0.01)

    answers = await asyncio.gather(*(until_done(served.clients[number % 2]) for number in range(50)))
    assert len({answer.content for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert served.runs() == ["order"]


async def test_after_kill_9_in_the_middle_a_repeat_runs_once(short_lived: Served) -> None:
    here, there = short_lived.clients
    first = asyncio.create_task(here.post("/orders", json=HELD, headers=keyed()))
    await short_lived.until_runs(1)
    short_lived.children[0].kill()
    with pytest.raises(httpx.TransportError):
        await first
    short_lived.open()
    statuses: list[int] = []
    ends_at = clock.now() + 30
    while 201 not in statuses:
        assert clock.now() < ends_at, statuses
        statuses.append((await there.post("/orders", json=HELD, headers=keyed())).status_code)
        await asyncio.sleep(0.02)
    assert set(statuses) <= {201, 409}
    again = await there.post("/orders", json=HELD, headers=keyed())
    assert again.json()["number"] == 2
    assert short_lived.runs() == ["order", "order"]


async def test_a_client_that_gave_up_gets_the_response_when_it_comes_back(served: Served) -> None:
    here, there = served.clients
    asking = asyncio.create_task(here.post("/orders", json=HELD, headers=keyed()))
    await served.until_runs(1)  # a server that gets the processor late is not left before it has read the request
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    served.open()
    answer: Any = None
    ends_at = clock.now() + 30
    while answer is None or answer.status_code == 409:
        assert clock.now() < ends_at
        answer = await there.post("/orders", json=HELD, headers=keyed())
        await asyncio.sleep(0.02)
    assert (answer.status_code, answer.headers["idempotency-replayed"]) == (201, "true")
    assert served.runs() == ["order"]


async def test_a_failed_request_runs_again(served: Served) -> None:
    here, there = served.clients
    assert (await here.post("/flaky", headers=keyed())).status_code == 500
    assert (await there.post("/flaky", headers=keyed())).json() == {"number": 2}
    assert (await here.post("/flaky", headers=keyed())).json() == {"number": 2}
    assert served.runs() == ["flaky", "flaky"]


async def test_plain_functions_and_background_tasks_work_as_before(served: Served) -> None:
    here, there = served.clients
    assert (await here.post("/plainly", json=ORDER, headers=keyed())).json() == {"number": 1}
    assert (await there.post("/plainly", json=ORDER, headers=keyed())).json() == {"number": 1}
    assert (await here.post("/later", headers=keyed("l"))).json() == {"number": 2}
    await served.until_runs(3)
    assert (await there.post("/later", headers=keyed("l"))).json() == {"number": 2}
    assert served.runs() == ["plainly", "later", "behind"]


async def test_server_sent_events_arrive_as_they_come_and_are_not_replayed(served: Served) -> None:
    here, there = served.clients
    async with here.stream("POST", "/stream", headers=keyed()) as stream:
        assert stream.headers["idempotency-kept"] == "false"
        pieces = stream.aiter_text()
        assert await anext(pieces) == "data: 1\n\n"
        again = await there.post("/stream", headers=keyed())
        assert (again.status_code, again.json()["type"]) == (422, "urn:inturn:problem:not-replayable")
        served.open()
        assert await anext(pieces) == "data: 2\n\n"
    assert served.runs() == ["stream"]
