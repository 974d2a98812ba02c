"""The Tasks service in both of its shapes, as real processes: split over three, or embedded in one.

A `Desk` is what a test works with: it writes tickets, posts them, forges call-backs, and closes the books.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from inturn.http.signatures import Secrets, new_secret, sign
from tests.acceptance.tasks_books import Row, check_books, rows
from tests.acceptance.tasks_provider import Plan, Provider
from tests.connections import NEW_EACH_TIME
from tests.servers import Broker, PrivatePostgres, PrivateRedis
from tests.split import ADMIN, TENANT, Part, Split
from tests.tasks.world import wide_window
from tests.waiting import until

USERS = [f"user{number}" for number in range(120)]
WINDOW_S = wide_window()
PATIENT = {
    "INTURN_STORE_TIMEOUT": "30", "INTURN_RABBITMQ_TIMEOUT": "30", "INTURN_DATABASE_TIMEOUT": "60",
    "INTURN_AGENT_TIMEOUT": "300", "INTURN_AI_SERVICE_TIMEOUT": "60", "INTURN_TOKEN_WINDOW": str(WINDOW_S),
}  # fmt: skip
"""A server that gets the processor late is not away, and midnight is no edge."""
SOON_S = 120.0
"""A call-back that found nobody waits for as long again as it has waited so far."""


@dataclass
class Shape:
    """`accepted`: by request, what `check_books` expects. It grows from test to test: the books are closed over all."""

    url: str
    secret: str
    keys: dict[str, str]
    provider: Provider
    database_url: str
    split: Split | None = None
    embedded: Part | None = None
    accepted: dict[str, int | None] = field(default_factory=dict)
    unused: list[str] = field(default_factory=lambda: list(USERS))


def _agent(provider: Provider) -> dict[str, str]:
    return {
        "INTURN_AGENT": "openai", "OPENAI_BASE_URL": provider.url, "INTURN_OPENAI_MODEL": "test-model",
        "INTURN_OPENAI_API_KEY": "a-key-of-the-tests",
    }  # fmt: skip


@contextmanager
def split_shape(request: pytest.FixtureRequest) -> Iterator[Shape]:
    """Processes of its own, on servers that the run shares: nobody kills those."""
    broker: Broker = request.getfixturevalue("broker")
    redis: PrivateRedis = request.getfixturevalue("redis_server")
    postgres: PrivatePostgres = request.getfixturevalue("postgres_server")
    name = f"tasks_{uuid.uuid4().hex[:12]}"
    with ExitStack() as stack:
        broker.add_vhost(name)
        stack.callback(broker.delete_vhost, name)
        postgres.create_database(name)
        stack.callback(postgres.drop_database, name)
        servers = {"redis_url": redis.url, "rabbitmq_url": broker.url_of(name), "database_url": postgres.url_of(name)}
        yield stack.enter_context(_split(servers, {"INTURN_NAMESPACE": name}))


@contextmanager
def _split(servers: dict[str, Any], environ: dict[str, str]) -> Iterator[Shape]:
    with (
        Provider() as provider,
        Split(users=USERS, environ=PATIENT | _agent(provider) | environ, **servers) as split,
    ):
        yield Shape(split.url, split.secret, split.keys, provider, split.database_url, split=split)


def whole_split() -> AbstractContextManager[Shape]:
    """With servers of its own, to be killed."""
    return _split({}, {})


@contextmanager
def embedded_shape() -> Iterator[Shape]:
    """The default: one process, two SQLite files in its folder, no broker."""
    secret, keys = new_secret(), {user: f"{user}-{uuid.uuid4().hex}" for user in (*USERS, ADMIN)}
    told = [f"{key}:{user}:{TENANT}{':admin' if user == ADMIN else ''}" for user, key in keys.items()]
    with tempfile.TemporaryDirectory(prefix="inturn-embedded-") as folder, Provider() as provider:
        environ = {"INTURN_API_KEYS": ",".join(told), "INTURN_WEBHOOK_SECRETS": secret, **PATIENT, **_agent(provider)}
        part = Part("serve", Path(folder), ["serve", "--port", "0", "--grace", "5"], "inturn serves", environ)
        part.start()
        try:
            shape = Shape("", secret, keys, provider, f"sqlite:///{folder}/inturn-tasks.db", embedded=part)
            shape.url = url_of(part)
            yield shape
        finally:
            part.stop()


def url_of(part: Part) -> str:
    """Where it listens since its last start."""
    return part.log.rpartition("inturn serves ")[2].split()[0]


_KEPT = pytest.StashKey[dict[str, Shape]]()


def shared_shape(request: pytest.FixtureRequest, kind: str) -> Shape:
    """One of each kind, `split` or `embedded`, for all tests of this process: starting one takes seconds."""
    kept = request.config.stash.setdefault(_KEPT, {})
    if kind not in kept:
        stack = ExitStack()
        kept[kind] = stack.enter_context(split_shape(request) if kind == "split" else embedded_shape())
        request.session.addfinalizer(stack.close)  # before its servers end: they were there first
    return kept[kind]


@dataclass
class Waiting:
    """A request whose job the provider holds."""

    ticket: str
    user: str
    request_id: str
    hold_id: str
    job_id: str


@dataclass
class Desk:
    shape: Shape
    client: httpx.AsyncClient
    tickets: list[str] = field(default_factory=list)

    def user(self) -> str:
        """One that no other test has."""
        return self.shape.unused.pop()

    def ticket(self, *, tokens: int = 120, kind: str = "task", is_held: bool = False) -> str:
        made = f"t{uuid.uuid4().hex[:8]}"
        plan = self.shape.provider.plans[made] = Plan(tokens, kind)
        if not is_held:
            plan.go.set()
        self.tickets.append(made)
        return made

    def let_go(self, *tickets: str) -> None:
        for ticket in tickets or self.tickets:
            self.shape.provider.plans[ticket].go.set()

    def headers(self, user: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.shape.keys[user]}"}

    async def post(self, ticket: str, user: str, key: str | None = None) -> httpx.Response:
        """What is accepted is in the books from now on."""
        headers = self.headers(user) | ({"idempotency-key": key} if key else {})
        body = {"natural_language": f"Pay the bill of ticket {ticket} by Friday"}
        response = await self.client.post("/api/v1/tasks", json=body, headers=headers)
        if response.status_code == 202:
            plan = self.shape.provider.plans[ticket]
            request_id = response.json()["tasks_service_request_id"]
            self.shape.accepted.setdefault(request_id, plan.tokens if plan.kind == "task" else None)
        return response

    async def accepted(self, ticket: str, user: str, key: str | None = None) -> str:
        response = await self.post(ticket, user, key)
        assert response.status_code == 202, response.text
        request_id: str = response.json()["tasks_service_request_id"]
        return request_id

    async def repeated(self, ticket: str, user: str, key: str) -> str:
        """As a client repeats: for as long as it is told that the first request may still be running."""
        last: list[httpx.Response] = []

        async def is_taken() -> bool:
            last[:] = [await self.post(ticket, user, key)]
            return last[0].status_code != 409

        await until(is_taken, SOON_S, "the key is free", pause_s=0.2)
        assert last[0].status_code == 202, last[0].text
        request_id: str = last[0].json()["tasks_service_request_id"]
        return request_id

    async def waiting(self, user: str, *, tokens: int = 120) -> Waiting:
        """A request that only the test ends, until it lets go of the ticket."""
        ticket = self.ticket(tokens=tokens, is_held=True)
        request_id = await self.accepted(ticket, user)
        (row,) = await self.rows(f"SELECT * FROM task_requests WHERE id = '{request_id}'")
        return Waiting(ticket, user, request_id, row["hold_id"], row["ai_service_request_id"])

    async def until_asked(self, *tickets: str) -> None:
        asked = self.shape.provider.asked
        await until(lambda: all(asked[ticket] for ticket in tickets), SOON_S, f"the provider is asked for {tickets}")

    async def request(self, request_id: str, user: str) -> dict[str, Any]:
        response = await self.client.get(f"/api/v1/requests/{request_id}", headers=self.headers(user))
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def budget(self, user: str) -> dict[str, int]:
        response = await self.client.get("/api/v1/budget", headers=self.headers(user))
        assert response.status_code == 200, response.text
        found: dict[str, int] = response.json()
        return found

    async def set_limit(self, user: str, tokens: int) -> None:
        path, body = f"/api/v1/admin/budgets/{TENANT}/{user}", {"tokens": tokens}
        response = await self.client.put(path, json=body, headers=self.headers(ADMIN))
        assert response.status_code == 200, response.text

    async def call_back(
        self, content: dict[str, Any], webhook_id: str, *, secret: str = "", at: float | None = None
    ) -> httpx.Response:
        """Signed by the test, with the secret of the shape unless another is given."""
        body = json.dumps(content).encode()
        proof = sign(Secrets([secret or self.shape.secret]), webhook_id, int(at or time.time()), body)
        return await self.send(body, proof)

    async def send(self, body: bytes, proof: dict[str, str]) -> httpx.Response:
        headers = {"content-type": "application/json", **proof}
        return await self.client.post("/api/v1/webhooks", content=body, headers=headers)

    async def rows(self, statement: str) -> list[Row]:
        return await rows(self.shape.database_url, statement)

    async def count(self, table: str) -> int:
        (row,) = await self.rows(f"SELECT count(*) AS found FROM {table}")
        return int(row["found"])

    async def close_books(self, within_s: float = SOON_S) -> None:
        """Lets go of everything, waits until every job has called back, and checks all that is written down."""
        self.let_go()

        async def all_are_told() -> bool:
            told = {row["id"] for row in await self.rows("SELECT id FROM received_webhooks")}
            found = await self.rows("SELECT id, ai_service_request_id FROM task_requests")
            jobs = {row["id"]: f"{row['ai_service_request_id']}-1" for row in found}
            return all(jobs.get(request_id) in told for request_id in self.shape.accepted)

        await until(all_are_told, within_s, "every accepted job has called back", pause_s=0.05)
        await check_books(self.shape.database_url, self.shape.accepted)


@asynccontextmanager
async def desk_of(shape: Shape) -> AsyncIterator[Desk]:
    async with httpx.AsyncClient(base_url=shape.url, timeout=SOON_S, trust_env=False, limits=NEW_EACH_TIME) as client:
        desk = Desk(shape, client)
        try:
            yield desk
        finally:
            desk.let_go()


async def in_thread(work: Any, *given: Any, **named: Any) -> None:
    """What waits for a process must not keep the event loop from going on."""
    await asyncio.to_thread(work, *given, **named)
