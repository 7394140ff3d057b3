"""Checks of the kind command and of node images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clusters.binaries import programs
from clusters.binaries.errors import BinariesError
from clusters.binaries.releases import RELEASES, find_release
from clusters.doctor import engine
from clusters.doctor.engine import Engine
from clusters.doctor.host import Host
from clusters.doctor.local import Go, look_go
from clusters.doctor.model import KIND, Check, Finding, Wanted, missing, ok, unknown, warning
from clusters.kind import binary
from clusters.kind.binary import OLDEST
from clusters.kind.image import probe
from clusters.kind.image.node import ENVIRONMENT as IMAGE_ENVIRONMENT
from clusters.kind.image.node import STOCK
from clusters.kind.image.recipe import recipe

PINNED: Final = programs.KIND.version
"""The kind that is built when there is none."""

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
    """The node images that could be taken, each with whether the engine has it, "" for what there is not.

    `problem` tells what is wrong with the version, `obstacles` what keeps an image from being built.
    """

    engine: Engine
    version: str
    named: str = ""
    own: str = ""
    stock: str = ""
    there: frozenset[str] = frozenset()
    obstacles: tuple[str, ...] = ()
    problem: str = ""


def look_images(host: Host, wanted: Wanted) -> Images:
    """Ask the engine for the images that it could be."""
    found = engine.look(host, wanted)
    try:
        release = find_release(wanted.version)
    except BinariesError as error:
        return Images(found, wanted.minor, problem=str(error))
    stock = STOCK.get(release.minor, "") if release.pinned else ""
    named, own = host.env(IMAGE_ENVIRONMENT), recipe(release).tag
    there = [
        name
        for name in (named, own, stock)
        if name
        and found.version
        and found.command is not None
        and host.run(str(found.command), "image", "inspect", "--format", "{{.Id}}", name).code == 0
    ]
    return Images(found, wanted.minor, named, own, stock, frozenset(there), look_builders(host, wanted))


def look_builders(host: Host, wanted: Wanted) -> tuple[str, ...]:
    """What keeps an image from being built here."""
    go = look_go(host, wanted)
    lacking = [] if host.user_id() == 0 else ["root is needed"]
    lacking += [] if host.which_of_root("debootstrap") else ["there is no program debootstrap in PATH"]
    lacking += [go.problem] if go.problem else []
    lacking += [] if wanted.minor in RELEASES else [f"Kubernetes {wanted.minor} is not known"]
    return tuple(lacking)


def judge_images(images: Images) -> Finding:
    """Given, own, stock: in this order."""
    if images.problem:
        return missing(images.problem, "choose another --kubernetes-version")
    if not images.engine.version:
        return unknown("not known, as no engine answers", f"{_BUILD} makes one where none can be pulled")
    if images.named:
        if images.named in images.there:
            return ok(f"{IMAGE_ENVIRONMENT} names {images.named}")
        return warning(
            f"{IMAGE_ENVIRONMENT} names {images.named}, which is not here and is pulled first",
            f"docker pull {images.named}, or unset {IMAGE_ENVIRONMENT}",
        )
    if images.own in images.there:
        return ok(images.own)
    build = _BUILD if not images.obstacles else f"set {IMAGE_ENVIRONMENT}, as none can be built here"
    if not images.stock:
        return missing(
            f"the engine has none of Kubernetes {images.version}, and kind has none to be pulled", build
        )
    if images.stock not in images.there:
        return warning(
            f"{images.stock} is not here and is pulled first", f"where it cannot be pulled: {build}"
        )
    return ok(images.stock)


@dataclass(frozen=True)
class ProbeImage:
    """The archive of the images that tests start, whether it is there, and the Go that could build it."""

    path: Path
    there: bool
    go: Go


def look_probe(host: Host, wanted: Wanted) -> ProbeImage:
    """Look into the cache."""
    name = f"probe-{probe.recipe(probe.own_program('probe').version)}.tar"
    path = host.cache_folder().parent / "images" / name
    return ProbeImage(path, host.kind_of(path) == "file", look_go(host, wanted))


def judge_probe(image: ProbeImage) -> Finding:
    """Without it no Pod of a test starts."""
    if image.there:
        return ok(str(image.path))
    if not image.go.problem:
        return ok("not made yet; drakit builds it with Go when a cluster needs it")
    return missing(
        f"{image.path} is not there, and {image.go.problem}",
        "install Go from https://go.dev/dl, or bring that file along",
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
    Check(
        "probe-image",
        "What Pods of tests start is there, or Go can build it.",
        (KIND,),
        look_probe,
        judge_probe,
    ),
)
