"""What a driver does to hardware: configure a device for a claim, reset it, ask what is configured.

The hardware refuses no double use, as real devices do not; `journal.overlaps` finds it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fake_hw import faults, state, usage
from fake_hw.errors import ConfigureError, ConfigureTimeoutError, DeviceNotFoundError
from fake_hw.journal import Clock, Event
from fake_hw.reader import Host
from fake_hw.topology import FEATURES
from fake_hw.usage import Use

_POLL_SECONDS: Final = 0.01
"""How often a blocked call looks whether it was released: another process releases it by replacing a file."""


class Backend:
    """The hardware below one root. Any number of threads and processes may have one each."""

    def __init__(self, root: Path, *, clock: Clock | None = None, block_seconds: float = 300.0) -> None:
        self.root = Path(root)
        self.clock = clock or Clock()
        self.block_seconds = block_seconds

    def configure(
        self, bdf: str, claim_uid: str, settings: Mapping[str, Any] | None = None, *, shared: bool = False
    ) -> None:
        """Configure a device for a claim; without settings nothing is changed in it, only its use begins.

        Repeating it for the same claim replaces the settings. A setting with the name of a feature (case
        ignored) needs a device that declares the feature supported. `shared` says that other claims may have
        the device too.

        Raises DeviceNotFoundError, ConfigureError (a fault, a missing feature), ConfigureTimeoutError when a
        fault blocked the call for longer than `block_seconds`.
        """
        event = Event("configure", bdf, claim_uid, shared, json.loads(json.dumps(dict(settings or {}))))
        deadline = time.monotonic() + self.block_seconds
        waiting = False
        while not self._configure_unless_blocked(event, first=not waiting):
            waiting = True
            if time.monotonic() > deadline:
                raise ConfigureTimeoutError(
                    f"{bdf}: configuring for claim {claim_uid} was blocked for {self.block_seconds:g} s;"
                    f" release it with: fault {self.root} release {bdf}"
                )
            time.sleep(_POLL_SECONDS)

    def reset(self, bdf: str, claim_uid: str) -> bool:
        """Return a device to its starting state; False when the claim did not have it (any more)."""
        with state.locked(self.root) as directory:
            had = claim_uid in usage.load(directory).devices.get(bdf, {})
            detail = "" if had else "was not configured"
            usage.record(directory, Event("reset", bdf, claim_uid, detail=detail), self.clock)
            return had

    def configured(self) -> dict[str, dict[str, Use]]:
        """PCI address -> claim UID -> use, for all devices that are configured now."""
        return usage.load(state.directory(self.root)).devices

    def _configure_unless_blocked(self, event: Event, first: bool) -> bool:
        with state.locked(self.root) as directory:
            active = faults.load(directory)
            if active.blocks(event.bdf):
                if first:
                    usage.record(directory, Event("configure-blocked", event.bdf, event.claim), self.clock)
                return False
            error = self._refusal(event, active, usage.load(directory).attempts)
            if error is not None:
                usage.record(
                    directory,
                    Event("configure-failed", event.bdf, event.claim, detail=str(error)),
                    self.clock,
                )
                raise error
            usage.record(directory, event, self.clock)
            return True

    def _refusal(
        self, event: Event, active: faults.FaultSet, attempts: int
    ) -> DeviceNotFoundError | ConfigureError | None:
        gpu = Host(self.root).gpu(event.bdf)
        if gpu is None:
            return DeviceNotFoundError(f"{event.bdf}: no such GPU below {self.root}")
        if active.fails(event.bdf, attempts + 1):
            return ConfigureError(
                f"{event.bdf}: the device does not answer to the configuration (injected fault)"
            )
        for name in event.settings:
            feature = name.lower()
            if feature in FEATURES and not gpu.features.get(feature):
                return ConfigureError(
                    f'{event.bdf}: setting "{name}" needs the feature {feature}, which it lacks'
                )
        return None
