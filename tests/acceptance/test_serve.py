"""`inturn serve`, a real process: a whole workflow, stops and kills in the middle of a turn, and what it was then."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx
import pytest

from inturn import InTurn
from inturn.store import clock
from tests.acceptance.looks import PATIENT
from tests.acceptance.served import Served
from tests.agents.provider import Provider, Request, Wire, serving
from tests.agents.wire import completion
from tests.lanes.workbench import Gate

LEASE_S = 6.0
"""Of a turn whose server is killed: the next one waits for its end. It must not end before that."""
Serve = Callable[..., Served]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    made: list[Served] = []

    def start(*words: str, **environ: str) -> Served:
        made.append(Served(tmp_path, *words, **environ))
        return made[-1]

    yield start
    for served in made:
        served.end()


class Model:
    """An OpenAI-compatible endpoint that collects `name=…`, and waits where the test says so."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.gate: Gate | None = None
        provider.script = self._answer

    @property
    def environ(self) -> dict[str, str]:
        return {
            "INTURN_AGENT": "openai", "INTURN_OPENAI_MODEL": "m", "INTURN_OPENAI_BASE_URL": f"{self.provider.url}/v1",
        }  # fmt: skip

    async def _answer(self, request: Request, wire: Wire) -> None:
        gate, self.gate = self.gate, None
        await wire.head(200, content_type="text/event-stream")
        if gate is not None:
            await gate.pass_through()
        reply = {"reply": "Noted.", "data": {"name": "Ada"}, "nextAction": "ask"}
        await wire.chunk(completion(json.dumps(reply)))
        await wire.end()


@pytest.fixture
async def model() -> AsyncIterator[Model]:
    async with serving() as provider:
        yield Model(provider)


async def start(client: httpx.AsyncClient) -> str:
    answer = await client.post("/api/v1/workflows")
    assert answer.status_code == 201, answer.text
    return str(answer.headers["location"])


async def test_a_person_walks_through_the_shipped_workflow(serve: Serve) -> None:
    served = serve()
    assert "store sqlite:///inturn.db" in served.line
    assert "agent offline" in served.line
    assert 'no API keys: serves this machine only, as user "local"' in served.line
    async with served.client() as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert (await client.get("/readyz")).status_code == 200
        assert "text/html" in (await client.get("/")).headers["content-type"]
        path = await start(client)
        for said in (
            "I am Ada Lovelace, ada@example.com",
            "It is about the Website, category: Error or crash",
            "The page stays white after I log in",
            "Nobody can work, since 2026-01-15, 12 people are affected",
            "By e-mail, and yes, I agree",
        ):
            answer = await client.post(f"{path}/turns", json={"text": said})
            assert answer.status_code == 200, answer.text
        view = (await client.get(path)).json()
        for _ in range(12):  # whatever it still asks for
            if view["workflow_state"]["status"] == "completed":
                break
            state = view["workflow_state"]
            said = state["choices"][0] if state["choices"] else "yes"
            assert (await client.post(f"{path}/turns", json={"text": said})).status_code == 200
            view = (await client.get(path)).json()
        assert view["workflow_state"]["status"] == "completed"
        assert view["progress"]["percent_complete"] == 100
        assert view["workflow_state"]["collected_data"]["email"] == "ada@example.com"
    assert served.terminate() == 0
    assert "Traceback" not in served.logged()


async def test_events_are_streamed_over_a_real_connection(serve: Serve) -> None:
    async with serve().client() as client:
        path = await start(client)
        async with client.stream("POST", f"{path}/turns/stream", json={"text": "I am Ada"}) as stream:
            assert stream.status_code == 200
            names = [line.removeprefix("event: ") async for line in stream.aiter_lines() if line.startswith("event: ")]
        assert names[-1] == "response"
        assert set(names[:-1]) <= {"typing", "token"}


async def test_a_visitor_is_answered_by_its_worker_and_sees_it_as_it_happens(serve: Serve) -> None:
    served = serve()
    async with served.client() as client:
        await client.put("/api/v1/projects/p/ai", json={"enabled": True})
        body = {"conversation_id": "c", "project_id": "p", "message_id": "m", "text": "What are your opening hours?"}
        assert (await client.post("/api/v1/visitors/v/messages", json=body)).status_code == 202
        async with client.stream("GET", "/api/v1/conversations/c/events", params={"after": 0}) as stream:
            lines = stream.aiter_lines()
            async for line in lines:
                if line == "event: answer":
                    break
            # the stream goes on; the server ends it when it stops
            assert await asyncio.to_thread(served.terminate) == 0
            rest = [line async for line in lines]
        assert any("Monday" in line for line in rest)


async def test_on_sigterm_a_running_turn_finishes(serve: Serve, model: Model) -> None:
    served = serve(**model.environ)
    gate = model.gate = Gate()
    async with served.client() as client:
        path = await start(client)
        turn = asyncio.create_task(client.post(f"{path}/turns", json={"text": "name=Ada"}))
        await gate.reached.wait()
        stopped = asyncio.create_task(asyncio.to_thread(served.terminate))
        await until_deaf(served)
        gate.opened.set()
        answer = await turn
        assert (answer.status_code, answer.json()["workflow_state"]["collected_data"]) == (200, {"name": "Ada"})
        assert await stopped == 0
    served = serve(**model.environ)
    async with served.client() as client:
        assert (await client.get(path)).json()["workflow_state"]["turn_count"] == 1


async def test_on_sigterm_a_streamed_turn_finishes_though_its_client_has_left(serve: Serve, model: Model) -> None:
    served = serve(**model.environ)
    gate = model.gate = Gate()
    async with served.client() as client:
        path = await start(client)
        body = {"text": "name=Ada", "message_id": "m"}
        turn = asyncio.create_task(client.post(f"{path}/turns/stream", json=body))
        await gate.reached.wait()
        turn.cancel()
        await asyncio.wait({turn})
    stopped = asyncio.create_task(asyncio.to_thread(served.terminate))
    gate.opened.set()
    assert await stopped == 0
    async with serve(**model.environ).client() as client:
        again = await client.post(f"{path}/turns", json=body)
        assert again.json()["turn_meta"]["turn_number"] == 1
    assert len(model.provider.requests) == 1


async def test_a_turn_that_does_not_finish_in_its_grace_is_cut_off(serve: Serve, model: Model) -> None:
    served = serve("--grace", "0.5", **model.environ)
    gate = model.gate = Gate()
    async with served.client() as client:
        path = await start(client)
        turn = asyncio.create_task(client.post(f"{path}/turns", json={"text": "name=Ada"}))
        await gate.reached.wait()
        assert await asyncio.to_thread(served.terminate) == 0
        cut_off = await turn
        assert (cut_off.status_code, cut_off.json()["code"]) == (503, "outcome-unknown")
    async with serve(**model.environ).client() as client:
        assert (await client.get(path)).json()["workflow_state"]["turn_count"] == 0
        assert (await client.post(f"{path}/turns", json={"text": "name=Ada"})).status_code == 200


@pytest.mark.parametrize("is_forced", [False, True], ids=["when the grace is over", "by a second Ctrl-C"])
async def test_everybody_is_told_when_it_stops_and_nothing_is_logged_as_a_fault(
    serve: Serve, tmp_path: Path, is_forced: bool
) -> None:
    """Turns that are streamed or not, an event stream, and a body that is half there."""
    served = serve("--grace", "60" if is_forced else "0.5", INTURN_OFFLINE_PACE="3")
    async with served.client() as client:
        paths = [await start(client) for _ in range(3)]
        await client.put("/api/v1/projects/p/ai", json={"enabled": True})
        message = {"conversation_id": "c", "project_id": "p", "message_id": "m", "text": "hello"}
        assert (await client.post("/api/v1/visitors/v/messages", json=message)).status_code == 202
        half, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]))
        writer.write(b"POST /api/v1/workflows HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{")
        async with (
            client.stream("GET", "/api/v1/conversations/c/events") as events,
            client.stream("POST", f"{paths[0]}/turns/stream", json={"text": "I am Ada"}) as stream,
        ):
            assert (events.status_code, stream.status_code) == (200, 200)
            key = {"idempotency-key": "k"}
            turns = [
                asyncio.create_task(client.post(f"{path}/turns", json={"text": "I am Ada"}, headers=headers))
                for path, headers in zip(paths[1:], ({}, key), strict=True)
            ]
            await until_running(tmp_path, 5)  # the three turns, the one of the key, and the visitor's
            served.process.send_signal(signal.SIGINT)
            if is_forced:
                await until_deaf(served)
                served.process.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(served.process.wait, 40) == 0
            await events.aread()
            told = (await stream.aread()).decode()
        assert told.count("event: problem") == 1
        assert '"code": "outcome-unknown"' in told.rpartition("event: problem")[2]
        assert b'"code": "outcome-unknown"' in await half.read()
        writer.close()
        for answer in await asyncio.gather(*turns):
            assert (answer.status_code, answer.json()["code"]) == (503, "outcome-unknown")
            assert answer.headers["retry-after"] == "5"
    assert "Traceback" not in served.logged()
    assert "ERROR" not in served.logged()


async def until_running(folder: Path, lanes: int) -> None:
    async with asyncio.timeout(40), InTurn(f"sqlite:///{folder / 'inturn.db'}", settings=PATIENT) as app:
        while sum(lane.status == "running" for lane in await app.lanes.list()) < lanes:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.02)


async def until_deaf(served: Served) -> None:
    """Until nobody new is let in: it has begun to stop."""
    async with asyncio.timeout(40), served.client() as client:
        while True:
            try:
                await client.get("/healthz", headers={"connection": "close"})
            except httpx.TransportError:
                return
            await asyncio.sleep(0.02)


async def test_a_head_without_end_costs_no_memory(serve: Serve) -> None:
    port = int(serve().url.rpartition(":")[2])
    with pytest.raises(OSError, match=r"reset|pipe|lost"):
        async with asyncio.timeout(60):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n")
            for number in range(2000):
                writer.write(b"x-%d: " % number + b"a" * 100_000 + b"\r\n")
                await writer.drain()


async def test_a_restart_in_the_middle_of_a_workflow_goes_on(serve: Serve) -> None:
    served = serve()
    async with served.client() as client:
        path = await start(client)
        await client.post(f"{path}/turns", json={"text": "I am Ada, ada@example.com"})
        before = (await client.get(path)).json()["workflow_state"]
        assert before["collected_data"]["email"] == "ada@example.com"
    served.terminate()
    async with serve().client() as client:
        assert (await client.get(path)).json()["workflow_state"] == before
        answer = await client.post(f"{path}/turns", json={"text": "Website"})
        after = answer.json()["workflow_state"]
        assert (after["turn_count"], after["collected_data"]["product"]) == (2, "Website")
        assert after["collected_data"]["email"] == "ada@example.com"


async def test_after_kill_9_in_the_middle_of_a_turn_that_turn_never_happened(serve: Serve, model: Model) -> None:
    served = serve(INTURN_TURN_LEASE=str(LEASE_S), **model.environ)
    gate = model.gate = Gate()
    body = {"text": "name=Ada", "message_id": "m"}
    async with served.client() as client:
        path = await start(client)
        turn = asyncio.create_task(client.post(f"{path}/turns", json=body))
        await gate.reached.wait()
        served.kill()
        with pytest.raises(httpx.TransportError):
            await turn
    killed_at = clock.now()
    gate.opened.set()
    async with serve(**model.environ).client() as client:
        assert (await client.get(path)).json()["workflow_state"]["turn_count"] == 0
        statuses: list[int] = []
        while 200 not in statuses:
            assert clock.now() < killed_at + 60, statuses
            answer = await client.post(f"{path}/turns", json=body)
            statuses.append(answer.status_code)
            await asyncio.sleep(0.05)
        assert set(statuses) <= {200, 409}
        assert answer.json()["turn_meta"]["turn_number"] == 1
