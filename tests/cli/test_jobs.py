"""`inturn jobs`: jobs and dead jobs in both forms, and a worker that begins or says in one sentence why not."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import SecretStr

from inturn import InTurn
from inturn.agents import OfflineAgent
from inturn.cli.main import main
from inturn.jobs.factory import make_service
from inturn.jobs.types import AsyncConfig
from inturn.settings import Settings
from inturn.testing import drain
from tests.cli.conftest import Captured, one_sentence
from tests.jobs.payloads import payload
from tests.jobs.receiver import SECRET
from tests.jobs.world import PATIENT_S
from tests.servers import free_port


class Jobs:
    """A store with a job that is done, one that is dead, and one that waits; and the command on the same store."""

    def __init__(self, url: str, namespace: str, captured: Captured) -> None:
        self.place = ["--url", url, "--namespace", namespace]
        self._captured = captured
        self._settings = Settings(
            url=url, namespace=namespace, webhook_secrets=SecretStr(SECRET), callback_urls=("http://127.0.0.1:1",),
            store_timeout=PATIENT_S,
        )  # fmt: skip

    async def fill(self) -> None:
        app = InTurn(settings=self._settings)
        service = make_service(app, OfflineAgent(), self._settings)
        config = AsyncConfig(callback_url="http://127.0.0.1:1/hook", user_id="ada")
        await service.accept("parse-task", {"natural_language": "Pay the rent by Friday"}, config, job_id="good")
        await service.transport.publish_job(payload("bad", capability="gone"))
        await drain(app)
        await service.accept("parse-task", {"natural_language": "Call Bob tomorrow"}, config, job_id="new")
        await service.close()
        await app.close()

    def say(self, *words: str) -> tuple[int, str, str]:
        code = main(["jobs", *words, *self.place])
        out, err = self._captured.readouterr()
        return code, out, err

    def json(self, *words: str, code: int = 0) -> Any:
        got, out, err = self.say(*words, "--json")
        assert (got, err) == (code, "")
        return json.loads(out)


@pytest.fixture
def jobs(store_url: str, namespace: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    monkeypatch.setenv("INTURN_STORE_TIMEOUT", str(PATIENT_S))  # of the command
    made = Jobs(store_url, namespace, capsys)
    asyncio.run(made.fill())
    return made


def test_ls_shows_what_waits(jobs: Jobs) -> None:
    assert jobs.json("ls") == {
        "jobs": [{"id": "new", "status": "ready", "holder": None, "held_s": 0.0}], "callbacks": 2, "queues": None,
    }  # fmt: skip
    said = jobs.say("ls")[1].splitlines()
    assert said[1].split()[:2] == ["new", "ready"]
    assert said[2] == "2 call-backs not taken yet; each is tried for a day."


def test_show_tells_how_far_a_job_is_and_what_became_of_it(jobs: Jobs) -> None:
    job = jobs.json("show", "good")["job"]
    assert (job["status"], job["outcome"]["result"]["title"], job["is_running"]) == ("done", "Pay the rent", False)
    out = jobs.say("show", "good")[1]
    assert out.startswith("good: done\nparse-task for ada, accepted ")
    assert "Pay the rent" in out
    assert jobs.json("show", "nothing", code=1) == {"job": None}
    code, _, err = jobs.say("show", "nothing")
    assert (code, "there is no job 'nothing'" in one_sentence(err)) == (1, True)


def test_dead_lists_and_shows_with_payload_and_errors(jobs: Jobs) -> None:
    (dead,) = [each for each in jobs.json("dead")["dead"] if each["kind"] == "job"]
    assert (dead["id"], dead["handler"], dead["key"]) == ("bad", "job", "job:bad")
    assert "gone" in dead["error"]
    assert dead["payload"]["capability"] == "gone"
    out = jobs.say("dead")[1]
    assert out.splitlines()[0].split() == ["job", "what", "attempts", "died", "error"]
    out = jobs.say("dead", "bad")[1]
    assert "unknown_capability" in out
    assert '"capability": "gone"' in out
    code, _, err = jobs.say("dead", "good-not")
    assert (code, "nothing died" in one_sentence(err)) == (1, True)


def test_replay_and_drop_take_an_id_or_all(jobs: Jobs) -> None:
    assert jobs.json("replay", "bad") == {"replayed": 1}
    assert jobs.json("replay", "bad", code=1) == {"replayed": 0}
    assert {each["id"] for each in jobs.json("ls")["jobs"]} == {"bad", "new"}
    code, _, err = jobs.say("replay")
    assert (code, "say what to replay" in one_sentence(err)) == (2, True)
    assert jobs.say("replay", "x", "--all")[0] == 2
    assert jobs.json("drop", "--all", "--yes") == {"dropped": 0}
    assert jobs.say("drop", "x")[0] == 1


def test_dropping_everything_asks_first(jobs: Jobs) -> None:
    code, _, err = jobs.say("drop", "--all")
    assert code == 2
    assert "--yes" in one_sentence(err)
    assert jobs.say("drop", "--all", "--yes")[1] == "1 dead job was dropped.\n"


def test_a_worker_whose_broker_cannot_be_reached_does_not_start(
    sqlite_url: str, capfd: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RABBITMQ_URL", f"amqp://ada:hunter2@127.0.0.1:{free_port()}/")
    assert main(["jobs", "worker", "--url", sqlite_url]) == 1
    err = capfd.readouterr().err
    assert "inturn: RabbitMQ at amqp://ada:***@127.0.0.1:" in err
    assert "hunter2" not in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--capabilities", "nothing"], "as MODULE:NAME"),
        (["--capabilities", "os:environ"], "must be an inturn.capabilities.Capabilities"),
        (["--concurrency", "0"], "concurrency"),
        (["--grace", "-1"], "grace"),
    ],
)
def test_a_worker_says_what_is_wrong_with_its_arguments(
    sqlite_url: str, capfd: Captured, words: list[str], told: str
) -> None:
    assert main(["jobs", "worker", "--url", sqlite_url, *words]) == 2
    assert told in capfd.readouterr().err
