"""Checks of folders and ports."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clusters.doctor.host import Host
from clusters.doctor.model import KIND, LOCAL, TIERS, Check, Finding, Wanted, missing, ok, warning
from node_api.sockets import MAX_PATH_BYTES

_MIB: Final = 1 << 20
_TEMPORARY: Final = (64, 512)
_CACHE: Final = (1024, 4096)
# Folder of a cluster and of a node, and the longest of the sockets there for a driver with a name of 30 characters.
_BELOW: Final = len("/dk-xxxxxxxx/n9999/plugins//dra.sock") + 30


@dataclass(frozen=True)
class Folder:
    """A folder to be written to: why it cannot be, and the bytes and inodes that are free."""

    path: Path
    problem: str
    free: int
    inodes: int


def look_temporary(host: Host, wanted: Wanted) -> Folder:
    """The temporary folder."""
    return _folder(host, host.temporary_folder())


def look_cache(host: Host, wanted: Wanted) -> Folder:
    """The cache of binaries."""
    return _folder(host, host.cache_folder())


def _folder(host: Host, path: Path) -> Folder:
    room = host.room(path)
    return Folder(path, host.write_problem(path), room.free, room.inodes)


def judge_temporary(folder: Folder) -> Finding:
    """Whether a cluster can keep its files there."""
    if folder.problem and folder.free > 0:
        return missing(f"{folder.path} cannot be written: {folder.problem}", "set TMPDIR to another folder")
    return ok(f"{folder.path} can be written")


def judge_temporary_space(folder: Folder) -> Finding:
    """Logs, checkpoints and fake hardware of nodes."""
    return _space(folder, _TEMPORARY, "set TMPDIR to a folder on another disk")


def judge_cache(folder: Folder) -> Finding:
    """Whether binaries can be kept."""
    if folder.problem and folder.free > 0:
        return missing(
            f"{folder.path} cannot be written: {folder.problem}",
            "set XDG_CACHE_HOME to another folder, or DRAKIT_BINARIES to one with the binaries",
        )
    return ok(f"{folder.path} can be written")


def judge_cache_space(folder: Folder) -> Finding:
    """One version of Kubernetes is 0.4 GB, and as much again while it is built."""
    return _space(folder, _CACHE, "drakit binaries prune, or set XDG_CACHE_HOME to a folder on another disk")


def _space(folder: Folder, limits: tuple[int, int], remedy: str) -> Finding:
    least, plenty = limits
    free = folder.free // _MIB
    if folder.inodes == 0:
        return missing(
            f"no file more can be made in {folder.path}: its file system has no free inodes", remedy
        )
    if free < least:
        return missing(f"{free} MiB free in {folder.path}, at least {least} are needed", remedy)
    if free < plenty:
        return warning(f"{free} MiB free in {folder.path}, which is little", remedy)
    return ok(f"{free} MiB free in {folder.path}")


def look_length(host: Host, wanted: Wanted) -> Path:
    """The temporary folder's name."""
    return host.temporary_folder()


def judge_length(folder: Path) -> Finding:
    """Unix sockets have short names."""
    length = len(os.fsencode(folder)) + _BELOW
    seen = f"the temporary folder {folder} leaves room for names of drivers"
    if length > MAX_PATH_BYTES:
        return missing(
            f"the temporary folder {folder} has too long a name: a driver's sockets would have {length} bytes, "
            f"and {MAX_PATH_BYTES} are allowed",
            "set TMPDIR to a shorter folder such as /tmp",
        )
    return ok(f"{seen} of {30 + MAX_PATH_BYTES - length} characters")


@dataclass(frozen=True)
class Port:
    """A port, 0 for any, and the errno of listening on it."""

    number: int
    code: int


def look_port(host: Host, wanted: Wanted) -> Port:
    """Try to listen."""
    return Port(wanted.port, host.bind(wanted.port) if wanted.port else 0)


def judge_port(port: Port) -> Finding:
    """Whether the API server can have it."""
    if port.number == 0:
        return ok("a free one is taken (--port asks for a certain one)")
    if port.code == errno.EADDRINUSE:
        return missing(
            f"{port.number} is in use",
            f'choose another --port, or end what listens (ss -ltnp "sport = :{port.number}")',
        )
    if port.code == errno.EACCES:
        return missing(f"{port.number} may only be used by root", "choose a --port above 1023")
    if port.code:
        return missing(f"{port.number} cannot be used: {os.strerror(port.code)}", "choose another --port")
    return ok(f"{port.number} is free")


CHECKS: Final[tuple[Check[Any], ...]] = (
    Check("temp-folder", "The temporary folder can be written.", TIERS, look_temporary, judge_temporary),
    Check(
        "temp-folder-length",
        "Sockets fit below the temporary folder's name.",
        TIERS,
        look_length,
        judge_length,
    ),
    Check("temp-space", "The temporary folder has room.", TIERS, look_temporary, judge_temporary_space),
    Check("port", "The API server's port (--port) is free.", TIERS, look_port, judge_port),
    Check("cache-folder", "The cache of binaries can be written.", (LOCAL, KIND), look_cache, judge_cache),
    Check("cache-space", "The cache of binaries has room.", (LOCAL, KIND), look_cache, judge_cache_space),
)
