"""A process that keeps reading one state of a database file, until it is told to end that: python -m ... <path>."""

from __future__ import annotations

import json
import sqlite3
import sys


def say(event: str) -> None:
    print(json.dumps({"event": event, "name": ""}), flush=True)


def main() -> None:
    connection = sqlite3.connect(sys.argv[1], isolation_level=None)
    connection.execute("BEGIN")
    connection.execute("SELECT count(*) FROM store").fetchone()
    say("reading")
    sys.stdin.readline()
    connection.execute("COMMIT")
    say("done")
    sys.stdin.readline()


if __name__ == "__main__":
    main()
