"""Serves the container runtimes of a cluster's nodes: `python -m clusters.local.cri --config FILE`.

Prints "ready" once all sockets of the file are served. SIGHUP reads the file again: nodes that are new in it are
served, those that are gone from it end, and "ready" is printed once more. SIGTERM and SIGINT end the process with
all containers.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from clusters.clock import Clock
from clusters.local.cri.config import ConfigError, load
from clusters.local.cri.server import CriServer

log = logging.getLogger("cri")
_USAGE = 2


async def run(file: Path) -> int:
    """Serve until a signal comes; returns the exit code."""
    loop = asyncio.get_running_loop()
    signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, signals.put_nowait, number)
    server = CriServer(Clock())
    try:
        await server.serve(load(file))
        print("ready", flush=True)  # noqa: T201 - who started this waits for it
        while await signals.get() is signal.SIGHUP:
            try:
                await server.serve(load(file))
                print("ready", flush=True)  # noqa: T201
            except (ConfigError, ValueError, OSError) as problem:
                log.error("the nodes stay as they are: %s", problem)
    except (ConfigError, ValueError, OSError) as problem:
        log.error("%s", problem)
        return _USAGE
    finally:
        await server.close()
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m clusters.local.cri", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="JSON file with the nodes to serve")
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    return asyncio.run(run(options.config))


if __name__ == "__main__":
    sys.exit(main())
