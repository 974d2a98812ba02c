"""A file that a kill has cut is mended so that no half of a script ever becomes real."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from tests.chaos.aof import mend, whole_length
from tests.servers import PrivateRedis


@pytest.fixture
def server() -> Iterator[PrivateRedis]:
    with PrivateRedis(appendonly=True, extra=("--appendfsync", "always")) as started:
        yield started


def test_a_whole_file_is_left_alone() -> None:
    written = b"*1\r\n$5\r\nMULTI\r\n*2\r\n$4\r\nINCR\r\n$1\r\na\r\n*1\r\n$4\r\nEXEC\r\n"
    assert whole_length(written) == len(written)
    assert whole_length(b"") == 0


def test_every_cut_inside_a_transaction_goes_back_to_its_beginning() -> None:
    before = b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n"
    transaction = b"*1\r\n$5\r\nMULTI\r\n" + before + before + b"*1\r\n$4\r\nEXEC\r\n"
    for cut in range(len(transaction)):
        assert whole_length(before + transaction[:cut]) == len(before)


def test_half_a_script_does_not_come_to_life_at_the_second_restart(server: PrivateRedis) -> None:
    folder = server.folder / "appendonlydir"
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        client.set("whole", 1)
        client.eval("redis.call('SET', 'first', 1); redis.call('SET', 'second', 1)", 0)
    server.kill()
    (file,) = folder.glob("*.incr.aof")
    written = file.read_bytes()
    file.write_bytes(written[: written.index(b"second") + 3])
    assert mend(folder) > 0
    for _ in range(2):
        server.start()
        with redis.Redis.from_url(server.url, decode_responses=True) as client:
            assert client.exists("whole", "first", "second") == 1
            client.eval("redis.call('SET', 'later', 1); redis.call('SET', 'still later', 1)", 0)
        server.kill()
