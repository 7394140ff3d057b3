"""What the process of `drakit up` looks after while its cluster runs."""

from __future__ import annotations

import contextlib

from drakit.drivers import Drivers
from drakit.state import Folder
from drakit.tiers import RunningCluster


class Running:
    """Starts drivers again, and writes down which components do not run."""

    def __init__(self, folder: Folder, cluster: RunningCluster, drivers: Drivers | None) -> None:
        self._folder = folder
        self._cluster = cluster
        self._drivers = drivers
        self._dead: list[str] = []

    def look(self) -> None:
        """Look once; to be called every now and then."""
        dead = self._cluster.ended()
        if self._drivers is not None:
            dead += [f"driver-{node}" for node in self._drivers.ended()]
            self._drivers.revive()
        if dead != self._dead:
            # A full disk is no reason to end; the next look tries again.
            with contextlib.suppress(OSError):
                self._folder.write_dead(dead)
                self._dead = dead
