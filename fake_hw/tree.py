"""A machine as a directory tree that looks like Linux: created at once, later made equal to a plan."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fake_hw import state
from fake_hw.errors import TreeError
from fake_hw.layout import Directory, Entry, File, Link, Node, plan
from fake_hw.topology import Machine, load, to_document

_MANAGED = ("sys", "dev")


@dataclass(frozen=True)
class Marker:
    """What a tree remembers of its making: the machine, and whether its device nodes are real ones."""

    machine: Machine
    real_devices: bool


def create(machine: Machine, root: Path, *, force: bool = False, mknod: bool = True) -> Marker:
    """Make the tree of a machine at `root`: absent, empty, or with `force` a tree that was made here before.

    Device nodes are real character devices where the process may make them and `mknod` is True, otherwise
    regular files holding `c MAJOR:MINOR`. The tree appears complete or not at all. Raises TreeError.
    """
    root = root.resolve()
    _check_target(root, force)
    try:
        root.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".{root.name}.new-", dir=root.parent))
    except OSError as error:
        raise TreeError(
            f"{root.parent}: cannot hold a tree: {error.strerror}; choose another place"
        ) from None
    try:
        building.chmod(0o755)
        marker = Marker(machine, mknod and _may_make_devices(building))
        (building / state.STATE_DIRECTORY).mkdir(parents=True)
        _write_marker(building, marker)
        sync(building, plan(machine), marker.real_devices)
        _put_in_place(building, root)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    return marker


def read_marker(root: Path) -> Marker:
    """What the tree remembers of its making; raises TreeError when `root` is not a tree."""
    path = state.directory(root) / state.MARKER
    document = state.read_json(path)
    try:
        text, real_devices = (
            json.dumps(document["machine"], ensure_ascii=False),
            bool(document["realDevices"]),
        )
    except (KeyError, TypeError):
        raise TreeError(f"{path}: damaged (fields are missing); create the tree again with --force") from None
    return Marker(load(text, source=str(path)), real_devices)


def sync(root: Path, entries: Mapping[str, Entry], real_devices: bool) -> None:
    """Make `sys` and `dev` equal to the plan; what is equal already stays untouched.

    As with a kernel, the links in `sys/bus` come last and go first: who finds one finds the rest.
    Every file and link changes at once.
    """
    scratch = root / state.STATE_DIRECTORY / "tmp"
    scratch.mkdir(exist_ok=True)
    present = {path for top in _MANAGED for path in _walk(root, top)}
    for path in sorted(present - entries.keys(), key=_removal_order):
        _remove(root / path)
    for path, entry in entries.items():
        if not _matches(root / path, entry, real_devices):
            _place(root / path, entry, real_devices, scratch)


def _check_target(root: Path, force: bool) -> None:
    if not os.path.lexists(root):
        return
    if not root.is_dir():
        raise TreeError(f"{root}: exists and is not a directory; choose another place")
    if not any(root.iterdir()):
        return
    if not (root / state.STATE_DIRECTORY / state.MARKER).is_file():
        raise TreeError(f"{root}: not empty, and not a fake hardware tree; choose an empty or new directory")
    if not force:
        raise TreeError(f"{root}: already holds a fake hardware tree; use --force to replace it")


def _put_in_place(building: Path, root: Path) -> None:
    old = building.with_name(building.name.replace(".new-", ".old-"))
    replacing = root.is_dir() and any(root.iterdir())
    try:
        if replacing:
            root.rename(old)
        try:
            building.rename(root)
        except OSError:
            if replacing:
                old.rename(root)
            raise
    except OSError as error:
        raise TreeError(
            f"{root}: cannot be put in place: {error.strerror}; name a directory in a mount point, not itself"
        ) from None
    if replacing:
        shutil.rmtree(old)


def _may_make_devices(directory: Path) -> bool:
    probe = directory / "probe"
    try:
        os.mknod(probe, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except OSError:
        return False
    probe.unlink()
    return True


def _write_marker(root: Path, marker: Marker) -> None:
    document = {
        "schemaVersion": 1,
        "realDevices": marker.real_devices,
        "machine": to_document(marker.machine),
    }
    text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
    (root / state.STATE_DIRECTORY / state.MARKER).write_text(text, encoding="utf-8")


def _on_bus(path: str) -> bool:
    return path.startswith("sys/bus/pci/") and path.count("/") > 3


def _removal_order(path: str) -> tuple[bool, bool, int]:
    return not _on_bus(path), not path.startswith("dev/"), -path.count("/")


def _walk(root: Path, top: str) -> Iterator[str]:
    """All paths at and below `top`, links not followed."""
    if os.path.lexists(root / top):
        yield top
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(root / top) as found:
        for item in found:
            if item.is_dir(follow_symlinks=False):
                yield from _walk(root, f"{top}/{item.name}")
            else:
                yield f"{top}/{item.name}"


def _is_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _remove(path: Path) -> None:
    if _is_directory(path):
        path.rmdir()
    else:
        path.unlink()


def _matches(path: Path, entry: Entry, real_devices: bool) -> bool:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    match entry:
        case Directory():
            return stat.S_ISDIR(status.st_mode)
        case File(data):
            return stat.S_ISREG(status.st_mode) and path.read_bytes() == data
        case Link(target):
            return stat.S_ISLNK(status.st_mode) and str(path.readlink()) == target
        case Node(major, minor):
            if real_devices:
                return stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(major, minor)
            return stat.S_ISREG(status.st_mode) and path.read_bytes() == entry.text.encode()


def _place(path: Path, entry: Entry, real_devices: bool, scratch: Path) -> None:
    if os.path.lexists(path) and _is_directory(path) != isinstance(entry, Directory):
        _remove(path)
    new = scratch / "new"
    new.unlink(missing_ok=True)
    match entry:
        case Directory():
            path.mkdir()
            return
        case File(data):
            new.write_bytes(data)
        case Link(target):
            new.symlink_to(target)
        case Node(major, minor) if real_devices:
            os.mknod(new, stat.S_IFCHR | 0o666, os.makedev(major, minor))
            new.chmod(0o666)
        case Node():
            new.write_text(entry.text)
    new.replace(path)
