"""Checks of the kind command and of node images."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clusters.binaries import programs
from clusters.binaries.releases import RELEASES
from clusters.doctor import engine
from clusters.doctor.engine import Engine
from clusters.doctor.host import Host
from clusters.doctor.local import Go, look_go
from clusters.doctor.model import KIND, Check, Finding, Wanted, missing, ok, unknown, warning
from clusters.kind import binary
from clusters.kind.binary import OLDEST

PINNED: Final = programs.KIND.version
"""The kind that is built when there is none."""
IMAGE_ENVIRONMENT: Final = "DRAKIT_KIND_IMAGE"
OWN_IMAGE, STOCK_IMAGE = "drakit/node", "kindest/node"

_INSTALL: Final = "install it from https://kind.sigs.k8s.io, or install Go and let drakit build it"
_BUILD: Final = "drakit kind build-image"


@dataclass(frozen=True)
class Kind:
    """The kind command, where there is one, what it says, and the Go that could build one."""

    path: Path | None
    said: str
    go: Go

    @property
    def version(self) -> tuple[int, ...]:
        """Its numbers; none when it does not tell."""
        return binary.parse(self.said) or ()


def look_kind(host: Host, wanted: Wanted) -> Kind:
    """In PATH, or in the cache."""
    cached = host.cache_folder() / programs.KIND.shelf / programs.KIND.name
    path = host.which("kind") or (cached if host.kind_of(cached) == "file" else None)
    said = host.run(str(path), "version").last_line if path else ""
    return Kind(path, said, look_go(host, wanted))


def judge_kind(kind: Kind) -> Finding:
    """Whether there is one, or can be."""
    if kind.path is not None:
        return ok(str(kind.path))
    if not kind.go.problem:
        return ok(f"none in PATH; drakit builds {PINNED} with Go when a cluster needs it")
    return missing(f"there is no program kind in PATH, and {kind.go.problem}", _INSTALL)


def judge_kind_version(kind: Kind) -> Finding:
    """Old ones write configurations that new kubeadms refuse."""
    if kind.path is None:
        return ok(PINNED) if not kind.go.problem else unknown("not known without a kind command")
    oldest = ".".join(map(str, OLDEST))
    if not kind.version:
        return missing(
            f"{kind.path} does not tell its version: {kind.said}",
            f"put another before it in PATH: {_INSTALL}",
        )
    version = ".".join(map(str, kind.version))
    if kind.version < OLDEST:
        return missing(
            f"{kind.path} is {version}, and {oldest} or newer is needed",
            f"install a newer one, or take it out of PATH and let drakit build {PINNED}",
        )
    return ok(version)


@dataclass(frozen=True)
class Images:
    """The node image that is named, the ones that the engine has for the version, and what could build one."""

    engine: Engine
    named: str
    named_there: bool
    there: tuple[str, ...]
    version: str
    obstacles: tuple[str, ...]


def look_images(host: Host, wanted: Wanted) -> Images:
    """Ask the engine for its node images."""
    found = engine.look(host, wanted)
    named = host.env(IMAGE_ENVIRONMENT)
    tags: list[str] = []
    named_there = False
    if found.version and found.command is not None:
        listed = host.run(str(found.command), "image", "ls", "--format", "{{.Repository}}:{{.Tag}}")
        tags = listed.out.split()
        named_there = bool(named) and host.run(str(found.command), "image", "inspect", named).code == 0
    names = tuple(re.escape(name) for name in (OWN_IMAGE, STOCK_IMAGE))
    pattern = re.compile(rf"({'|'.join(names)}):v{re.escape(wanted.minor)}\.")
    there = tuple(sorted(tag for tag in tags if pattern.match(tag)))
    return Images(found, named, named_there, there, wanted.minor, look_builders(host, wanted))


def look_builders(host: Host, wanted: Wanted) -> tuple[str, ...]:
    """What keeps an image from being built here."""
    go = look_go(host, wanted)
    lacking = [] if host.user_id() == 0 else ["root is needed"]
    lacking += [] if host.which("debootstrap") else ["there is no program debootstrap in PATH"]
    lacking += [go.problem] if go.problem else []
    lacking += [] if wanted.minor in RELEASES else [f"Kubernetes {wanted.minor} is not known"]
    return tuple(lacking)


def judge_images(images: Images) -> Finding:
    """Given, own, stock, built: in this order."""
    if images.named and images.engine.version:
        if images.named_there:
            return ok(f"{IMAGE_ENVIRONMENT} names {images.named}")
        return missing(
            f"{IMAGE_ENVIRONMENT} names {images.named}, which the engine does not have",
            f"docker pull {images.named}, or unset {IMAGE_ENVIRONMENT}",
        )
    if images.there:
        return ok(", ".join(images.there))
    if not images.engine.version:
        return unknown("not known, as no engine answers", f"{_BUILD} makes one where none can be pulled")
    seen = f"the engine has none of Kubernetes {images.version}"
    if not images.obstacles:
        return warning(
            f"{seen}; a stock one is pulled where a registry can be reached", f"{_BUILD} makes one (minutes)"
        )
    return warning(
        f"{seen}, and none can be built here ({'; '.join(images.obstacles)}); a stock one is pulled if it can be",
        f"docker pull {STOCK_IMAGE}:TAG, or set {IMAGE_ENVIRONMENT} to one that is there",
    )


def judge_builders(obstacles: tuple[str, ...]) -> Finding:
    """Only needed where no image can be pulled."""
    if not obstacles:
        return ok(f"{_BUILD} can run here")
    return warning(
        f"none can be built: {'; '.join(obstacles)}",
        "as root, apt install debootstrap and install Go from https://go.dev/dl; needless where images can be pulled",
    )


CHECKS: Final[tuple[Check[Any], ...]] = (
    Check("kind", "The kind command is in PATH, or Go can build it.", (KIND,), look_kind, judge_kind),
    Check(
        "kind-version",
        f"kind is {'.'.join(map(str, OLDEST))} or newer.",
        (KIND,),
        look_kind,
        judge_kind_version,
    ),
    Check(
        "node-image",
        "The engine has a node image of this Kubernetes version.",
        (KIND,),
        look_images,
        judge_images,
    ),
    Check(
        "node-image-build",
        "A node image could be built here: root, debootstrap, Go.",
        (KIND,),
        look_builders,
        judge_builders,
    ),
)
