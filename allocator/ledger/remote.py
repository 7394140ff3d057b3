"""The ledger in a Redis server, which several processes and machines may share.

One script on the server does each operation. Redis runs it by itself and as a whole, so that there is nothing between
a question and its answer, and nothing half done when a client dies. A server that was started anew, or took over from
another, counts as empty: it may have lost the last reservations.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any, Final

from redis.asyncio import Connection, ConnectionPool, Redis, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from .address import parse
from .interface import FORGOTTEN_AFTER, Ledger
from .records import LedgerUnavailableError

_CONNECTIONS: Final[Mapping[str, type[AbstractConnection]]] = {
    "redis": Connection,
    "rediss": SSLConnection,
    "unix": UnixDomainSocketConnection,
}
_PARTS: Final = ("meta", "entries", "held", "changes", "removed", "pending")
_SECONDS: Final = 5.0
_KEPT: Final = 3600
"""How long (seconds) a server keeps a ledger that nobody uses."""
_SCRIPT: Final = resources.files(__package__).joinpath("ledger.lua").read_text(encoding="utf-8")


class RedisLedger(Ledger):
    """A client of its own; use it in one event loop."""

    def __init__(
        self, client: Redis, prefix: str, where: str = "Redis", remembered: int = FORGOTTEN_AFTER
    ) -> None:
        """`prefix` begins all keys; schedulers of one cluster have the same. `where` is for messages."""
        self._client = client
        self._where = where
        self._remembered = remembered
        # One hash tag, so that all keys are on one server of a Redis Cluster.
        self._keys = [f"{{{prefix}}}:{part}" for part in _PARTS]
        self._script = client.register_script(_SCRIPT)

    async def _call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            text = await self._script(self._keys, [operation, json.dumps(arguments), self._remembered, _KEPT])
        except (RedisError, OSError, TimeoutError) as error:
            _heed_cancellation()
            raise self._unavailable(error) from None
        _heed_cancellation()
        answer: dict[str, Any] = json.loads(text)
        return answer

    async def remove(self) -> None:
        """Remove all of it from the server. Raises LedgerUnavailableError."""
        try:
            await self._client.delete(*self._keys)
        except (RedisError, OSError, TimeoutError) as error:
            raise self._unavailable(error) from None

    def _unavailable(self, error: Exception) -> LedgerUnavailableError:
        words = " ".join(str(error).split()) or type(error).__name__
        return LedgerUnavailableError(f"the ledger at {self._where} cannot be used: {words}")

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()


def _heed_cancellation() -> None:
    """Raise CancelledError when the task was cancelled and the client library has kept that to itself."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def connect(url: str, prefix: str) -> RedisLedger:
    """The ledger at a URL of Redis: redis://, rediss:// or unix://. Raises ValueError for one that cannot be used."""
    address = parse(url)
    pool = ConnectionPool(
        _CONNECTIONS[address.scheme],
        **{
            "socket_timeout": _SECONDS,
            "socket_connect_timeout": _SECONDS,
            # Every operation may be asked for twice.
            "retry": Retry(NoBackoff(), 1),
            **address.options,
        },
    )
    if address.scheme == "rediss":
        try:
            # What the files of its options hold comes out with the first connection.
            pool.make_connection().ssl_context.get()  # type: ignore[no-untyped-call]
        except (OSError, ValueError):
            raise ValueError(f"{address.where}: certificates or keys of its options cannot be used") from None
    return RedisLedger(Redis.from_pool(pool), prefix, address.where)
