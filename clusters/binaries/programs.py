"""Programs of other projects than Kubernetes: built with Go from pinned modules, and kept in the same cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clusters.binaries import gobuild
from clusters.binaries.cache import Hold, Progress, Shelf
from clusters.binaries.errors import BinariesError, NotHadError
from clusters.binaries.gobuild import MODULES, Job
from clusters.binaries.supply import Binaries


@dataclass(frozen=True)
class GoProgram:
    """A program: its name, its version as a tag, and the import path of its package in the module that pins it.

    `module` is the folder of go.mod and go.sum; `variables` are values that the linker gives to variables of the
    program; `shelf` is its folder in the cache, shared with those that are built of the same modules.
    """

    name: str
    version: str
    module: Path
    package: str
    shelf: str
    variables: tuple[tuple[str, str], ...] = ()
    tags: tuple[str, ...] = ()

    def arguments(self, target: Path) -> list[str]:
        """The arguments of `go` that build it."""
        tags = ["-tags", ",".join(self.tags)] if self.tags else []
        flags = " ".join(["-s -w", *(f"-X {name}={value}" for name, value in self.variables)])
        return ["build", "-trimpath", *tags, "-ldflags", flags, "-o", str(target), self.package]


_CONTAINERD: Final = "github.com/containerd/containerd/v2"
_CONTAINERD_VERSION: Final = "v2.4.2"
_CRI_TOOLS_VERSION: Final = "v1.37.0"

KIND: Final = GoProgram("kind", "v0.33.0", MODULES / "kind", "sigs.k8s.io/kind", "kind-v0.33.0")

CONTAINERD: Final = tuple(
    GoProgram(
        name,
        _CONTAINERD_VERSION,
        MODULES / "containerd",
        f"{_CONTAINERD}/cmd/{name}",
        f"containerd-{_CONTAINERD_VERSION}",
        ((f"{_CONTAINERD}/version.Version", _CONTAINERD_VERSION),),
        # Snapshotters that need libraries, or that nobody chooses.
        ("no_aufs", "no_btrfs", "no_devmapper", "no_zfs"),
    )
    for name in ("containerd", "containerd-shim-runc-v2", "ctr")
)

CRICTL: Final = GoProgram(
    "crictl",
    _CRI_TOOLS_VERSION,
    MODULES / "cri-tools",
    "sigs.k8s.io/cri-tools/cmd/crictl",
    f"cri-tools-{_CRI_TOOLS_VERSION}",
    (("sigs.k8s.io/cri-tools/pkg/version.Version", _CRI_TOOLS_VERSION),),
)

PROGRAMS: Final = (KIND, *CONTAINERD, CRICTL)
"""Programs whose modules are pinned beside this file."""


def _quiet(line: str) -> None:
    """Tell nobody."""


def find(programs: Sequence[GoProgram], *, progress: Progress = _quiet) -> Binaries:
    """The programs, by name; what the cache does not have is built into it, by one run at a time.

    `Binaries.version` is that of the first one. Raises BinariesError.
    """
    handles: list[int] = []
    hold = Hold(handles)
    for shelf in dict.fromkeys(Shelf(program.shelf) for program in programs):
        handles.extend(shelf.hold())
        wanted = [program for program in programs if program.shelf == shelf.version]
        if not all(shelf.has(program.name) for program in wanted):
            with shelf.filling(progress) as work:
                # Another run may have filled it meanwhile.
                for program in wanted:
                    if not shelf.has(program.name):
                        shelf.place(_build(program, work, progress), program.name)
    paths = {program.name: Shelf(program.shelf).path(program.name) for program in programs}
    return Binaries(programs[0].version, paths, hold)


def _build(program: GoProgram, work: Path, progress: Progress) -> Path:
    what = f"{program.name} {program.version}"
    try:
        version = gobuild.toolchain(program.module)
    except NotHadError as reason:
        needed = gobuild.needs(program.module)
        raise BinariesError(
            f"{what} is built with Go, and {reason}; what helps: Go {needed} or newer in PATH (https://go.dev/dl), "
            "and GOPROXY where the modules have a mirror"
        ) from None
    target = work / program.name
    return gobuild.run(Job(what, program.module, program.arguments(target), target), version, work, progress)
