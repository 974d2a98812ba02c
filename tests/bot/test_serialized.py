"""Celery tasks in lanes: real prefork workers, on a real Redis and on a real RabbitMQ."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from celery.app.task import Context
from celery.app.trace import build_tracer
from celery.signals import worker_process_shutdown

from inturn.bot import serialized as serialized_module
from inturn.bot.serialized import revoke, serialized
from inturn.errors import (
    ArgumentError,
    ArgumentTypeError,
    BadMessage,
    HandlerTimeout,
    LaneBusy,
    LaneTimeout,
    LeaseLost,
    OwnLane,
)
from inturn.lanes.runtime import this_turn
from inturn.sync import InTurn
from tests.acceptance.looks import PATIENT
from tests.bot import celery_tasks
from tests.bot.celery_tasks import FACTS, TTL_S
from tests.bot.patience import CONNECT_S, SOON_AGAIN
from tests.servers import Broker, PrivateRedis, free_port
from tests.waiting import wait_until

WITHIN_S = 150.0
ROOT = Path(__file__).parents[2]
WORKER = ["-A", "tests.bot.celery_tasks", "worker", "--pool=prefork", "--loglevel=INFO", "--max-tasks-per-child=6"]
APART = ["--without-gossip", "--without-mingle", "--without-heartbeat"]


class Site:
    """A worker with its broker, a Redis for the lanes, the results and the facts, and a second Redis that is down."""

    def __init__(
        self,
        broker_url: str,
        server: PrivateRedis,
        second: PrivateRedis,
        folder: Path,
        children: int,
        redis_options: dict[str, int],
    ) -> None:
        self.server, self.second = server, second
        self._children = children
        self._log = folder / "worker.log"
        options = redis_options if broker_url.startswith("redis") else {"confirm_publish": True}
        self._environ = {
            "TEST_BROKER": broker_url, "TEST_RESULTS": server.url, "TEST_FACTS": server.url, "INTURN_URL": server.url,
            "TEST_OTHER_STORE": second.url, "TEST_OPTIONS": json.dumps(options), "PYTHONWARNINGS": "ignore",
            "INTURN_STORE_TIMEOUT": "15",  # a store that stands still is not away: its answer may be a commit
        }  # fmt: skip
        self._facts = redis.Redis.from_url(server.url, decode_responses=True, socket_timeout=WITHIN_S)
        self.celery = Celery("sender", broker=broker_url, backend=server.url)
        self.celery.conf.update(broker_transport_options=options, broker_connection_timeout=CONNECT_S)
        self.worker = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "celery", *WORKER, f"--concurrency={self._children}", *APART],
                cwd=ROOT, env={**os.environ, **self._environ}, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def restart(self) -> None:
        self.worker.terminate()
        assert self.worker.wait(WITHIN_S) == 0
        self.worker = self._start()

    def close(self) -> None:
        self._facts.close()
        self.celery.close()
        os.killpg(self.worker.pid, signal.SIGKILL)  # a warm shutdown takes Celery three seconds
        self.worker.wait()

    def send(self, name: str, *args: Any, task_id: str | None = None, **kwargs: Any) -> Any:
        return self.celery.send_task(f"tests.bot.celery_tasks.{name}", args, kwargs, task_id=task_id)

    def tell(self, what: str, subject: str) -> None:
        self._facts.rpush(FACTS, json.dumps({"what": what, "of": subject}))

    def told(self, what: str, subject: object) -> list[dict[str, Any]]:
        facts: Any = self._facts.lrange(FACTS, 0, -1)
        every = [json.loads(fact) for fact in facts]
        return [fact for fact in every if (fact["what"], fact["of"]) == (what, subject)]

    def wait_for(self, what: str, subject: object, count: int = 1) -> list[dict[str, Any]]:
        self._wait_until(lambda: len(self.told(what, subject)) >= count, f"{subject} {what} {count} times")
        return self.told(what, subject)

    def wait_for_state(self, state: str, subject: str, count: int = 1) -> None:
        def are_there() -> bool:
            return [fact["state"] for fact in self.told("handled", subject)].count(state) >= count

        self._wait_until(are_there, f"{subject} {state} {count} times")

    def _wait_until(self, is_so: Callable[[], object], what: str) -> None:
        try:
            wait_until(is_so, WITHIN_S, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._log.read_text()[-4000:]}") from None


@contextmanager
def site(
    broker_url: str | None, folder: Path, children: int, redis_options: dict[str, int] | None = None
) -> Iterator[Site]:
    with PrivateRedis() as server, PrivateRedis() as second:
        second.kill()
        made = Site(broker_url or server.url, server, second, folder, children, redis_options or {})
        try:
            yield made
        finally:
            made.close()


@pytest.fixture(scope="module")
def on_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(None, tmp_path_factory.mktemp("redis"), children=2) as made:
        yield made


@pytest.fixture(scope="module")
def on_rabbitmq(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    vhost = f"celery-{uuid.uuid4().hex[:12]}"
    broker.add_vhost(vhost)
    try:
        with site(broker.url_of(vhost), tmp_path_factory.mktemp("rabbitmq"), children=2) as made:
            yield made
    finally:
        broker.delete_vhost(vhost)


@pytest.fixture(scope="module")
def with_one_child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(None, tmp_path_factory.mktemp("one"), children=1) as made:
        yield made


@pytest.fixture
def delivered_again(tmp_path: Path) -> Iterator[Site]:
    with site(None, tmp_path, children=2, redis_options=SOON_AGAIN) as made:
        yield made


@pytest.fixture(params=["redis", "rabbitmq"])
def running(request: pytest.FixtureRequest) -> Site:
    made: Site = request.getfixturevalue(f"on_{request.param}")
    return made


@pytest.fixture(autouse=True)
def patient_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the apps that `serialized` and `revoke` make in this process."""
    monkeypatch.setenv("INTURN_STORE_TIMEOUT", "30")


@pytest.fixture
def user() -> str:
    """A user that no other test has."""
    return uuid.uuid4().hex[:12]


@contextmanager
def held(site: Site, user: str) -> Iterator[None]:
    """We hold the lane of this user."""
    with InTurn(site.server.url, settings=PATIENT) as app, app.turn(f"user:{user}", ttl=TTL_S):
        yield


def test_the_tasks_of_a_user_never_overlap_and_none_is_lost(running: Site, user: str) -> None:
    sent = [running.send("count", user_id=user, number=number) for number in range(20)]
    assert [result.get(timeout=WITHIN_S) for result in sent] == list(range(20))
    turns = running.told("turn", user)
    assert len(turns) == 40
    for began, ended in zip(turns[::2], turns[1::2], strict=True):
        assert (began["edge"], ended["edge"], ended["number"]) == ("began", "ended", began["number"])
    assert {turn["number"] for turn in turns} == set(range(20))
    # a child closes its app and ends after six tasks, and the next one takes turns as well
    assert len({turn["pid"] for turn in turns[::2]}) >= 3
    child = turns[0]["pid"]
    for number in range(6):  # one that stood still has had fewer so far; two who meet need both children
        if running.told("child ended", child):
            break
        one, other = f"{user}-{number}", f"{user}-{number}-2"
        meeting = running.send("meet", one, other), running.send("meet", other, one)
        assert all(result.get(timeout=WITHIN_S) for result in meeting)
    assert running.wait_for("child ended", child)[0]["threads"] == []


def test_tasks_of_different_users_run_in_parallel(running: Site, user: str) -> None:
    one, other = running.send("meet", user, f"{user}-2"), running.send("meet", f"{user}-2", user)
    assert one.get(timeout=WITHIN_S) == f"{user} met {user}-2"
    assert other.get(timeout=WITHIN_S) == f"{user}-2 met {user}"


def test_an_id_that_is_sent_twice_runs_once_and_both_get_the_first_result(running: Site, user: str) -> None:
    order = f"order-{user}"
    first = running.send("charge", user, order)
    running.wait_for("began", order)
    while_it_runs = running.send("charge", user_id=user, order_id=order)
    running.wait_for("retried", while_it_runs.id)  # it reports no result before there is one
    assert not while_it_runs.ready()
    running.tell("go", order)
    result = first.get(timeout=WITHIN_S)
    assert while_it_runs.get(timeout=WITHIN_S) == result
    assert running.send("charge", user, order).get(timeout=WITHIN_S) == result
    assert len(running.told("began", order)) == 1


def test_a_task_id_that_is_published_twice_runs_once(running: Site, user: str) -> None:
    task_id = uuid.uuid4().hex
    for _ in range(2):
        running.send("count", user, 7, task_id=task_id)
    running.wait_for_state("SUCCESS", task_id, 2)
    assert len(running.told("turn", user)) == 2
    assert running.celery.AsyncResult(task_id).get(timeout=WITHIN_S) == 7


def test_a_task_waits_for_a_busy_lane_beyond_celerys_limit_and_keeps_its_own_retries(running: Site, user: str) -> None:
    with held(running, user):
        sent = running.send("fail_once", user)
        running.wait_for("retried", sent.id, 4)  # three are Celery's default limit, and one is the task's own
        assert not running.told("began", sent.id)
    assert sent.get(timeout=WITHIN_S) == 1
    assert len(running.told("began", sent.id)) == 2


def test_a_child_that_is_killed_in_the_middle_leaves_the_task_to_run_again(running: Site, user: str) -> None:
    sent = running.send("survive", user)
    first = running.wait_for("began", sent.id)[0]
    os.kill(first["pid"], signal.SIGKILL)
    assert sent.get(timeout=WITHIN_S) == 1
    assert len(running.told("began", sent.id)) == 2
    assert running.told("began", sent.id)[1]["pid"] != first["pid"]


def test_a_task_that_outlasts_the_visibility_timeout_runs_once(delivered_again: Site, user: str) -> None:
    sent = delivered_again.send("outlast", user)
    delivered_again.wait_for_state("SUCCESS", sent.id, 2)  # the first one, and a copy that was put back until then
    assert len(delivered_again.told("began", sent.id)) == len(delivered_again.told("ended", sent.id)) == 1


def test_a_store_that_is_away_loses_no_task(on_rabbitmq: Site, user: str) -> None:
    sent = on_rabbitmq.send("elsewhere", user)
    on_rabbitmq.wait_for("retried", sent.id)
    on_rabbitmq.second.start()
    on_rabbitmq.wait_for("began", sent.id)
    on_rabbitmq.second.kill()  # before the commit
    retried = len(on_rabbitmq.told("retried", sent.id))
    on_rabbitmq.tell("go", f"{sent.id} 1")
    on_rabbitmq.wait_for("retried", sent.id, retried + 1)
    on_rabbitmq.second.start()
    on_rabbitmq.tell("go", f"{sent.id} 2")
    assert sent.get(timeout=WITHIN_S) == 2


def test_a_task_that_waits_for_its_lane_holds_no_worker(with_one_child: Site, user: str) -> None:
    with held(with_one_child, user):
        waiting = with_one_child.send("count", user, 1)
        with_one_child.wait_for("retried", waiting.id)
        assert with_one_child.send("count", f"{user}-2", 2).get(timeout=WITHIN_S) == 2
        assert not with_one_child.told("turn", user)
    assert waiting.get(timeout=WITHIN_S) == 1


def test_a_revoked_task_does_not_run_even_if_every_worker_was_restarted(with_one_child: Site, user: str) -> None:
    with held(with_one_child, user):
        sent, url = with_one_child.send("count", user, 1), with_one_child.server.url
        with_one_child.wait_for("retried", sent.id)
        revoke(sent.id, key=f"user:{user}", url=url)  # it does not wait for the lane
        revoke(sent.id, key=f"user:{user}", url=url)  # a repeat changes nothing
        with_one_child.restart()
    with_one_child.wait_for_state("IGNORED", sent.id)
    assert sent.state == "REVOKED"
    assert with_one_child.send("count", user, 2).get(timeout=WITHIN_S) == 2
    assert {turn["number"] for turn in with_one_child.told("turn", user)} == {2}


@pytest.fixture
def eager() -> Iterator[Celery]:
    app = Celery("eager", set_as_current=False)
    app.conf.update(task_always_eager=True, task_eager_propagates=True)
    with app:
        yield app
    worker_process_shutdown.send(sender=None, pid=0, exitcode=0)
    assert "inturn-sync" not in {thread.name for thread in threading.enumerate()}


def test_in_eager_mode_a_task_waits_for_its_lane(eager: Celery, sqlite_url: str) -> None:
    facts: list[str] = []

    @eager.task  # type: ignore[untyped-decorator]
    @serialized(key="user:{user_id}", url=sqlite_url)
    def remind(user_id: int) -> None:
        facts.append("ran")

    with InTurn(sqlite_url) as app:
        with app.turn("user:1"):
            calling = threading.Thread(target=remind.delay, args=(1,))
            calling.start()
            wait_until(lambda: app.lanes.inspect("user:1").waiting == 1)
            facts.append("released")
        calling.join()
    assert facts == ["released", "ran"]


def test_in_eager_mode_a_task_may_retry_itself(eager: Celery, sqlite_url: str) -> None:
    @eager.task(bind=True, max_retries=2)  # type: ignore[untyped-decorator]
    @serialized(key="user:{user_id}", url=sqlite_url)
    def remind(self: Any, user_id: int) -> int:
        if self.request.retries < 2:
            raise self.retry(countdown=0)
        return int(self.request.retries)

    eager.conf.task_eager_propagates = False
    assert remind.delay(1).get() == 2


def test_a_task_that_cannot_be_put_back_waits_in_its_worker(
    eager: Celery, sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    eager.conf.update(task_always_eager=False, broker_url=f"redis://127.0.0.1:{free_port()}")

    @eager.task(ignore_result=True)  # type: ignore[untyped-decorator]
    @serialized(key="user:{user_id}", url=sqlite_url)
    def remind(user_id: int) -> str:
        return "ran"

    done: list[Any] = []

    def work() -> None:
        """As the child of a worker does."""
        request = {"delivery_info": {"exchange": "", "routing_key": "celery"}}
        done.append(build_tracer(remind.name, remind, app=eager)("id", (1,), {}, request).retval)

    with InTurn(sqlite_url) as app, app.turn("user:1"):
        working = threading.Thread(target=work)
        working.start()
        wait_until(lambda: "waits in its worker, because the broker is away" in caplog.text)
    working.join()
    assert done == ["ran"]


def test_a_task_whose_arguments_came_by_another_serializer_waits_in_its_worker(
    eager: Celery, sqlite_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    eager.conf.update(task_always_eager=False, broker_url="memory://")

    @eager.task(ignore_result=True)  # type: ignore[untyped-decorator]
    @serialized(key="user:{user_id}", url=sqlite_url)
    def remind(user_id: int, texts: set[str]) -> list[str]:
        return sorted(texts)

    done: list[Any] = []

    def work() -> None:
        request = {"delivery_info": {"exchange": "", "routing_key": "celery"}}
        done.append(build_tracer(remind.name, remind, app=eager)("id", (1, {"a", "b"}), {}, request).retval)

    with InTurn(sqlite_url) as app, app.turn("user:1"):
        working = threading.Thread(target=work)
        working.start()
        wait_until(lambda: done or "its arguments need another serializer=" in caplog.text)
    working.join()
    assert done == [["a", "b"]]


def test_a_task_of_a_quorum_queue_is_put_back_for_a_whole_second_at_least(
    eager: Celery, sqlite_url: str, rabbitmq_url: str
) -> None:
    """There RabbitMQ itself holds it back. Celery raises `ValueError` for less than a second: the task would fail."""
    eager.conf.update(
        task_always_eager=False, broker_url=rabbitmq_url, task_default_queue_type="quorum",
        task_default_exchange_type="topic", broker_connection_timeout=CONNECT_S,
    )  # fmt: skip

    @eager.task(ignore_result=True)  # type: ignore[untyped-decorator]
    @serialized(key="user:{user_id}", url=sqlite_url)
    def remind(user_id: int) -> None: ...

    request = {"delivery_info": {"exchange": "celery", "routing_key": "celery"}}
    with InTurn(sqlite_url) as app, app.turn("user:1"):
        done = build_tracer(remind.name, remind, app=eager)("id", (1,), {}, request)
    assert done.info.state == "RETRY", done.info


def test_celery_before_5_7_puts_a_task_back_as_well(
    eager: Celery, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has `None` in place of the headers of a task that was sent without any."""
    eager.conf.update(task_always_eager=False, broker_url="memory://")
    monkeypatch.setattr(Context, "_filter_x_death_headers", lambda self, headers: headers, raising=False)

    @eager.task(ignore_result=True)  # type: ignore[untyped-decorator]
    @serialized(key="user:{user_id}", url=sqlite_url)
    def remind(user_id: int) -> None: ...

    request = {"delivery_info": {"exchange": "", "routing_key": "celery"}}
    with InTurn(sqlite_url) as app, app.turn("user:1"):
        done = build_tracer(remind.name, remind, app=eager)("id", (1,), {}, request)
    assert done.info.state == "RETRY", done.info


def test_a_body_that_raised_is_not_remembered(eager: Celery, sqlite_url: str) -> None:
    runs: list[str] = []

    @eager.task  # type: ignore[untyped-decorator]
    @serialized(key="user:{user_id}", message_id="{order_id}", busy="drop", url=sqlite_url)
    def charge(user_id: int, order_id: str = "o1") -> str:
        runs.append(order_id)
        if len(runs) == 1:
            raise LaneBusy("another", None, 0.0, 0)  # the body's own: it is neither waited for nor dropped
        return f"{order_id} {len(runs)}"

    with pytest.raises(LaneBusy):
        charge.delay(1)
    assert charge.delay(1).get() == charge(user_id=1, order_id="o1") == "o1 2"
    assert charge.delay(2, "o1").get() == "o1 3"  # of another lane
    assert runs == ["o1"] * 3


def test_two_tasks_with_the_same_id_of_their_own_both_run(eager: Celery, sqlite_url: str) -> None:
    ran: list[str] = []

    @eager.task  # type: ignore[untyped-decorator]
    @serialized(key="user:{user_id}", message_id="{order_id}", url=sqlite_url)
    def charge(user_id: int, order_id: str) -> str:
        ran.append("charged")
        return "charged"

    @eager.task  # type: ignore[untyped-decorator]
    @serialized(key="user:{user_id}", message_id="{order_id}", url=sqlite_url)
    def refund(user_id: int, order_id: str) -> str:
        ran.append("refunded")
        return "refunded"

    for _ in range(2):
        assert charge.delay(1, "o-1").get() == "charged"
        assert refund.delay(1, "o-1").get() == "refunded"
    assert ran == ["charged", "refunded"]
    with InTurn(sqlite_url) as app, app.turn("user:1", message_id="o-1"):
        """Somebody else's id."""


def test_the_module_of_a_program_has_the_name_that_its_workers_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/srv/shop/tasks.py", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)

    def charge() -> None: ...

    charge.__qualname__, charge.__module__ = "charge", "__main__"
    assert serialized_module._scope_of(charge) == "tasks.charge"
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name="shop.tasks"))
    assert serialized_module._scope_of(charge) == "shop.tasks.charge"


def test_what_has_no_name_of_its_own_has_that_of_what_it_calls_or_is() -> None:
    class Charge:
        def __call__(self) -> None: ...

    def charge(amount: int) -> None: ...

    here = f"{__name__}.test_what_has_no_name_of_its_own_has_that_of_what_it_calls_or_is.<locals>"
    assert serialized_module._scope_of(partial(charge, 1)) == f"{here}.charge"
    assert serialized_module._scope_of(Charge()) == f"{here}.Charge"


def test_an_id_may_be_as_long_as_any(eager: Celery, sqlite_url: str) -> None:
    ran: list[str] = []

    @eager.task  # type: ignore[untyped-decorator]
    @serialized(key="user:{user_id}", message_id="{order_id}", url=sqlite_url)
    def charge(user_id: int, order_id: str) -> None:
        ran.append(order_id)

    ids = ["a" * 512, "b" * 512]
    for order_id in (*ids, *ids):
        charge.delay(1, order_id).get()
    assert ran == ids


def test_a_task_with_the_longest_of_names_can_be_revoked(eager: Celery, sqlite_url: str) -> None:
    @eager.task  # type: ignore[untyped-decorator]
    @serialized(key="{key}", message_id="{order_id}", url=sqlite_url)
    def charge(key: str, order_id: str) -> str:
        return "ran"

    key, order_id = "k" * 512, "o" * 512
    revoke(order_id, key=key, url=sqlite_url)
    assert charge.delay(key, order_id).state == "IGNORED"
    assert charge.delay(key, "another").get() == "ran"


class Plan(str, Enum):  # noqa: UP042 - as it is mostly written
    FREE = "free"


@pytest.mark.parametrize("as_key", [Plan.FREE, "free"])
def test_a_task_whose_lane_is_named_by_an_enum_can_be_revoked(eager: Celery, sqlite_url: str, as_key: str) -> None:
    ran: list[str] = []

    @eager.task  # type: ignore[untyped-decorator]
    @serialized(key="{plan}", message_id=lambda plan, order_id: order_id, url=sqlite_url)
    def bill(plan: str, order_id: str) -> None:
        ran.append(order_id)

    revoke("o-1", key=as_key, url=sqlite_url)
    for order_id in ("o-1", "o-2", Plan.FREE, "free"):
        bill.delay(Plan.FREE, order_id)
    assert ran == ["o-2", "free"]


@pytest.mark.parametrize("task_id", [None, ""])
def test_nothing_can_be_revoked_without_an_id(sqlite_url: str, task_id: Any) -> None:
    with pytest.raises(ArgumentError, match="task_id"):
        revoke(task_id, key="user:1", url=sqlite_url)


def test_what_a_busy_lane_does_can_be_chosen(eager: Celery, sqlite_url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "inturn.celery")
    runs: list[int] = []

    def remind(user_id: int) -> str:
        runs.append(user_id)
        return "ran"

    drops = eager.task(serialized(key="user:{user_id}", busy="drop", url=sqlite_url)(remind), name="drops")
    rejects = eager.task(serialized(key="user:{user_id}", busy="reject", url=sqlite_url)(remind), name="rejects")
    waits = eager.task(serialized(key="user:{user_id}", busy="wait", wait=0.01, url=sqlite_url)(remind), name="waits")
    with InTurn(sqlite_url) as app, app.turn("user:1"):
        with pytest.raises(LaneTimeout):
            waits.delay(1)
        assert drops.delay(1).get() is None
        assert "drop key=user:1" in caplog.text
        with pytest.raises(LaneBusy):
            rejects.delay(1)
    assert runs == []
    assert [task.delay(1).get() for task in (drops, rejects, waits)] == ["ran"] * 3


def test_a_copy_waits_no_longer_for_the_first_than_for_its_lane(eager: Celery, sqlite_url: str) -> None:
    began, goes_on = threading.Event(), threading.Event()

    @eager.task  # type: ignore[untyped-decorator]
    @serialized(key="user:{user_id}", message_id="{order_id}", busy="wait", wait=0.01, url=sqlite_url)
    def charge(user_id: int, order_id: str) -> None:
        began.set()
        assert goes_on.wait(WITHIN_S)

    first = threading.Thread(target=charge.delay, args=(1, "o-1"))
    first.start()
    try:
        assert began.wait(WITHIN_S)
        with pytest.raises(LaneTimeout):
            charge.delay(1, "o-1")
    finally:
        goes_on.set()
        first.join()


def test_a_task_whose_lease_was_lost_is_no_success(fresh_redis: PrivateRedis, eager: Celery) -> None:
    @eager.task  # type: ignore[untyped-decorator]
    @serialized(key="user:{user_id}", ttl=1, url=fresh_redis.url)
    def remind(user_id: int) -> str:
        frame = this_turn()
        assert frame is not None
        fresh_redis.pause()
        wait_until(lambda: frame.turn.lost)
        fresh_redis.resume()
        return "done"

    with pytest.raises(LeaseLost):
        remind.delay(1)


def test_a_task_that_took_too_long_is_no_success(eager: Celery, sqlite_url: str) -> None:
    @eager.task  # type: ignore[untyped-decorator]
    @serialized(key="user:{user_id}", time_limit=0.1, url=sqlite_url)
    def remind(user_id: int) -> str:
        frame = this_turn()
        assert frame is not None
        wait_until(lambda: frame.turn.lost)
        return "done"

    with pytest.raises(HandlerTimeout):
        remind.delay(1)


def test_a_turn_can_revoke_a_task_of_its_own_lane(eager: Celery, sqlite_url: str) -> None:
    @eager.task  # type: ignore[untyped-decorator]
    @serialized(key="user:{user_id}", message_id="{order_id}", url=sqlite_url)
    def remind(user_id: int, order_id: int) -> str:
        if order_id == 1:
            revoke("2", key="user:1", url=sqlite_url)
        return "ran"

    assert remind.delay(1, 1).get() == "ran"
    assert remind.delay(1, 2).state == "IGNORED"
    assert remind.delay(2, 2).get() == "ran"  # of another lane


def test_a_plain_function_and_a_call_inside_another_task_take_turns_as_well(eager: Celery, sqlite_url: str) -> None:
    @serialized(key=lambda user_id, text: f"user:{user_id}", url=sqlite_url)
    def note(user_id: int, text: str = "") -> str:
        frame = this_turn()
        assert frame is not None
        return f"{frame.turn.key} {text}"

    @eager.task(bind=True)  # type: ignore[untyped-decorator]
    @serialized(key=lambda user_id: f"user:{user_id}", url=sqlite_url)
    def remind(self: Any, user_id: int) -> list[str]:
        # each is a new one, although one task calls them
        return [note(user_id + 1, "a"), note(user_id + 1, text="b")]

    assert note(1) == "user:1 "
    assert remind.delay(1).get() == ["user:2 a", "user:2 b"]
    with pytest.raises(OwnLane):
        serialized(key="user:{user_id}", url=sqlite_url)(lambda user_id: note(user_id))(1)


def test_a_function_of_the_arguments_does_not_get_the_task_itself(eager: Celery, sqlite_url: str) -> None:
    @eager.task(bind=True)  # type: ignore[untyped-decorator]
    @serialized(key=lambda user_id: f"user:{user_id}", url=sqlite_url)
    def remind(self: Any, user_id: int) -> str:
        frame = this_turn()
        assert frame is not None
        return frame.turn.key

    assert remind.delay(1).get() == remind(1) == remind.run(1) == "user:1"


def test_a_task_whose_function_calls_itself_takes_a_turn_for_each_call(eager: Celery, sqlite_url: str) -> None:
    ran: list[str] = []

    @serialized(key="node:{node}", url=sqlite_url)
    def walk(node: str, times: int = 0) -> None:
        ran.append(node)
        for _ in range(times):
            walk("child")  # not by the id of the task: that would run once

    task = eager.task(walk)
    for _ in range(2):
        task.apply(("root", 2), task_id="id").get()
    assert ran == ["root", "child", "child"]


def test_celery_checks_the_arguments_of_a_call_as_without_the_decorator(eager: Celery, sqlite_url: str) -> None:
    @eager.task(bind=True)  # type: ignore[untyped-decorator]
    @serialized(key="user:{user_id}", url=sqlite_url)
    def remind(self: Any, user_id: int) -> None: ...

    eager.conf.task_always_eager = False
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'user_id'"):
        remind.delay()


def test_an_argument_that_makes_no_key_is_refused(eager: Celery, sqlite_url: str) -> None:
    @eager.task  # type: ignore[untyped-decorator]
    @serialized(key="user:{user_id}", url=sqlite_url)
    def remind(user_id: object) -> None: ...

    for bad in (None, True, 1.5):
        with pytest.raises(BadMessage, match="must be text or a number"):
            remind.delay(bad)
    with pytest.raises(BadMessage, match="must not contain '>'"):
        remind.delay("a>b")


async def asynchronous(user_id: int) -> None:
    await asyncio.sleep(0)


def generator(user_id: int) -> Iterator[int]:
    yield user_id


def plain(user_id: int) -> None: ...


@pytest.mark.parametrize(
    ("options", "function", "error", "words"),
    [
        ({}, asynchronous, ArgumentTypeError, "use asyncio.run inside of it, or submit to a handler"),
        ({}, generator, ArgumentTypeError, "is a generator"),
        ({}, celery_tasks.count, ArgumentTypeError, "write @serialized below @app.task"),
        ({"key": "user:{visitor}"}, plain, ArgumentError, "no argument 'visitor'; there are: user_id, task_id"),
        ({"message_id": "{order.id}"}, plain, ArgumentError, "no argument 'order'"),
        ({"key": "user>{user_id}"}, plain, ArgumentError, "must not contain '>'"),
        ({"key": "user:{}"}, plain, ArgumentError, "write plain names in braces"),
        ({"key": ""}, plain, ArgumentTypeError, "must be a template"),
        ({"busy": "queue"}, plain, ArgumentError, "must be one of 'retry', 'wait', 'drop', 'reject'"),
        ({"wait": -1}, plain, ArgumentError, "must be 0 seconds or more"),
        ({"dedup_window": 0}, plain, ArgumentError, "dedup_window"),
    ],
)
def test_what_cannot_be_had_is_refused_when_it_is_decorated(
    options: dict[str, Any], function: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        serialized(**{"key": "user:{user_id}", **options})(function)


WITHOUT_CELERY = """
import sys
sys.modules["celery"] = None
try:
    import inturn.bot.celery
except Exception as error:
    print(type(error).__name__, error)
"""


def test_without_celery_the_extra_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_CELERY], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "MissingExtra inturn.bot.celery needs the extra 'celery': pip install 'inturn[celery]'\n"
