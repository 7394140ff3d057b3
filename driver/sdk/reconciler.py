"""Gives back what belongs to claims that have gone from the API, and finishes what has failed before.

A claim can disappear without an unprepare, when its pod is deleted by force while the driver is down. It is
released only when it was gone at two looks in a row: the kubelet may still be stopping its containers, and
its unprepare comes first then.
"""

from __future__ import annotations

import threading

from driver.sdk import log
from driver.sdk.checkpoint import Checkpoint
from driver.sdk.errors import ClaimError
from driver.sdk.preparer import ClaimReader, Preparer
from driver.sdk.records import ClaimEntry, State


class Reconciler:
    """Looks at every prepared claim from time to time."""

    def __init__(self, checkpoint: Checkpoint, preparer: Preparer, claims: ClaimReader) -> None:
        self._checkpoint = checkpoint
        self._preparer = preparer
        self._claims = claims
        self._missing: set[str] = set()

    def run(self, stop: threading.Event, interval: float) -> None:
        """Look at once and then every `interval` seconds, until `stop` is set."""
        while True:
            self.look()
            if stop.wait(interval):
                return

    def look(self) -> None:
        """One round."""
        self._preparer.unfinished()
        missing = set()
        for entry in self._checkpoint.contents.entries.values():
            if entry.state is not State.PREPARED or entry.recovered or not self._gone(entry):
                continue
            if entry.ref.uid not in self._missing:
                missing.add(entry.ref.uid)
                continue
            log.warning(
                "claim has gone without an unprepare, releasing it", claim=entry.ref, uid=entry.ref.uid
            )
            try:
                self._preparer.unprepare(entry.ref)
            except ClaimError as problem:
                log.warning("claim not released, tried again later", claim=entry.ref, problem=problem)
        self._missing = missing

    def _gone(self, entry: ClaimEntry) -> bool:
        """Whether the API has no claim with the UID; unknown counts as there."""
        try:
            claim = self._claims.claim(entry.ref.namespace, entry.ref.name)
        except ClaimError as problem:
            log.warning("claim cannot be looked up", claim=entry.ref, problem=problem)
            return False
        return claim is None or claim["metadata"]["uid"] != entry.ref.uid
