"""The ledger: who has which device, for several schedulers of one cluster.

`Session` is one scheduler's part in it; backends are `MemoryLedger` (one process) and `remote.connect` (any Redis, that
of `server.LedgerServer` included). docs/ledger.md says what is guaranteed.
"""

from .interface import Caller, Ledger, Opened
from .keys import fact_of, holding_of, key_of, same_devices, version_of
from .memory import MemoryLedger
from .records import (
    Answer,
    ClaimKey,
    Conflict,
    Delta,
    Entry,
    Fact,
    Holding,
    LedgerLostError,
    LedgerUnavailableError,
    State,
    Wish,
)
from .session import Grant, RacedError, Seen, Session
from .store import ClaimStore, StoreError

__all__ = [
    "Answer",
    "Caller",
    "ClaimKey",
    "ClaimStore",
    "Conflict",
    "Delta",
    "Entry",
    "Fact",
    "Grant",
    "Holding",
    "Ledger",
    "LedgerLostError",
    "LedgerUnavailableError",
    "MemoryLedger",
    "Opened",
    "RacedError",
    "Seen",
    "Session",
    "State",
    "StoreError",
    "Wish",
    "fact_of",
    "holding_of",
    "key_of",
    "same_devices",
    "version_of",
]
