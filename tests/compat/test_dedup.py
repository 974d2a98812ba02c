"""The duplicate check by itself: over every source that it takes, and with the store away."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import redis
import redis.asyncio

import inturn
import inturn.sync
from inturn import AsyncMessageDeduplicationManager, MessageDeduplicationManager, StoreUnavailable
from inturn.compat.dedup import Claims
from inturn.store import clock
from tests.compat.sources import Maker
from tests.waiting import until, wait_until

Manager = MessageDeduplicationManager
Managers = tuple[Manager, Manager]


@pytest.fixture
def maker(tmp_path: Path) -> Iterator[Maker[MessageDeduplicationManager]]:
    maker = Maker(tmp_path, MessageDeduplicationManager, AsyncMessageDeduplicationManager)
    with maker.stack:
        yield maker


@pytest.fixture
def message() -> str:
    return f"user:{uuid.uuid4().hex}"


@pytest.fixture
def plain(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client


def test_the_id_is_the_user_and_the_hash_of_the_text(managers: Managers) -> None:
    manager, _ = managers
    digest = hashlib.sha256("héllo".encode()).hexdigest()
    assert manager.generate_message_id("42", "héllo") == f"42:{digest}"
    assert manager.generate_message_id(42, "héllo") == f"42:{digest}"
    assert manager.generate_message_id("43", "héllo") != f"42:{digest}"


def test_a_message_is_a_duplicate_once_it_is_marked(managers: Managers, message: str) -> None:
    mine, theirs = managers
    assert not mine.is_duplicate(message)
    mine.mark_as_processed(message)
    assert mine.is_duplicate(message)
    assert theirs.is_duplicate(message)
    theirs.mark_as_processed(message)
    assert mine.is_duplicate(message)
    assert (mine.last_refusal, mine.last_error) == (None, None)


def test_a_mark_expires(managers: Managers, message: str) -> None:
    mine, theirs = managers
    mine.mark_as_processed(message, 0.05)
    wait_until(lambda: not theirs.is_duplicate(message))


def test_only_the_first_claim_is_answered_with_true(managers: Managers, message: str) -> None:
    mine, theirs = managers
    assert mine.claim(message)
    assert mine.last_refusal is None
    assert not theirs.claim(message)
    assert theirs.last_refusal == "held"
    assert not mine.claim(message)
    assert theirs.is_duplicate(message)


def test_a_claim_expires(managers: Managers, message: str) -> None:
    mine, theirs = managers
    assert mine.claim(message, 0.05)
    wait_until(lambda: theirs.claim(message))
    assert not mine.release_claim(message), "it is someone else's by now"
    assert theirs.is_duplicate(message)


def test_a_claim_that_is_given_back_can_be_claimed_again(managers: Managers, message: str) -> None:
    mine, theirs = managers
    assert mine.claim(message)
    assert not theirs.release_claim(message), "only who claimed it gives it back"
    assert mine.release_claim(message)
    assert not mine.release_claim(message)
    assert not mine.is_duplicate(message)
    assert theirs.claim(message)


def test_a_mark_is_not_given_back(managers: Managers, message: str) -> None:
    mine, theirs = managers
    assert mine.claim(message, 5)
    mine.mark_as_processed(message, 60)
    assert not mine.release_claim(message)
    assert theirs.is_duplicate(message)


def test_a_mark_sets_the_life_of_a_claim_anew(managers: Managers, message: str) -> None:
    mine, theirs = managers
    assert mine.claim(message, 60)
    mine.mark_as_processed(message, 0.05)
    wait_until(lambda: not theirs.is_duplicate(message))
    assert theirs.claim(message, 0.2)
    mine.mark_as_processed(message, 60)
    ends_at = clock.now() + 0.3
    wait_until(lambda: clock.now() > ends_at)
    assert theirs.is_duplicate(message)


@pytest.mark.parametrize("kind", ["client", "sync app on redis", "sync app on sqlite"])
def test_of_many_threads_one_gets_the_claim(
    kind: str, maker: Maker[MessageDeduplicationManager], redis_url: str, message: str
) -> None:
    manager = maker.manager(kind, redis_url)
    answers: list[bool] = []
    threads = [threading.Thread(target=lambda: answers.append(manager.claim(message))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False] * 7 + [True]


async def test_a_claim_whose_caller_is_cancelled_is_given_back(store_url: str, namespace: str, message: str) -> None:
    async with inturn.InTurn(store_url, namespace=namespace) as app:
        manager = AsyncMessageDeduplicationManager(app)
        claiming = asyncio.create_task(manager.claim(message))
        await asyncio.sleep(0)
        claiming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claiming

        async def is_free() -> bool:
            return not await manager.is_duplicate(message)

        await until(is_free)


# -- on Redis, beside others -----------------------------------------------------------------------------------------


def test_the_keys_are_plain(on_redis: Manager, plain: redis.Redis, message: str) -> None:
    on_redis.mark_as_processed(message)
    assert 290 <= plain.ttl(f"processed_msg:{message}") <= 300
    on_redis.mark_as_processed(message, 20)
    assert 10 <= plain.ttl(f"processed_msg:{message}") <= 20


def test_a_foreign_mark_counts(on_redis: Manager, plain: redis.Redis, message: str) -> None:
    plain.set(f"processed_msg:{message}", "yes", ex=60)
    assert on_redis.is_duplicate(message)
    assert not on_redis.claim(message)
    assert not on_redis.release_claim(message)
    plain.delete(f"processed_msg:{message}")
    assert on_redis.claim(message, 30)
    assert 20 <= plain.ttl(f"processed_msg:{message}") <= 30
    plain.set(f"processed_msg:{message}", "yes", ex=60)
    assert not on_redis.release_claim(message), "someone else marked it meanwhile"
    assert plain.get(f"processed_msg:{message}") == b"yes"


# -- the store is away -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["client", "sync app on redis", "app on redis", "async client", "async app on redis"])
def test_a_store_that_is_away_loses_no_message_and_is_told(
    kind: str, maker: Maker[MessageDeduplicationManager], message: str, caplog: pytest.LogCaptureFixture
) -> None:
    manager = maker.manager(kind, maker.nowhere(), 0.3)
    calls: list[tuple[Callable[[], Any], Any]] = [
        (lambda: manager.is_duplicate(message), False),
        (lambda: manager.mark_as_processed(message), None),
        (lambda: manager.claim(message), True),
        (lambda: manager.release_claim(message), False),
    ]
    for call, answer in calls:
        caplog.clear()
        assert call() is answer
        assert manager.last_refusal == "away"
        assert isinstance(manager.last_error, StoreUnavailable)
        assert [record.levelno for record in caplog.records if record.name == "inturn.lanes"] == [logging.ERROR]


def test_a_claim_whose_answer_was_lost_can_be_given_back(
    maker: Maker[MessageDeduplicationManager], redis_url: str, plain: Any, message: str
) -> None:
    """The command reaches the server, and the client does not learn of it."""

    class Deaf(redis.Redis):
        is_deaf = True

        def execute_command(self, *args: Any, **options: Any) -> Any:
            reply = super().execute_command(*args, **options)  # type: ignore[no-untyped-call]
            if self.is_deaf:
                raise redis.ConnectionError("the connection was lost")
            return reply

    client = maker.stack.enter_context(Deaf.from_url(redis_url))
    manager = MessageDeduplicationManager(client)
    assert manager.claim(message)
    assert manager.last_refusal == "away"
    assert plain.exists(f"processed_msg:{message}")
    client.is_deaf = False
    assert manager.release_claim(message)
    assert not plain.exists(f"processed_msg:{message}")


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["is_duplicate", "mark_as_processed", "claim", "release_claim"])
def test_bad_ids_are_refused(managers: Managers, call: str) -> None:
    with pytest.raises(ValueError, match="message_id=''"):
        getattr(managers[0], call)("")
    with pytest.raises(TypeError, match="message_id=7"):
        getattr(managers[0], call)(7)


@pytest.mark.parametrize("bad", [0, -1, float("nan"), "300", True])
def test_bad_expirations_are_refused(
    managers: Managers, maker: Maker[MessageDeduplicationManager], bad: Any, message: str
) -> None:
    for call in (managers[0].mark_as_processed, managers[0].claim):
        with pytest.raises((ValueError, TypeError), match="expiration_time="):
            call(message, bad)
    assert not managers[0].is_duplicate(message)
    with pytest.raises((ValueError, TypeError), match="default_expiration="):
        maker.manager("client", "redis://127.0.0.1:1/0", default_expiration=bad)


def test_bad_users_and_texts_are_refused(maker: Maker[MessageDeduplicationManager]) -> None:
    manager = maker.manager("client", "redis://127.0.0.1:1/0")
    with pytest.raises(ValueError, match="user_id=''"):
        manager.generate_message_id("", "hi")
    with pytest.raises(TypeError, match="user_id=None"):
        manager.generate_message_id(cast(str, None), "hi")
    with pytest.raises(TypeError, match="message_content=b'hi'"):
        manager.generate_message_id("42", cast(str, b"hi"))


def test_a_source_of_the_wrong_kind_is_refused(maker: Maker[MessageDeduplicationManager]) -> None:
    with pytest.raises(TypeError, match=r"redis_client=.*must be a redis\.Redis, an inturn\.sync\.InTurn"):
        MessageDeduplicationManager(maker.source("async client", "redis://127.0.0.1:1/0", 1))
    with pytest.raises(TypeError, match=r"redis_client=.*must be a redis\.asyncio\.Redis or an inturn\.InTurn"):
        AsyncMessageDeduplicationManager(maker.source("client", "redis://127.0.0.1:1/0", 1))
    with pytest.raises(TypeError, match="redis_client=None"):
        MessageDeduplicationManager(cast(Any, None))


# -- what is kept ----------------------------------------------------------------------------------------------------


def test_claims_that_are_over_are_forgotten() -> None:
    claims = Claims()
    for number in range(1000):
        claims.keep(f"old {number}", "token", -1)
        claims.expired()
    claims.keep("new", "token", 60_000)
    assert len(claims._kept) <= 65
    assert claims.pop("new") == "token"
    assert claims.pop("new") is None


def test_marks_that_are_over_do_not_pile_up_in_the_file(maker: Maker[MessageDeduplicationManager]) -> None:
    manager = maker.manager("sync app on sqlite", "")
    for number in range(300):
        manager.mark_as_processed(f"m{number}", 0.001)
    app = cast(inturn.sync.InTurn, maker.source("sync app on sqlite", "", 5))
    assert len(app.runner.run(app.inner.process.store.names(1000))) <= 130


def test_giving_back_a_claim_does_not_take_the_mark_of_another_manager_along(managers: Managers, message: str) -> None:
    first, second = managers
    assert first.claim(message)
    second.mark_as_processed(message)
    assert not first.release_claim(message)
    assert first.is_duplicate(message)
    assert second.is_duplicate(message)
