"""Which device is configured for which claim: what the records of the journal add up to.

The journal is the truth, so a process can be killed at any moment and state and journal still agree.
`state.json` is a copy of the sum so far, which only saves reading the journal from its start.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fake_hw import journal, state
from fake_hw.errors import TreeError
from fake_hw.journal import Clock, Event

_SNAPSHOT: Final = "state.json"


@dataclass(frozen=True)
class Use:
    """How a device is configured for one claim; `since_ns` is CLOCK_MONOTONIC."""

    settings: Mapping[str, Any]
    shared: bool
    since_ns: int


@dataclass
class Usage:
    """What the records of the journal up to the byte `offset` add up to.

    `attempts` counts the configure calls that were decided, whatever their outcome; `devices` is PCI address
    -> claim UID -> use.
    """

    offset: int = 0
    attempts: int = 0
    devices: dict[str, dict[str, Use]] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        """Add the next record."""
        uses = self.devices.setdefault(event.bdf, {})
        if event.kind in ("configure", "configure-failed"):
            self.attempts += 1
        if event.kind == "configure":
            before = uses.get(event.claim)
            since = before.since_ns if before else event.monotonic_ns
            uses[event.claim] = Use(event.settings, event.shared, since)
        elif event.kind == "reset":
            uses.pop(event.claim, None)
        elif event.kind == "vanish":
            uses.clear()
        if not uses:
            del self.devices[event.bdf]


def _snapshot(directory: Path) -> Usage:
    """The copy; nothing, so that the journal is read from its start, when it is of no use."""
    path = directory / _SNAPSHOT
    try:
        if not path.is_file():
            return Usage()
        saved = state.read_json(path)
        if saved["offset"] > (directory / journal.FILE).stat().st_size:
            return Usage()
        devices = {
            bdf: {claim: Use(**use) for claim, use in uses.items()} for bdf, uses in saved["devices"].items()
        }
        return Usage(saved["offset"], saved["attempts"], devices)
    except (TreeError, FileNotFoundError, LookupError, TypeError, AttributeError):
        return Usage()


def load(directory: Path) -> Usage:
    """The usage of now: the copy, and the records behind it."""
    current = _snapshot(directory)
    events, current.offset = journal.read_from(directory, current.offset)
    for event in events:
        current.apply(event)
    return current


def record(directory: Path, event: Event, clock: Clock) -> None:
    """Write a record to the journal and bring the copy up to date. The caller holds the lock of the tree."""
    journal.append(directory, event, clock)
    current = load(directory)
    devices = {
        bdf: {claim: vars(use) for claim, use in uses.items()} for bdf, uses in current.devices.items()
    }
    copy = {"offset": current.offset, "attempts": current.attempts, "devices": devices}
    state.replace(directory / _SNAPSHOT, json.dumps(copy, indent=1).encode(), directory)
