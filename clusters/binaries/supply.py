"""Finds binaries: in the user's folder, in the cache, as official downloads, or built with Go; in this order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clusters.binaries import folders, gobuild
from clusters.binaries.cache import Hold, Progress, Shelf
from clusters.binaries.download import ETCD_ENVIRONMENT, RELEASE_ENVIRONMENT, Downloader, Fetch
from clusters.binaries.errors import BinariesError, NotHadError
from clusters.binaries.releases import ETCD, Release, check_names, find_release


@dataclass(frozen=True)
class Binaries:
    """Binaries of one version of Kubernetes, such as v1.37.2. They are not pruned as long as this object is there."""

    version: str
    paths: Mapping[str, Path]
    hold: Hold | None = field(default=None, repr=False, compare=False)

    def path(self, name: str) -> Path:
        """The absolute path of a binary that was asked for. Raises BinariesError for any other."""
        if name not in self.paths:
            raise BinariesError(f"{name} was not asked for; there are {', '.join(self.paths)}")
        return self.paths[name]


def _quiet(line: str) -> None:
    """Tell nobody."""


def find(
    version: str, names: Sequence[str], *, folder: Path | None = None, progress: Progress = _quiet
) -> Binaries:
    """The binaries of a version (`1.37`, `v1.37.2`), wherever they can be had.

    A named folder (`folder`, or the environment's DRAKIT_BINARIES) must hold them all. Otherwise what the cache does
    not have is downloaded into it, or built where that is not possible; runs at the same time wait for the first.
    `progress` gets lines of text about what takes longer. Raises BinariesError.
    """
    release, wanted = find_release(version), check_names(names)
    chosen = folders.named(folder)
    if chosen is not None:
        found, paths = folders.check(chosen, release, wanted)
        return Binaries(found, paths)
    return _supply(release, wanted, {"download": Downloader().fetch, "go build": gobuild.build}, progress)


def fetch(
    version: str,
    names: Sequence[str],
    *,
    release_url: str = "",
    etcd_url: str = "",
    progress: Progress = _quiet,
) -> Binaries:
    """As `find`, from the cache or as downloads alone; addresses as in `Downloader`."""
    downloader = Downloader(release_url, etcd_url)
    return _supply(find_release(version), check_names(names), {"download": downloader.fetch}, progress)


def build(version: str, names: Sequence[str], *, progress: Progress = _quiet) -> Binaries:
    """As `find`, from the cache or built with Go alone."""
    return _supply(find_release(version), check_names(names), {"go build": gobuild.build}, progress)


def _supply(
    release: Release, names: Sequence[str], sources: Mapping[str, Fetch], progress: Progress
) -> Binaries:
    shelves = {name: Shelf(release.folder(name)) for name in names}
    told: set[str] = set()
    handles: list[int] = []
    hold = Hold(handles)
    for shelf in dict.fromkeys(shelves.values()):
        handles.extend(shelf.hold())
        wanted = [name for name in names if shelves[name] == shelf]
        if not all(shelf.has(name) for name in wanted):
            with shelf.filling(progress) as work:
                # Another run may have filled it meanwhile.
                for name in (name for name in wanted if not shelf.has(name)):
                    shelf.place(_get(release, name, work, sources, progress, told), name)
    return Binaries(release.kubernetes, {name: shelf.path(name) for name, shelf in shelves.items()}, hold)


def _get(
    release: Release,
    name: str,
    work: Path,
    sources: Mapping[str, Fetch],
    progress: Progress,
    told: set[str],
) -> Path:
    """Make a binary below a working folder; why a source does not have it is told once for all binaries."""
    reasons: dict[str, str] = {}
    for source, get in sources.items():
        for reason in reasons.values():
            if reason not in told:
                told.add(reason)
                progress(f"{reason}; trying {source}")
        try:
            return get(release, name, work, progress)
        except NotHadError as error:
            reasons[source] = str(error)
    raise BinariesError(_nowhere(release, name, reasons))


def _nowhere(release: Release, name: str, reasons: Mapping[str, str]) -> str:
    """The error of a binary that no source has: what each one says, and all that helps."""
    version = release.etcd if name == ETCD else f"of Kubernetes {release.kubernetes}"
    mirror = ETCD_ENVIRONMENT if name == ETCD else RELEASE_ENVIRONMENT
    needed = gobuild.needs(gobuild.module(release, name))
    if name != ETCD and not release.pinned:
        with_go = f"the version {release.minor}, whose modules are pinned, so that it can be built"
    elif "go build" in reasons:
        with_go = (
            f"Go {needed} or newer in PATH (https://go.dev/dl), and GOPROXY where the modules have a mirror"
        )
    else:
        with_go = f'"drakit binaries build {release.minor}", which needs Go {needed} or newer'
    lines = [f"{name} {version} cannot be had:"]
    lines += [f"  {source}: {reason}" for source, reason in reasons.items()]
    lines += [
        "What helps, one of:",
        f"  {folders.ENVIRONMENT}=DIR, a folder with the binaries",
        f"  {mirror}=URL, a mirror of the releases, and HTTPS_PROXY where there is a proxy",
        f"  {with_go}",
    ]
    return "\n".join(lines)
