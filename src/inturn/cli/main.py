"""The `inturn` command: it reads the arguments, calls the part concerned, and turns errors into one sentence.

Exit codes: 0 done; 1 the store is away, or what was asked for is not there; 2 wrong usage or settings; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from inturn.errors import InTurnError

log = logging.getLogger("inturn.cli.main")

LOCK_FIELDS = """\
the JSON of one lock:
  name      text
  capacity  how much weight may be held at once: 1 for a lock, n for a semaphore
  holders   list of {owner, host, pid, fence, held_s, weight, ends_in_s}; ends_in_s is null while the
            process that holds it goes on renewing it
  waiters   list of {owner, host, pid, waited_s, priority, weight}, in the order in which they will get it

  ls       prints {"locks": [lock, ...]}
  show     prints {"lock": lock}; null, and exit code 1, when nobody holds it and nobody waits for it
  release  prints {"name": text, "released": number of holders it was taken from}; exit code 1 when that is 0
"""

LANE_FIELDS = """\
the JSON of one lane:
  ls       prints {"lanes": [{key, status, handler, holder, held_s, waiting, why, is_unhandled}, ...]}; status is
           running, ready, waiting, paused or parked; is_unhandled: no living worker runs the handler that comes next
  show     prints {"lane": {key, status, holder, held_s, fence, running, waiting, messages, why, state, version,
           state_expires_in_s}}; null, and exit code 1, when there is neither a message nor a state.
           A message (running, and the first of those that wait) is {handler, id, priority, attempts, age_s,
           due_in_s, is_inline, body, errors}
  pause    prints {"key": text, "paused": true}
  resume   prints {"key": text, "resumed": true or false}; exit code 1 when it was not stopped
  clear    prints {"key": text, "cleared": true or false, "messages": number}; exit code 1 when there was nothing
  dead     prints {"dead": [letter, ...]}, the oldest first; with KEY HANDLER ID {"dead_letter": letter}, or null and
           exit code 1. A letter is {key, handler, id, body, attempts, accepted_at, died_at, errors}; an error
           {type, message, attempt, at, traceback}
  replay   prints {"replayed": number}; exit code 1 when the one that was named is not there
  drop     prints {"dropped": number}; exit code 1 when the one that was named is not there
  --watch  prints one such document per line, about every second, until Ctrl-C
"""

WORKER = "Run the handlers of an app until SIGTERM or SIGINT: running turns may finish, the rest is handed back."

SERVE = """\
Serve the HTTP API, a worker and the chat page until SIGTERM or SIGINT: running turns may finish, then it stops. Without
API keys (INTURN_API_KEYS_FILE, INTURN_API_KEYS) it serves this machine alone.
"""

BENCH_FIELDS = """\
the JSON holds each figure under its own name, and beside them
  details   by figure: value, bar, reached (null: only reported), unit, and the medians of each side, by round
  versions, machine, date, rounds, seconds
"""


def main(argv: Sequence[str] | None = None) -> int:
    _keep_logs_quiet()
    try:
        arguments = _parser().parse_args(argv)
        return _run(arguments)
    except SystemExit as end:  # argparse: --help, --version, or wrong usage that it has told already
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
    """What a command needs is imported when it runs, so that `--help` does not wait for it."""
    if arguments.command == "demo":
        return _run_demo(arguments)
    if arguments.command == "bench":
        from inturn.bench import run_bench

        return run_bench(arguments)
    from inturn import terminal

    commands = {
        "locks": terminal.run_locks, "lanes": terminal.run_lanes, "worker": terminal.run_worker,
        "serve": terminal.run_serve,
    }  # fmt: skip
    return commands[arguments.command](arguments)


def _run_demo(arguments: argparse.Namespace) -> int:
    if arguments.subject is None:
        from inturn.demo import show_demo

        return show_demo()
    from inturn.demo.policies import draw_all, show_policies

    if arguments.pictures is None:
        return show_policies(url=arguments.url, fast=arguments.fast)
    drawn = draw_all(arguments.pictures)
    print(f"{len(drawn)} pictures drawn into {arguments.pictures}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="inturn", description="Every conversation, in turn.")
    parser.add_argument("--version", action="version", version=f"inturn {version('inturn')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    _add_serve(commands.add_parser("serve", help="serve the HTTP API, a worker and the chat page", description=SERVE))
    _add_demo(commands.add_parser("demo", help="show a race of eight processes, and its cure; needs no server"))
    _add_worker(commands.add_parser("worker", help="run the handlers of an app", description=WORKER))
    _add_lanes(commands.add_parser("lanes", help="look at the lanes of a store, and at dead letters"))
    _add_locks(commands.add_parser("locks", help="look at the locks of a store"))
    _add_bench(commands.add_parser("bench", help="measure"))
    return parser


def _add_demo(parser: argparse.ArgumentParser) -> None:
    told = "what each policy does to the same burst of messages, side by side"
    subjects = parser.add_subparsers(dest="subject", metavar="SUBJECT", title="subjects (without one: the race)")
    policies = subjects.add_parser("policies", help=told, description=told)
    policies.add_argument("--url", help="play on this store (default: an SQLite file that is gone afterwards)")
    policies.add_argument("--fast", action="store_true", help="four times as fast, and only the result")
    policies.add_argument("--pictures", metavar="FOLDER", type=Path, help="draw the tables as SVG instead of playing")


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="the address to listen on (default: INTURN_HOST, else 127.0.0.1)")
    parser.add_argument("--port", type=int, help="the port; 0 takes a free one (default: INTURN_PORT, else 8420)")
    parser.add_argument("--url", help="the store (default: INTURN_URL, REDIS_URL, else sqlite:///inturn.db)")
    parser.add_argument("--namespace", help="the namespace in it (default: INTURN_NAMESPACE, else inturn)")
    parser.add_argument(
        "--workflows", metavar="PATH", help="a folder or file of workflow definitions (INTURN_WORKFLOWS)"
    )
    told = "turns of the worker at a time (default: INTURN_CONCURRENCY, else 10)"
    parser.add_argument("--concurrency", type=int, help=told)
    parser.add_argument("--grace", type=float, default=30, help="seconds to finish after a signal (default: 30)")


def _add_worker(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("app", metavar="MODULE:APP", help="where the inturn.InTurn is, such as shop.lanes:app")
    parser.add_argument("--concurrency", type=int, default=10, help="turns at a time (default: 10)")
    parser.add_argument("--grace", type=float, default=30, help="seconds to finish after a signal (default: 30)")


def _shared() -> argparse.ArgumentParser:
    """What every look at a store takes."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print JSON and nothing else")
    shared.add_argument("--url", help="the store (default: INTURN_URL, REDIS_URL, else sqlite:///inturn.db)")
    shared.add_argument("--namespace", help="the namespace in it (default: INTURN_NAMESPACE, else inturn)")
    return shared


def _add_lanes(parser: argparse.ArgumentParser) -> None:
    shared = _shared()
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", title="actions")
    for name, told in (
        ("ls", "every lane that runs, waits or is stopped"),
        ("show", "one lane: its state, what runs, and what waits, in order"),
        ("pause", "let nothing more begin in a lane; what runs may finish, and messages are still accepted"),
        ("resume", "let a paused or parked lane go on"),
        ("clear", "remove the messages and the state of a lane for good"),
        ("dead", "the dead letters, or one of them with its errors"),
        ("replay", "put dead letters back into their lanes, with all their attempts"),
        ("drop", "remove dead letters for good"),
    ):
        action = actions.add_parser(
            name, parents=[shared], help=told, description=told, epilog=LANE_FIELDS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        if name in ("show", "pause", "resume", "clear"):
            action.add_argument("key", metavar="KEY")
        if name in ("dead", "replay", "drop"):
            action.add_argument("place", metavar="KEY HANDLER ID", nargs="*", help="which dead letter")
        if name in ("replay", "drop"):
            action.add_argument("--all", action="store_true", help="all that are there")
            action.add_argument("--handler", metavar="NAME", help="with --all: only those of this handler")
        if name in ("clear", "drop"):
            action.add_argument("--yes", action="store_true", help="do not ask")
        if name == "pause":
            action.add_argument("--why", default="paused by hand", help="the reason that others will read")
        if name in ("ls", "show", "dead"):
            most = 20 if name == "show" else 1000
            action.add_argument("--limit", type=int, default=most, help=f"how many are shown (default: {most})")
            action.add_argument("--watch", action="store_true", help="look again about every second, until Ctrl-C")


def _add_locks(parser: argparse.ArgumentParser) -> None:
    shared = _shared()
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", title="actions")
    for name, told in (
        ("ls", "every lock that is held or waited for"),
        ("show", "one lock: its holders, and its waiters in order"),
        ("release", "take a lock away from whoever holds it; their bodies are cancelled"),
    ):
        action = actions.add_parser(
            name, parents=[shared], help=told, description=told, epilog=LOCK_FIELDS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        if name != "ls":
            action.add_argument("name", metavar="NAME")
        if name == "release":
            action.add_argument("--yes", action="store_true", help="do not ask")


def _add_bench(parser: argparse.ArgumentParser) -> None:
    subjects = parser.add_subparsers(dest="subject", required=True, metavar="SUBJECT", title="subjects")
    for name, told in (
        ("locks", "the locks against their peers, in one run, on a private Redis"),
        ("turns", "turns of a lane against the common recipe, in one run, on a private Redis"),
        ("policies", "interrupts, bursts, watchers and a cluster, in one run, on private Redis servers"),
        ("conversations", "what the orchestrator adds to an agent's answer, and turns over HTTP, in one run"),
    ):
        subject = subjects.add_parser(
            name, help=told, description=told, epilog=BENCH_FIELDS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        told_json = "print JSON and nothing else (progress goes to stderr)"
        subject.add_argument("--json", action="store_true", help=told_json)
        subject.add_argument("--quick", action="store_true", help="three short rounds instead of five")
        subject.add_argument("--full", action="store_true", help="the largest sizes, too")
        subject.add_argument("--redis", metavar="URL", help="measure on this Redis instead of a private one")
        subject.add_argument("--picture", metavar="FILE.svg", help="draw the figures into this file, too")
        subject.add_argument("--rounds", type=int, help=argparse.SUPPRESS)
        subject.add_argument("--scale", type=float, help=argparse.SUPPRESS)


def _keep_logs_quiet() -> None:
    """Without a handler Python prints warnings itself; a command says what there is to say in its own words."""
    logger = logging.getLogger("inturn")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


class _Parser(argparse.ArgumentParser):
    """Wrong usage is one sentence, and where to read more."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"inturn: {message}; see {self.prog} --help\n")


if __name__ == "__main__":
    sys.exit(main())
