"""A Telegram for benchmarks: the first line is its address, and it serves until SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import signal

from tests.servers.telegram.server import TOKEN, TelegramServer


async def run(arguments: argparse.Namespace) -> None:
    ends = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ends.set)
    server = TelegramServer(
        tokens=arguments.token or [TOKEN],
        latency_s=arguments.latency,
        port=arguments.port,
        is_quiet=arguments.quiet,
    )
    async with server:
        print(server.url, flush=True)
        await ends.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.servers.telegram", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--latency", type=float, default=0.0, help="of every call, in seconds")
    parser.add_argument("--token", action="append", help="of a bot; may be given more than once")
    parser.add_argument("--quiet", action="store_true", help="count the calls only, do not keep them")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
