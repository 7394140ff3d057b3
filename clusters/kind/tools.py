"""What kind clusters are made with, as far as this machine has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clusters.kind import binary, engine, leftovers
from clusters.kind.binary import Kind
from clusters.kind.engine import Engine
from clusters.kind.image import node_image, probe_archive


@dataclass(frozen=True)
class Tools:
    """A container engine that answers, the kind command, a node image, and an archive of the images of tests."""

    engine: Engine
    kind: Kind
    image: str
    probe: Path | None = None


def find(version: str, progress: Callable[[str], None]) -> Tools:
    """The tools for clusters of a Kubernetes version; the engine is to be closed. Raises ClusterError.

    What killed runs have left is taken away before.
    """
    command = binary.find(progress)
    archive = probe_archive(progress)
    found = engine.find(progress)
    try:
        leftovers.sweep(progress)
        image = node_image(found, version, progress)
    except BaseException:
        found.close()
        raise
    return Tools(found, command, image, archive)
