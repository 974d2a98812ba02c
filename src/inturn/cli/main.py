"""The `inturn` command: reads the arguments, calls the command, and turns an error into one sentence.

Exit codes: 0 done; 1 the store is away, or what was asked for is not there; 2 wrong usage or settings; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import NoReturn

from inturn.errors import InTurnError

log = logging.getLogger("inturn.cli.main")

LOCK_FIELDS = """\
with --json:
  ls       prints {"locks": [lock, ...]}
  show     prints {"lock": lock}; null, and exit code 1, if nobody holds it and nobody waits for it
  release  prints {"name": text, "released": number of holders that lost it}; exit code 1 if that is 0

  A lock is {name, capacity, holders, waiters}. capacity is how much weight can be held at once: 1 for a lock, n for a
  semaphore. A holder is {owner, host, pid, fence, held_s, weight, ends_in_s}; ends_in_s is null while its process
  keeps renewing it. A waiter is {owner, host, pid, waited_s, priority, weight}; the next in line comes first.
"""

LANE_FIELDS = """\
with --json:
  ls       prints {"lanes": [{key, status, handler, holder, held_s, waiting, why, is_unhandled}, ...]}; status is
           running, ready, waiting, paused or parked; is_unhandled: no living worker runs the next handler
  show     prints {"lane": {key, status, holder, held_s, fence, running, waiting, messages, why, state, version,
           state_expires_in_s, burst, delayed}}; null, and exit code 1, if it has no message and no state.
           running is the message that leads the running turn, burst the others in that turn, messages the first
           that wait, delayed the first that are delayed. A message is {handler, id, priority, attempts, age_s,
           due_in_s, is_inline, body, errors, lead}; lead is the id of the message that leads its burst, or ""
  pause    prints {"key": text, "paused": true}
  resume   prints {"key": text, "resumed": true or false}; exit code 1 if it was not stopped
  clear    prints {"key": text, "cleared": true or false, "messages": number}; exit code 1 if there was nothing to clear
  dead     prints {"dead": [letter, ...]}, oldest first; with KEY HANDLER ID it prints {"dead_letter": letter}, or null
           with exit code 1. A letter is {key, handler, id, body, attempts, accepted_at, died_at, expires_at, errors};
           an error is {type, message, attempt, at, traceback}
  replay   prints {"replayed": number}; exit code 1 if there is no such dead letter
  drop     prints {"dropped": number}; exit code 1 if there is no such dead letter
  --watch  prints one such document per line, about every second, until Ctrl-C
"""

JOB_FIELDS = """\
with --json:
  ls       prints {"jobs": [{id, status, holder, held_s}, ...], "queues": {queue: messages}}; queues is null without
           RabbitMQ, and if it cannot be asked: then "trouble" says why
  show     prints {"job": {id, capability, user_id, status, run, attempt, accepted_at, changed_at, errors, outcome,
           is_running, ...}}; null, and exit code 1, if there is none
  dead     prints {"dead": [{id, kind, attempts, accepted_at, died_at, error, payload, errors, key, handler,
           message_id}, ...]}, oldest first; kind is job, webhook (a call-back that was not taken) or unreadable
  replay   prints {"replayed": number}; exit code 1 if nothing died of that job
  drop     prints {"dropped": number}; exit code 1 if nothing died of that job
  --watch  prints one such document per line, about every second, until Ctrl-C
"""

JOB_WORKER = """\
Work on the jobs of the AI service until SIGTERM, SIGINT or SIGUSR2. Running jobs then have --grace seconds to finish;
the rest are given back. The exit code is 1 if a job had no time to finish, or if RabbitMQ cannot be used at the start.
"""

WORKER = """\
Run the handlers of an app until SIGTERM or SIGINT. Running turns then have --grace seconds to finish; the rest are
handed back for other workers.
"""

DEMO = """\
Watch eight processes race for one counter, then the same under a lock. Needs no server.
"""

BOT = """\
Run the companion bot on Telegram by long polling until SIGTERM or SIGINT, or in this terminal with --console, which
needs no token and keeps its chat in a namespace of its own (inturn.console). Running turns then have --grace seconds to
finish; the exit code is 1 if one had no time. Settings: INTURN_BOT_TOKEN, INTURN_AGENT, INTURN_BOT_*. For a webhook,
set INTURN_BOT_WEBHOOK_URL and run inturn serve.
"""

SERVE = """\
Serve the HTTP API, its workers and the chat page until SIGTERM, SIGINT or SIGUSR2. Running turns and
jobs then have --grace seconds to finish. Without API keys (INTURN_API_KEYS_FILE, INTURN_API_KEYS) only this machine can
connect. The exit code is 1 if a job had no time to finish, or if RabbitMQ cannot be used at the start.
"""


def main(argv: Sequence[str] | None = None) -> int:
    _keep_logs_quiet()
    try:
        arguments = _parser().parse_args(argv)
        return _run(arguments)
    except SystemExit as end:  # argparse: --help, --version, or wrong usage that it has already explained
        return end.code if isinstance(end.code, int) else 0
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # the reader (`| head`) has seen enough; what is still buffered must not complain at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (InTurnError, ValueError, TypeError, OSError) as error:
        log.debug("failed", exc_info=True)
        print(f"inturn: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError | TypeError) else 1


def _run(arguments: argparse.Namespace) -> int:
    """Runs the command. It is imported here, so that `--help` does not wait for it."""
    if arguments.command == "demo":
        return _run_demo(arguments)
    from inturn.cli.bot import run_bot
    from inturn.cli.jobs import run_jobs
    from inturn.cli.lanes import run_lanes
    from inturn.cli.locks import run_locks
    from inturn.cli.migrate import run_migrate
    from inturn.cli.serve import run_serve
    from inturn.cli.worker import run_worker

    commands = {
        "locks": run_locks, "lanes": run_lanes, "worker": run_worker, "serve": run_serve, "jobs": run_jobs,
        "migrate": run_migrate, "bot": run_bot,
    }  # fmt: skip
    return commands[arguments.command](arguments)


def _run_demo(arguments: argparse.Namespace) -> int:
    if arguments.subject is None:
        from inturn.demo.race import show_race

        return show_race()
    from inturn.demo.policies import show_policies

    return show_policies(url=arguments.url, fast=arguments.fast)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="inturn", description="Every conversation, in turn.")
    parser.add_argument("--version", action="version", version=f"inturn {version('inturn')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    _add_serve(commands.add_parser("serve", help="serve the HTTP API, a worker and the chat page", description=SERVE))
    _add_demo(
        commands.add_parser("demo", help="watch eight processes race, then the fix; needs no server", description=DEMO)
    )
    _add_bot(commands.add_parser("bot", help="run the companion bot on Telegram, or in the terminal", description=BOT))
    _add_worker(commands.add_parser("worker", help="run the handlers of an app", description=WORKER))
    migrate = commands.add_parser("migrate", help="bring the database of the Tasks service up to date")
    migrate.add_argument("--database-url", metavar="URL", help="instead of DATABASE_URL")
    _add_lanes(commands.add_parser("lanes", help="inspect and manage lanes and dead letters"))
    _add_jobs(commands.add_parser("jobs", help="inspect and manage jobs, and work on them"))
    _add_locks(commands.add_parser("locks", help="inspect and force-release locks"))
    return parser


def _add_demo(parser: argparse.ArgumentParser) -> None:
    told = "play the same burst of messages under each policy, side by side"
    subjects = parser.add_subparsers(dest="subject", metavar="SUBJECT", title="subjects (default: the race)")
    policies = subjects.add_parser("policies", help=told, description=told)
    policies.add_argument("--url", help="play on this store (default: a temporary SQLite file)")
    policies.add_argument("--fast", action="store_true", help="play four times as fast, and show only the outcome")


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="the address to listen on (default: INTURN_HOST, else 127.0.0.1)")
    parser.add_argument("--port", type=int, help="the port; 0 picks a free one (default: INTURN_PORT, else 8420)")
    parser.add_argument("--url", help="the store (default: INTURN_URL, then REDIS_URL, else sqlite:///inturn.db)")
    parser.add_argument("--namespace", help="the namespace in the store (default: INTURN_NAMESPACE, else inturn)")
    told = "a folder or file of workflow definitions (default: INTURN_WORKFLOWS, else the packaged support intake)"
    parser.add_argument("--workflows", metavar="PATH", help=told)
    told = "how many turns to run at once (default: INTURN_CONCURRENCY, else 10)"
    parser.add_argument("--concurrency", type=int, help=told)
    parser.add_argument(
        "--grace", type=float, default=30, help="seconds that running turns have to finish (default: 30)"
    )


def _add_bot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--console", action="store_true", help="chat in this terminal; no token is needed")
    parser.add_argument("--url", help="the store (default: INTURN_URL, then REDIS_URL, else sqlite:///inturn.db)")
    parser.add_argument("--namespace", help="the namespace in the store (default: INTURN_NAMESPACE, else inturn)")
    parser.add_argument(
        "--delete-webhook", action="store_true", help="delete the bot's webhook first, so that it can be polled"
    )
    parser.add_argument(
        "--grace", type=float, default=30, help="seconds that running turns have to finish (default: 30)"
    )


def _add_worker(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("app", metavar="MODULE:APP", help="where the inturn.InTurn is, such as shop.lanes:app")
    parser.add_argument("--concurrency", type=int, default=10, help="how many turns to run at once (default: 10)")
    parser.add_argument(
        "--grace", type=float, default=30, help="seconds that running turns have to finish (default: 30)"
    )


def _shared() -> argparse.ArgumentParser:
    """The arguments of every command that looks at a store."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print JSON and nothing else")
    shared.add_argument("--url", help="the store (default: INTURN_URL, then REDIS_URL, else sqlite:///inturn.db)")
    shared.add_argument("--namespace", help="the namespace in the store (default: INTURN_NAMESPACE, else inturn)")
    return shared


def _add_lanes(parser: argparse.ArgumentParser) -> None:
    shared = _shared()
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", title="actions")
    for name, told in (
        ("ls", "list the lanes that are running, waiting or stopped"),
        ("show", "show one lane: its state, the running turn, and the waiting messages in order"),
        ("pause", "start no more turns in a lane; a running turn may finish, and messages are still accepted"),
        ("resume", "resume a paused or parked lane"),
        ("clear", "remove a lane's messages and state for good"),
        ("dead", "list the dead letters, or show one with its errors"),
        ("replay", "put dead letters back into their lanes, with their attempts reset"),
        ("drop", "remove dead letters for good"),
    ):
        action = actions.add_parser(
            name, parents=[shared], help=told, description=told, epilog=LANE_FIELDS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        if name in ("show", "pause", "resume", "clear"):
            action.add_argument("key", metavar="KEY")
        if name in ("dead", "replay", "drop"):
            action.add_argument("place", metavar="KEY HANDLER ID", nargs="*", help="one dead letter")
        if name in ("replay", "drop"):
            action.add_argument("--all", action="store_true", help="every dead letter")
            action.add_argument("--handler", metavar="NAME", help="with --all: only the dead letters of this handler")
        if name in ("clear", "drop"):
            action.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        if name == "pause":
            action.add_argument(
                "--why", default="paused by hand", help="the reason, which ls and show print (default: paused by hand)"
            )
        if name in ("ls", "show", "dead"):
            shown, of_what = (20, " messages") if name == "show" else (1000, "")
            told = f"show at most this many{of_what} (default: {shown})"
            action.add_argument("--limit", type=int, default=shown, help=told)
            action.add_argument("--watch", action="store_true", help="refresh about every second, until Ctrl-C")


def _add_jobs(parser: argparse.ArgumentParser) -> None:
    shared = _shared()
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", title="actions")
    for name, told in (
        ("ls", "list the jobs that run, or wait in the store, and what waits on RabbitMQ"),
        ("show", "show one job: how far it is, its errors and its outcome"),
        ("dead", "list the dead jobs, or show one with its payload and errors"),
        ("replay", "run dead jobs again under their own ids, with their attempts reset"),
        ("drop", "remove dead jobs for good"),
    ):
        action = actions.add_parser(
            name, parents=[shared], help=told, description=told, epilog=JOB_FIELDS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        if name != "ls":
            action.add_argument("id", metavar="ID", nargs=None if name == "show" else "?", help="the id of a job")
        if name in ("replay", "drop"):
            action.add_argument("--all", action="store_true", help="every dead job")
        if name == "drop":
            action.add_argument("--yes", action="store_true", help="do not ask for confirmation")
        if name in ("ls", "dead"):
            action.add_argument("--limit", type=int, default=1000, help="show at most this many (default: 1000)")
        if name in ("ls", "show", "dead"):
            action.add_argument("--watch", action="store_true", help="refresh about every second, until Ctrl-C")
    worker = actions.add_parser("worker", help="work on the jobs of the AI service", description=JOB_WORKER)
    worker.add_argument("--url", help="the store (default: INTURN_URL, then REDIS_URL, else sqlite:///inturn.db)")
    worker.add_argument("--namespace", help="the namespace in the store (default: INTURN_NAMESPACE, else inturn)")
    told = "how many jobs to work on at once (default: INTURN_JOB_CONCURRENCY, else 10)"
    worker.add_argument("--concurrency", type=int, help=told)
    worker.add_argument("--grace", type=float, help="seconds that running jobs have to finish (default: 30)")
    told = "where your capabilities are, such as shop.ai:capabilities (default: INTURN_CAPABILITIES, else parse-task)"
    worker.add_argument("--capabilities", metavar="MODULE:NAME", help=told)


def _add_locks(parser: argparse.ArgumentParser) -> None:
    shared = _shared()
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", title="actions")
    for name, told in (
        ("ls", "list the locks that are held or waited for"),
        ("show", "show one lock: its holders, and its waiters in order"),
        ("release", "force-release a lock; the code that runs under it is cancelled"),
    ):
        action = actions.add_parser(
            name, parents=[shared], help=told, description=told, epilog=LOCK_FIELDS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        if name != "ls":
            action.add_argument("name", metavar="NAME")
        if name == "release":
            action.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def _keep_logs_quiet() -> None:
    """Without a handler Python prints warnings itself; a command says what matters in its own words."""
    logger = logging.getLogger("inturn")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


class _Parser(argparse.ArgumentParser):
    """Wrong usage gets one sentence that says where to read more."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"inturn: {message}; see {self.prog} --help\n")


if __name__ == "__main__":
    sys.exit(main())
