"""Takes away what kind clusters leave: their containers, network, folder and record, and a private engine unused.

An orderly end does it for its own cluster; `sweep` for clusters whose owner was killed. Clusters of living owners, and
clusters that drakit has not written down, are never touched.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clusters.guardian import kill_owned
from clusters.interface import ClusterError
from clusters.kind import engine as engines
from clusters.kind import failpoints, private_engine, records
from clusters.kind.engine import Engine
from clusters.kind.records import ClusterRecord

Progress = Callable[[str], None]

LABEL: Final = "io.drakit.cluster"
"""Label of a cluster's own network; its value is the cluster's name."""

_KIND_LABEL: Final = "io.x-k8s.kind.cluster"
_REMOVE_SECONDS: Final = 120.0
_DETACH: Final = 2
_SHORTEST_ROOT: Final = 3


@dataclass(frozen=True)
class Record:
    """A cluster of this process that is written down."""

    name: str
    engine: Engine

    def remove(self) -> None:
        """Remove its containers and network, then forget it; its folder is its owner's. Raises ClusterError."""
        failpoints.reach("deleting")
        remove_containers(self.engine, self.name)
        remove_network(self.engine, self.name)
        failpoints.reach("deleted")
        records.remove(self.name)


def write(name: str, root: Path, engine: Engine, mark: str = "") -> Record:
    """Write a cluster down; nothing of it may be there before.

    `root` is its folder, `mark` that of the processes that are started for it. Raises KindError.
    """
    records.write(name, root, engine.identity, mark)
    return Record(name, engine)


def sweep(progress: Progress) -> list[str]:
    """Remove what dead owners left; a line for each thing that is gone.

    What cannot be removed now, as its engine does not answer, is told to `progress` and stays written down. Raises
    ClusterError when a private engine does not end.
    """
    gone: list[str] = []
    homes = {private_engine.default_home()}
    found = [record for record in records.read() if not record.alive]
    if found:
        with records.alone():
            # Another run may have taken some away meanwhile.
            for record in (record for record in records.read() if not record.alive):
                if (home := engines.private_home(record.engine)) is not None:
                    homes.add(home)
                progress(f"removing what is left of kind cluster {record.name}")
                try:
                    _sweep(record, progress)
                except ClusterError as error:
                    progress(f"kind cluster {record.name} cannot be removed now: {error}")
                else:
                    gone.append(f"removed what was left of kind cluster {record.name}")
    for home in sorted(homes):
        if private_engine.stop_unused(progress, home):
            gone.append("stopped a container engine that nobody used")
    return gone


def _sweep(record: ClusterRecord, progress: Progress) -> None:
    if record.mark:
        # First of all a `kind create cluster` that would go on making containers.
        kill_owned(record.mark)
    failpoints.reach("deleting")
    with engines.reopen(record.engine, progress) as engine:
        remove_containers(engine, record.name)
        remove_network(engine, record.name)
        # What the engine was making for a command that was killed is there by now.
        remove_containers(engine, record.name)
    failpoints.reach("deleted")
    remove_root(Path(record.root))
    records.remove(record.name)


def remove_containers(engine: Engine, name: str) -> None:
    """Remove the containers of a kind cluster and their volumes. Raises EngineError."""
    listed = engine.run("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={_KIND_LABEL}={name}")
    if found := listed.split():
        engine.run("rm", "--force", "--volumes", *found, timeout=_REMOVE_SECONDS)


def remove_network(engine: Engine, name: str) -> None:
    """Remove the network of a cluster. Raises EngineError."""
    listed = engine.run("network", "ls", "--quiet", "--no-trunc", "--filter", f"label={LABEL}={name}")
    if found := listed.split():
        engine.run("network", "rm", *found)


def remove_root(root: Path) -> None:
    """Remove the folder of a cluster, file systems that are mounted in it taken away first."""
    if not root.is_absolute() or len(root.parts) < _SHORTEST_ROOT:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    for mounted in reversed(mounts_below(root, Path("/proc/self/mountinfo").read_text(encoding="utf-8"))):
        libc.umount2(os.fsencode(mounted), _DETACH)
    shutil.rmtree(root, ignore_errors=True)


def mounts_below(root: Path, mountinfo: str) -> list[str]:
    """The mount points in a folder, in the order in which they were mounted, from a /proc/PID/mountinfo."""
    # A blank in a path is written as the number of its character, in octal digits.
    points = [
        re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), line.split()[4])
        for line in mountinfo.splitlines()
    ]
    return [point for point in points if root in Path(point).parents]
