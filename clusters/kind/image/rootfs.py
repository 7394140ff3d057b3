"""The root file system of a node: Debian packages, unpacked once by debootstrap and kept as a tar."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from clusters.interface import ClusterError
from clusters.kind.image import archive, store
from clusters.kind.image.archive import Entry, File, Link
from clusters.kind.image.recipe import PACKAGES, SUITE
from clusters.kind.image.steps import step
from clusters.kind.image.store import Progress

_LEFT_OUT: Final = (
    "var/cache/apt",
    "var/lib/apt/lists",
    "var/log",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
)
"""Folders that come without their contents."""

_SBIN: Final = "/usr/local/sbin:/usr/sbin:/sbin"
_MERGED: Final = ("bin", "lib", "lib64", "sbin")
"""Folders that are links to those below /usr, which lists of packages do not know."""


def rootfs(progress: Progress) -> Path:
    """The tar of the root file system, from the cache or made. Raises ClusterError."""
    name = f"rootfs-{store.digest(SUITE, *PACKAGES, *_LEFT_OUT, archive.architecture())}.tar"
    return store.kept(name, progress, lambda work: _make(work, work / name, progress))


def missing() -> str:
    """Why it cannot be made here; "" when it can."""
    if os.geteuid() != 0:
        return "a node image is made by root (debootstrap makes device nodes and owners)"
    lacking = [name for name in ("debootstrap", "unshare") if _which(name) is None]
    if lacking:
        return f"a node image needs {' and '.join(lacking)} (Debian and Ubuntu: apt install debootstrap util-linux)"
    return ""


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:{_SBIN}"


def _which(name: str) -> str | None:
    return shutil.which(name, path=_path())


def _make(work: Path, target: Path, progress: Progress) -> Path:
    if reason := missing():
        raise ClusterError(reason)
    root = work / "root"
    words = [
        str(_which("debootstrap")),
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        SUITE,
        str(root),
    ]
    # In a mount namespace of its own: what it mounts in the folder is gone with it, whatever happens.
    step(
        f"unpacking Debian {SUITE}",
        [str(_which("unshare")), "--mount", *words],
        work,
        progress,
        variables={"PATH": _path()},
    )
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as output:
        output.add(root, ".", filter=_wanted)
    return target


def _wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = member.name.removeprefix("./")
    if any(name.startswith(f"{folder}/") for folder in _LEFT_OUT):
        return None
    member.uname = member.gname = ""
    return member


def package_files(rootfs: Path, packages: tuple[str, ...], work: Path) -> list[Entry]:
    """The files of Debian packages and of all that they depend on, below their usual paths.

    They are unpacked to the folder `work`.
    """
    entries: list[Entry] = [Link(f"/{name}", f"usr/{name}") for name in _MERGED]
    with tarfile.open(rootfs) as source:
        members = {member.name.removeprefix("./"): member for member in source}
        status = _text(source, members["var/lib/dpkg/status"])
        wanted = dict.fromkeys(
            path
            for package in closure(status, packages)
            for path in _listed(source, members, package)
            if path in members
        )
        for path in wanted:
            member = members[path]
            if member.issym():
                entries.append(Link(f"/{path}", member.linkname))
            elif member.isfile() or member.islnk():
                data = source.extractfile(member)
                assert data is not None  # noqa: S101 - it is a file
                place = work / str(len(entries))
                with place.open("wb") as output:
                    shutil.copyfileobj(data, output)
                entries.append(File(f"/{path}", place, member.mode))
    return entries


def _text(source: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    data = source.extractfile(member)
    assert data is not None  # noqa: S101 - it is a file
    return data.read().decode("utf-8", "replace")


def _listed(source: tarfile.TarFile, members: dict[str, tarfile.TarInfo], package: str) -> Iterator[str]:
    for name, member in members.items():
        folder, _, base = name.rpartition("/")
        # conntrack.list, or libc6:amd64.list where packages of several architectures may be installed.
        owner = base.removesuffix(".list").partition(":")[0]
        if folder == "var/lib/dpkg/info" and base.endswith(".list") and owner == package:
            yield from (merged(path) for path in _text(source, member).splitlines())


def merged(path: str) -> str:
    """Where a path of a package's list really is, without the leading slash."""
    path = path.strip("/")
    return f"usr/{path}" if path.partition("/")[0] in _MERGED else path


def closure(status: str, packages: tuple[str, ...]) -> list[str]:
    """Packages with all that they depend on, as far as it is installed, by the text of dpkg's status file."""
    depends: dict[str, list[str]] = {}
    for paragraph in status.split("\n\n"):
        fields = dict(
            line.split(": ", 1)
            for line in paragraph.splitlines()
            if ": " in line and not line.startswith(" ")
        )
        text = ",".join(fields.get(name, "") for name in ("Depends", "Pre-Depends"))
        words = [word.strip().split(" ")[0].partition(":")[0] for word in text.replace("|", ",").split(",")]
        if "Package" in fields:
            depends[fields["Package"]] = [word for word in words if word]
    found: dict[str, None] = {}
    waiting = list(packages)
    while waiting:
        package = waiting.pop(0)
        if package in depends and package not in found:
            found[package] = None
            waiting += depends[package]
    return list(found)
