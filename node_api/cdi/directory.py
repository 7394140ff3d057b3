"""Scanning CDI directories and resolving device ids to edits."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from node_api.cdi.checks import SpecError
from node_api.cdi.model import Device, Edits, Spec
from node_api.cdi.names import quote
from node_api.cdi.parse import parse_spec

DEFAULT_DIRECTORIES = ("/etc/cdi", "/var/run/cdi")
"""What runtimes scan unless told otherwise, lowest priority first."""

Parse = Callable[[bytes, str], Spec]
"""Makes a spec of a file's content and path; raises SpecError."""

EXTENSIONS = (".json", ".yaml")
"""Only file names that end like this are read; hidden ones too."""


@dataclass(frozen=True)
class SpecFile:
    """A loaded spec file; `priority` is the index of its directory, later directories win."""

    path: str
    priority: int
    spec: Spec


@dataclass(frozen=True)
class Definition:
    """The device that an id stands for, with the file that defines it."""

    device: Device
    file: SpecFile


class Directory:
    """One directory with spec files; every `load` reads it anew.

    `parse` makes a spec of a content and its path, as `parse_spec` does; one that remembers spares work.
    """

    def __init__(self, path: str | os.PathLike[str], priority: int = 0, parse: Parse = parse_spec) -> None:
        self.path = os.path.normpath(path)
        self.priority = priority
        self._parse = parse

    def names(self) -> list[str]:
        """Return the names of spec files in byte order, without sub-directories.

        Raises:
            OSError: if the directory exists but cannot be listed.
        """
        try:
            with os.scandir(self.path) as entries:
                found = [
                    entry.name
                    for entry in entries
                    if entry.name.endswith(EXTENSIONS) and not entry.is_dir(follow_symlinks=False)
                ]
        except FileNotFoundError:
            return []
        return sorted(found, key=os.fsencode)

    def load(self) -> tuple[list[SpecFile], dict[str, str]]:
        """Return the valid files, and path -> reason for the others.

        Raises:
            OSError: if the directory exists but cannot be listed.
        """
        files: list[SpecFile] = []
        errors: dict[str, str] = {}
        for name in self.names():
            path = str(Path(self.path, name))
            try:
                spec = self._parse(read_regular(path), path)
            except (SpecError, OSError) as problem:
                errors[path] = f"failed to load CDI Spec {problem}"
            else:
                files.append(SpecFile(path, self.priority, spec))
        return files, errors


def read_regular(path: str) -> bytes:
    """Return the content of a regular file, following links.

    Raises:
        OSError: if it cannot be read or is something that a read could block on.
    """
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
        raise OSError(f"{path} is not a regular file")
    return Path(path).read_bytes()


@dataclass(frozen=True)
class Resolution:
    """Result of resolving ids: the edits in order of application, and which file gave which id."""

    edits: Edits
    files: dict[str, str] = field(default_factory=dict)


class UnresolvableError(LookupError):
    """Ids that no loaded file defines; `ids` has them in request order, repeated ones too."""

    def __init__(self, ids: Sequence[str]) -> None:
        super().__init__(f"unresolvable CDI devices {', '.join(ids)}")
        self.ids = list(ids)


@dataclass
class Scan:
    """What a scan of the directories found.

    Attributes:
        files: loaded files, lowest priority first, in name order inside a directory.
        devices: id -> its winning definition; ids in conflict are absent.
        errors: path -> what is wrong with it: not loadable, or devices in conflict.
        conflicts: ids that several files of one directory define.
    """

    files: list[SpecFile] = field(default_factory=list)
    devices: dict[str, Definition] = field(default_factory=dict)
    errors: dict[str, list[str]] = field(default_factory=dict)
    conflicts: set[str] = field(default_factory=set)

    def _add(self, file: SpecFile) -> None:
        self.files.append(file)
        for device in file.spec.devices:
            device_id = f"{file.spec.kind}={device.name}"
            other = self.devices.get(device_id)
            if other is not None and other.file.priority == file.priority:
                text = (
                    f"conflicting device {quote(device_id)} "
                    f"(specs {quote(file.path)}, {quote(other.file.path)})"
                )
                self.conflicts.add(device_id)
                self.errors.setdefault(file.path, []).append(text)
                self.errors.setdefault(other.file.path, []).append(text)
            else:
                self.devices[device_id] = Definition(device, file)

    def resolve(self, ids: Sequence[str], *, deduplicate: bool = True) -> Resolution:
        """Return the edits for the ids: per id those of its file, once per call, then those of the device.

        Args:
            ids: fully qualified names in the order of the request; looked up as they are.
            deduplicate: use a repeated id once, as containerd does; False as CRI-O for the CRI field.

        Raises:
            UnresolvableError: if any id is unknown; it names all of these.
        """
        unknown = [device_id for device_id in ids if device_id not in self.devices]
        if unknown:
            raise UnresolvableError(list(dict.fromkeys(unknown)) if deduplicate else unknown)
        edits = Edits()
        used: set[str] = set()
        files: dict[str, str] = {}
        for device_id in dict.fromkeys(ids) if deduplicate else ids:
            definition = self.devices[device_id]
            if definition.file.path not in used:
                used.add(definition.file.path)
                edits = edits.merged(definition.file.spec.edits)
            edits = edits.merged(definition.device.edits)
            files[device_id] = definition.file.path
        return Resolution(edits, files)


def scan(directories: Sequence[str | os.PathLike[str]] = (), parse: Parse = parse_spec) -> Scan:
    """Read all spec files of the directories, lowest priority first; none given means the defaults.

    A device of a later directory replaces the one of an earlier. A name that two files of one directory
    define disappears everywhere. A directory that cannot be listed ends the scan silently: the later ones are
    not read (as in the library from 1.1.1 on); a missing directory is skipped. `parse` as for `Directory`.
    """
    result = Scan()
    for priority, path in enumerate(directories or DEFAULT_DIRECTORIES):
        try:
            files, errors = Directory(path, priority, parse).load()
        except OSError:
            break
        for bad, reason in errors.items():
            result.errors.setdefault(bad, []).append(reason)
        for file in files:
            result._add(file)
    for device_id in result.conflicts:
        result.devices.pop(device_id, None)
    return result


def resolve(
    ids: Sequence[str], directories: Sequence[str | os.PathLike[str]] = (), *, deduplicate: bool = True
) -> Resolution:
    """Scan the directories and resolve the ids; see `scan` and `Scan.resolve`."""
    return scan(directories).resolve(ids, deduplicate=deduplicate)
