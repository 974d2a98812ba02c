"""`inturn jobs`: what runs and waits, what became of one job, the dead ones, and a worker for them."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Coroutine
from dataclasses import asdict
from typing import Any, TypeVar

from inturn import arguments as checked
from inturn.cli.open import opened
from inturn.cli.output import (
    Sight,
    complain,
    duration,
    is_confirmed,
    moment,
    must_be_able_to_ask,
    pretty,
    print_json,
    printable_lines,
    show,
)
from inturn.cli.terminal import Screen, Table
from inturn.cli.worker import find
from inturn.errors import BrokerUnavailable, MissingExtra, SettingsError
from inturn.http.request_id import log_to_stderr
from inturn.printable import printable
from inturn.settings import Settings, load_settings
from inturn.sync import InTurn

T = TypeVar("T")

MAX_ERROR_SHOWN = 200


def run_jobs(arguments: argparse.Namespace) -> int:
    if arguments.action == "worker":
        return _work(arguments)
    with opened(arguments) as app:
        return _Jobs(app, arguments).run()


class _Jobs:
    def __init__(self, app: InTurn, arguments: argparse.Namespace) -> None:
        try:
            from inturn.jobs.dead import DeadJobs
            from inturn.jobs.record import JobRecord
        except MissingExtra as error:
            raise MissingExtra("inturn jobs", error.extra) from error
        self._app = app
        self._arguments = arguments
        self._dead = DeadJobs(app.inner)
        self._record = JobRecord

    def run(self) -> int:
        action, told = self._arguments.action, self._arguments
        if action == "ls":
            return show(self._all, as_json=told.json, watch=told.watch)
        if action == "show":
            return show(lambda: self._one(told.id), as_json=told.json, watch=told.watch)
        if action == "dead":
            return show(self._all_dead if told.id is None else self._one_dead, as_json=told.json, watch=told.watch)
        return self._act(action)

    def _await(self, what: Coroutine[Any, Any, T]) -> T:
        return self._app.runner.run(what)

    # -- looking

    def _all(self) -> Sight:
        found = [lane for lane in self._app.lanes.list(1_000_000) if lane.key.startswith("job:")]
        lanes = [lane for lane in found if ">" not in lane.key]
        callbacks = len(found) - len(lanes)
        lanes = lanes[: self._arguments.limit]
        queues, trouble = asyncio.run(_queues(load_settings()))
        rows = [{"id": lane.key.removeprefix("job:"), "status": lane.status, "holder": lane.holder,
                 "held_s": lane.held_s} for lane in lanes]  # fmt: skip

        def lines(screen: Screen) -> list[str]:
            table = Table("job", "status", "holder", ">held for")
            for lane in lanes:
                held = duration(lane.held_s) if lane.holder else ""
                table.add(*map(printable, (lane.key.removeprefix("job:"), lane.status, lane.holder or "-", held)))
            told = table.lines(screen) if lanes else ["No job is running or waiting in the store."]
            if callbacks:
                told.append(
                    f"{callbacks} call-back{'' if callbacks == 1 else 's'} not taken yet; each is tried for a day."
                )
            if queues is not None:
                told += [f"{count} in {name}" for name, count in queues.items()] or ["Nothing waits on RabbitMQ."]
            return [*told, printable(trouble)] if trouble else told

        told = {"jobs": rows, "callbacks": callbacks, "queues": queues}
        return Sight(told | ({"trouble": trouble} if trouble else {}), lines)

    def _one(self, job_id: str) -> Sight:
        lane = self._app.lanes.inspect(f"job:{job_id}", 1)
        record = lane.state_as(self._record)
        if record is None:
            return Sight({"job": None}, lambda screen: [], _no_job(job_id))
        told = record.model_dump(mode="json", exclude_none=True) | {"is_running": lane.holder is not None}

        def lines(screen: Screen) -> list[str]:
            running = f", running in {lane.holder} for {duration(lane.held_s)}" if lane.holder else ""
            head = f"{record.id}: {record.status}{running}"
            about = f"{record.capability} for {record.user_id}, accepted {moment(record.accepted_at)}, "
            about += f"run {record.run}, attempt {record.attempt}"
            outcome = [] if record.outcome is None else printable_lines(pretty(record.outcome.model_dump(mode="json")))
            return [screen.paint(printable(head), "bold"), printable(about), *outcome, *_errors(told.get("errors", []))]

        return Sight({"job": told}, lines)

    def _all_dead(self) -> Sight:
        found = self._await(self._dead.list(self._arguments.limit))

        def lines(screen: Screen) -> list[str]:
            table = Table("job", "what", ">attempts", ">died", "error")
            for dead in found:
                cells = (dead.id, dead.kind, str(dead.attempts), moment(dead.died_at), dead.error[:MAX_ERROR_SHOWN])
                table.add(*map(printable, cells))
            return table.lines(screen) if found else ["There are no dead jobs."]

        return Sight({"dead": [_told(dead) for dead in found]}, lines)

    def _one_dead(self) -> Sight:
        job_id = self._arguments.id
        found = self._await(self._dead.show(job_id))

        def lines(screen: Screen) -> list[str]:
            told: list[str] = []
            for dead in found:
                head = f"{dead.id} ({dead.kind}), died {moment(dead.died_at)}: {dead.error}"
                told += [screen.paint(printable(head), "bold"), *printable_lines(pretty(dead.payload))]
                told += _errors(dead.errors)
            return told

        missing = "" if len(found) else _no_dead(job_id)
        return Sight({"dead": [_told(dead) for dead in found] or None}, lines, missing)

    # -- acting

    def _act(self, action: str) -> int:
        told, dead = self._arguments, self._dead
        done = "replayed" if action == "replay" else "dropped"
        if (told.id is None) != told.all:
            raise SettingsError(f"say what to {action}: the ID of a job, or --all")
        if not told.all:
            count = self._await(dead.replay(told.id) if action == "replay" else dead.drop(told.id))
        elif action == "replay":
            count = self._await(dead.replay_all())
        else:
            if not told.yes:
                must_be_able_to_ask("dropping dead jobs for good")
                found = len(self._await(dead.list()))
                if found and not is_confirmed(f"Drop {_count(found)} for good?"):
                    return complain("nothing was dropped")
            count = self._await(dead.drop_all())
        if told.json:
            print_json({done: count})
        elif count or told.all:
            print(f"{_count(count)} {'was' if count == 1 else 'were'} {done}.")
        else:
            return complain(_no_dead(told.id))
        return 0 if count or told.all else 1


def _told(dead: Any) -> dict[str, Any]:
    told = asdict(dead)
    letter = told.pop("letter")
    return told | {"key": letter["key"], "handler": letter["handler"], "message_id": letter["id"]}


def _errors(errors: list[dict[str, Any]]) -> list[str]:
    lines = []
    for error in errors:
        at = error["at"] / (1000 if error["at"] > 1e11 else 1)
        head = f"attempt {error.get('attempt')} at {moment(at)}: {error.get('type')}: {error.get('message')}"
        lines += printable_lines(head)
        lines += printable_lines(str(error.get("traceback") or "").rstrip()) if error.get("traceback") else []
    return lines


def _count(dead: int) -> str:
    return f"{dead} dead job{'' if dead == 1 else 's'}"


def _no_job(job_id: str) -> str:
    return (
        f"there is no job {job_id!r} in this store; inturn jobs ls lists those that run, inturn jobs dead the dead ones"
    )


def _no_dead(job_id: str) -> str:
    return f"nothing died of job {job_id!r}; inturn jobs dead lists all that did"


async def _queues(settings: Settings) -> tuple[dict[str, int] | None, str]:
    """How many messages wait on RabbitMQ, by queue (`None`: not known), and why it could not be asked."""
    if settings.rabbitmq_url is None:
        return None, ""
    from inturn.jobs.rabbitmq.transport import RabbitMQTransport

    transport = RabbitMQTransport(settings.rabbitmq_url, timeout_s=settings.rabbitmq_timeout)
    try:
        return await transport.waiting(), ""
    except BrokerUnavailable as error:
        return None, str(error)
    finally:
        await transport.close()


# -- a worker


def _work(arguments: argparse.Namespace) -> int:
    try:
        from inturn.jobs.worker import GRACE_S
    except MissingExtra as error:
        raise MissingExtra("inturn jobs worker", error.extra) from error
    settings = load_settings()
    log_to_stderr(settings.log_level)
    grace = checked.seconds(GRACE_S if arguments.grace is None else arguments.grace, "grace", allow_zero=True)
    concurrency = settings.job_concurrency if arguments.concurrency is None else arguments.concurrency
    checked.whole(concurrency, "concurrency", 1, 1000)
    return 0 if asyncio.run(_until_signal(settings, arguments, concurrency, grace)) else 1


async def _until_signal(settings: Settings, arguments: argparse.Namespace, concurrency: int, grace: float) -> bool:
    """Returns whether every job had the time to finish."""
    from inturn import InTurn as App
    from inturn.agents.factory import make_agent
    from inturn.jobs.factory import make_service
    from inturn.jobs.worker import SIGNALS, start_worker

    stopping, hurry, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()

    def stop() -> None:
        (hurry if stopping.is_set() else stopping).set()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop)
    named = arguments.capabilities or settings.capabilities
    app = App(arguments.url, namespace=arguments.namespace, settings=settings)
    agent = make_agent(settings)
    service = make_service(app, agent, settings, capabilities=find_capabilities(named) if named else None)
    try:
        return await start_worker(service, stopping, concurrency=concurrency, grace=grace, hurry=hurry)
    finally:
        await service.close()
        await agent.aclose()
        await app.close()


def find_capabilities(named: str) -> Any:
    from inturn.capabilities.capability import Capabilities

    return find(named, Capabilities, "an inturn.capabilities.Capabilities", "shop.ai:capabilities")
