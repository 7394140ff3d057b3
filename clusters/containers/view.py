"""What a container sees: the outcome of its configuration and of CDI, as a probe in it would find it."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of a container whose image and Pod do not set it."""


@dataclass(frozen=True)
class VisibleDevice:
    """A device node in the container: type b, c, u or p, its numbers, permission bits, owner, cgroup access."""

    path: str
    type: str
    major: int
    minor: int
    file_mode: int = 0o666
    uid: int = 0
    gid: int = 0
    access: str = "rwm"


@dataclass(frozen=True)
class VisibleMount:
    """A mount; `source` is the path on the host."""

    destination: str
    source: str
    type: str = "bind"
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class RecordedHook:
    """A hook that an OCI runtime would run; the simulated one only records it."""

    stage: str
    path: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    timeout: int | None = None


@dataclass(frozen=True)
class ContainerView:
    """All that a program in the container can find out about it.

    `limits` has only what is limited: memory (bytes), cpuQuota, cpuPeriod (microseconds), cpuShares, cpusetCpus,
    cpusetMems, and hugepages-SIZE (bytes).
    """

    hostname: str = ""
    arguments: tuple[str, ...] = ()
    working_dir: str = "/"
    environment: Mapping[str, str] = field(default_factory=dict)
    devices: tuple[VisibleDevice, ...] = ()
    mounts: tuple[VisibleMount, ...] = ()
    limits: Mapping[str, int | str] = field(default_factory=dict)
    hooks: tuple[RecordedHook, ...] = ()
    uid: int = 0
    gid: int = 0
    groups: tuple[int, ...] = ()
    intel_rdt: Mapping[str, object] | None = None
    net_devices: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()

    def mount(self, path: str) -> VisibleMount | None:
        """The innermost mount that covers a path, if any."""
        path = posixpath.normpath(posixpath.join(self.working_dir, path))
        best: VisibleMount | None = None
        for mount in self.mounts:
            destination = posixpath.normpath(mount.destination)
            inside = path == destination or path.startswith(destination.rstrip("/") + "/")
            if inside and (best is None or len(destination) >= len(posixpath.normpath(best.destination))):
                best = mount
        return best

    def host_path(self, path: str) -> Path | None:
        """Where a path lies on the host, or None when no mount covers it."""
        mount = self.mount(path)
        if mount is None:
            return None
        path = posixpath.normpath(posixpath.join(self.working_dir, path))
        rest = path[len(posixpath.normpath(mount.destination)) :].lstrip("/")
        return Path(mount.source, rest) if rest else Path(mount.source)
