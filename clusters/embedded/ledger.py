"""The ledger that the schedulers of an embedded cluster share: a component, or a server of the user's."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

from allocator.ledger import LedgerUnavailableError
from allocator.ledger.remote import connect
from allocator.ledger.server import LedgerServer
from clusters.embedded.components.component import Context
from clusters.interface import ClusterError


class LedgerComponent:
    """One life of the server; the next one begins empty, and schedulers fill it from the API."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def run(self, context: Context) -> None:
        """Serve until cancelled."""
        context.log.info("serving at %s", self._socket)
        await LedgerServer(self._socket).run()


def check_server(url: str) -> None:
    """Raise ClusterError unless a Redis server answers at the URL and runs the ledger's script."""
    try:
        asyncio.run(_open_and_forget(url))
    except ValueError as error:
        raise ClusterError(f"--ledger: {error}") from None
    except LedgerUnavailableError as error:
        raise ClusterError(f"--ledger: {error}") from None


async def _open_and_forget(url: str) -> None:
    ledger = connect(url, f"drakit:check:{secrets.token_hex(8)}")
    try:
        await ledger.open("check")
        await ledger.remove()
    finally:
        await ledger.close()
