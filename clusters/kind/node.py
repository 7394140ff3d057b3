"""A node of a kind cluster: a container that holds a kubelet, with drivers beside it on the host."""

from __future__ import annotations

import os
from typing import Any, Final

from clusters.client import Client
from clusters.descriptor import Descriptor
from clusters.interface import ClusterError, NodePaths, NodeSpec
from clusters.kind import failpoints
from clusters.kind.components import Run, Unit
from clusters.kind.config import labels_of_administrators
from clusters.local.kubelet import extended_resources
from clusters.node import WithKubelet
from clusters.process import DriverProcess

# As in struct stat; device numbers are hexadecimal, and of a device node those that it stands for.
_STAT_FORMAT: Final = "%f %i %d %h %u %g %s %X %Y %Z %t %T"


class KindNode(WithKubelet):
    """Drivers run on the host; folder `paths.root` is there at the same path inside the node."""

    kubelet: Unit

    def __init__(
        self, name: str, spec: NodeSpec, paths: NodePaths, *, client: Client, run: Run, **parts: Any
    ) -> None:
        """`run` runs commands in its container; `parts` are those of DriverNode."""
        self._labels = labels_of_administrators(spec)
        self._extended = extended_resources(spec)
        super().__init__(name, spec, paths, client=client, **parts)
        self.run = run
        self.kubelet = Unit("kubelet", run)
        self.runtime = Unit("containerd", run)

    def complete(self, node: dict[str, Any]) -> bool:
        """Write to the Node what an administrator must; whether everything was there already."""
        done = True
        if self._labels.items() - (node["metadata"].get("labels") or {}).items():
            done = False
            self._client.patch("v1", "nodes", self.name, {"metadata": {"labels": self._labels}})
        if self._extended.items() - ((node.get("status") or {}).get("capacity") or {}).items():
            done = False
            body = {"status": {"capacity": self._extended, "allocatable": self._extended}}
            self._client.patch("v1", "nodes", self.name, body, subresource="status")
        return done

    def run_driver(self, descriptor: Descriptor) -> DriverProcess:
        """Prepare the node and start the driver on the host. Raises StartError."""
        process = super().run_driver(descriptor)
        failpoints.reach("drivers-running")
        return process

    def stat(self, path: str) -> os.stat_result:
        """Status of a path as the node sees it. Raises OSError."""
        return stat_in(self.run, path)


def stat_in(run: Run, path: str) -> os.stat_result:
    """Status of a path where `run` runs commands. Raises OSError."""
    try:
        words = run("stat", "--dereference", f"--format={_STAT_FORMAT}", "--", path).split()
    except ClusterError as error:
        raise FileNotFoundError(f"{path}: {error}") from None
    mode, *numbers, major, minor = words
    # (mode, inode, device, links, user, group, size, access, modification, change)
    known = (int(mode, 16), *map(int, numbers))
    return os.stat_result(known, {"st_rdev": os.makedev(int(major, 16), int(minor, 16))})
