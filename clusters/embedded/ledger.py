"""The ledger that the schedulers of an embedded cluster share, as a component."""

from __future__ import annotations

from pathlib import Path

from allocator.ledger.server import LedgerServer
from clusters.embedded.components.component import Context


class LedgerComponent:
    """One life of the server; the next one begins empty, and schedulers fill it from the API."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def run(self, context: Context) -> None:
        """Serve until cancelled."""
        context.log.info("serving at %s", self._socket)
        await LedgerServer(self._socket).run()
