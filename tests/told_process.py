"""A process that tells about itself, for `test_module_process.py`. It ends when its standard input does."""

from __future__ import annotations

import atexit
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from inturn import InTurn
from tests.acceptance.actor import say

values: list[int] = []


def main() -> None:
    if "broken" in sys.argv:
        1 / 0  # noqa: B018
    if "orphan" in sys.argv:
        parent = os.getppid()
        say("waiting", read=sys.stdin.read())
        while os.getppid() == parent:
            time.sleep(0.02)
        say("orphaned")
        return
    atexit.register(say, "ended")
    for line in sys.stdin:
        told = json.loads(line)
        if told["do"] == "exit":
            sys.exit(told["code"])
        if told["do"] == "remember":
            values.append(told["value"])
            say("remembered", values=values)
        if told["do"] == "tell":
            say(
                "told",
                argv=sys.argv,
                folder=str(Path.cwd()),
                pid=os.getpid(),
                session=os.getsid(0),
                main=__name__,
                environ=dict(os.environ),
                random=random.random(),
                process=InTurn("sqlite:///:memory:").process.store.process,
                files=len(list(Path("/proc/self/fd").iterdir())),
                handles_ctrl_c=signal.getsignal(signal.SIGINT) is signal.default_int_handler,
            )


if __name__ == "__main__":
    main()
