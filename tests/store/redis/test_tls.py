"""rediss:// with a certificate authority of one's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from inturn.errors import StoreUnavailable
from inturn.store.redis.link import LinkRefused
from tests.servers import PrivateRedis
from tests.store.redis.certificates import Certificates
from tests.store.redis.peers import AT_ONCE_S, Open, admin
from tests.store.stopwatch import Stopwatch
from tests.waiting import until


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def tls_redis(certificates: Certificates) -> Iterator[PrivateRedis]:
    with certificates.server() as server:
        yield server


def url_of(server: PrivateRedis, host: str = "127.0.0.1", **parameters: object) -> str:
    return f"rediss://{host}:{server.port}/0?" + "&".join(f"{name}={value}" for name, value in parameters.items())


async def test_a_verified_server_serves_calls_and_pushes(
    tls_redis: PrivateRedis, certificates: Certificates, open_at: Open
) -> None:
    url = url_of(tls_redis, ssl_ca_certs=certificates.ca)
    one, other = open_at(url), open_at(url)
    held = await one.hold("n")
    waiting = await other.wait_for("n")
    assert (await one.release(held)).status == "released"
    await until(lambda: other.told("granted", waiting))
    requests = [one.ask(f"n{n}") for n in range(300)]
    assert {answer.status for answer in await asyncio.gather(*map(one.acquire, requests))} == {"granted"}
    assert {answer.status for answer in await asyncio.gather(*map(one.release, requests))} == {"released"}


async def test_a_lost_connection_is_made_again(
    tls_redis: PrivateRedis, certificates: Certificates, open_at: Open
) -> None:
    peer = open_at(url_of(tls_redis, ssl_ca_certs=certificates.ca))
    held = await peer.hold("n")
    with admin(tls_redis) as owner:
        owner.client_kill_filter(_type="pubsub")
    assert (await peer.release(held)).status == "released"


async def refused_at_once(open_at: Open, url: str, says: str, within_s: float = AT_ONCE_S) -> None:
    peer = open_at(url, timeout_s=50)
    async with asyncio.timeout(within_s):
        with pytest.raises(StoreUnavailable, match=says) as refused:
            await peer.acquire(peer.ask("n"))
    assert isinstance(refused.value.__cause__, LinkRefused)


async def test_a_server_that_nobody_vouches_for_is_refused_at_once(
    tls_redis: PrivateRedis, certificates: Certificates, open_at: Open
) -> None:
    await refused_at_once(open_at, url_of(tls_redis), "certificate verify failed")
    await refused_at_once(open_at, url_of(tls_redis, ssl_ca_certs=certificates.other_ca), "certificate verify failed")


async def test_a_server_of_another_name_is_refused_unless_names_are_not_checked(
    tls_redis: PrivateRedis, certificates: Certificates, open_at: Open
) -> None:
    url = url_of(tls_redis, host="localhost", ssl_ca_certs=certificates.ca)
    await refused_at_once(open_at, url, "Hostname mismatch")
    await open_at(f"{url}&ssl_check_hostname=false").hold("n")


async def test_verification_can_be_turned_off(tls_redis: PrivateRedis, open_at: Open) -> None:
    await open_at(url_of(tls_redis, host="localhost", ssl_cert_reqs="none")).hold("n")


async def test_a_server_that_wants_a_certificate_gets_it(certificates: Certificates, open_at: Open) -> None:
    with certificates.server(wants_certificates=True) as server:
        certificate, key = (certificates.folder / f"client.{kind}" for kind in ("crt", "key"))
        url = url_of(server, ssl_ca_certs=certificates.ca, ssl_certfile=certificate, ssl_keyfile=key)
        peer = open_at(url)
        await peer.release(await peer.hold("n"))
        # it says so behind the handshake, and hangs up: if we speak just then, its words are lost, and we try again
        await refused_at_once(open_at, url_of(server, ssl_ca_certs=certificates.ca), "certificate required", 45)


@pytest.mark.timed
async def test_two_sides_of_which_one_speaks_tls_give_up_in_time(
    tls_redis: PrivateRedis, redis_server: PrivateRedis, open_at: Open
) -> None:
    plain = f"redis://127.0.0.1:{tls_redis.port}/0"
    for url, says in ((plain, "closed the connection"), (url_of(redis_server), "does it speak TLS there")):
        peer = open_at(url, timeout_s=2)
        async with Stopwatch() as watch:
            with pytest.raises(StoreUnavailable, match=says):
                await peer.acquire(peer.ask("n"))
        assert watch.own_s < 2.5
