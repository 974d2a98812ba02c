"""A process that holds a lock, forks, and lets the child work: `forking.py URL NAMESPACE`."""

from __future__ import annotations

import os
import sys

from inturn.sync import InTurn
from tests.acceptance.actor import say


def main() -> None:
    app = InTurn(sys.argv[1], namespace=sys.argv[2])
    lock = app.lock("mine", ttl=30)
    lock.acquire()
    lease = lock.lease
    say("held", fence=lease.fence, process=app.inner.process.store.process)
    pid = os.fork()
    if pid == 0:
        _child(app)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    # the child has used, and closed, what it has of the same app: what is ours must still be ours
    say("parent", is_lost=lease.lost, owned=lock.owned(), status=status)
    lock.release()
    say("released")
    app.close()


def _child(app: InTurn) -> None:
    taken = app.lock("mine", wait=0)
    with app.lock("other", ttl=30) as lease:
        say(
            "child",
            process=app.inner.process.store.process,
            got_the_parents=taken.acquire(),
            fence=lease.fence,
            pid=os.getpid(),
        )
        view = app.locks.inspect("other")
        assert view is not None
        say("seen", pid=view.holders[0].pid)
    app.close()
    say("done")


if __name__ == "__main__":
    main()
