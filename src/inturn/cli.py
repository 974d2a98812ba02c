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
from typing import NoReturn

from inturn.errors import InTurnError

log = logging.getLogger("inturn.cli")

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
    except (InTurnError, ValueError, TypeError) as error:
        log.debug("failed", exc_info=True)
        print(f"inturn: {error}", file=sys.stderr)
        return 2 if isinstance(error, ValueError | TypeError) else 1


def _run(arguments: argparse.Namespace) -> int:
    """What a command needs is imported when it runs, so that `--help` does not wait for it."""
    if arguments.command == "demo":
        from inturn.demo import show_demo

        return show_demo()
    if arguments.command == "bench":
        from inturn.bench import run_bench

        return run_bench(arguments)
    from inturn.terminal import run_locks

    return run_locks(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="inturn", description="Every conversation, in turn.")
    parser.add_argument("--version", action="version", version=f"inturn {version('inturn')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    commands.add_parser("demo", help="show a race of eight processes, and its cure; needs no server")
    _add_locks(commands.add_parser("locks", help="look at the locks of a store"))
    _add_bench(commands.add_parser("bench", help="measure"))
    return parser


def _add_locks(parser: argparse.ArgumentParser) -> None:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print JSON and nothing else")
    shared.add_argument("--url", help="the store (default: INTURN_URL, REDIS_URL, else sqlite:///inturn.db)")
    shared.add_argument("--namespace", help="the namespace in it (default: INTURN_NAMESPACE, else inturn)")

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
    told = "the locks against their peers, in one run, on a private Redis"
    locks = subjects.add_parser(
        "locks", help=told, description=told, epilog=BENCH_FIELDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    locks.add_argument("--json", action="store_true", help="print JSON and nothing else (progress goes to stderr)")
    locks.add_argument("--quick", action="store_true", help="three short rounds instead of five")
    locks.add_argument("--redis", metavar="URL", help="measure on this Redis instead of a private one")
    locks.add_argument("--picture", metavar="FILE.svg", help="draw the figures into this file, too")
    locks.add_argument("--rounds", type=int, help=argparse.SUPPRESS)
    locks.add_argument("--scale", type=float, help=argparse.SUPPRESS)


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
