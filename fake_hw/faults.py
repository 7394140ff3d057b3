"""Faults of the hardware, kept in the tree so that one process sets them and another suffers them.

A fault that shows in files changes the plan of the tree, and the tree is made equal to it; `heal` is the plan
without faults. Faults of configure calls are looked up by the backend at each call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from fake_hw import state, tree, usage
from fake_hw.document import did_you_mean
from fake_hw.errors import FaultError, TreeError
from fake_hw.journal import Clock, Event
from fake_hw.layout import BUS_DEVICES, Entry, File, Link, plan
from fake_hw.topology import CONTROL_MINOR, Machine

_FILE: Final = "faults.json"
EVERY: Final = "*"
"""Stands for every device."""

BAD_TEXTS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    "empty": lambda old: b"",
    "too-long": lambda old: (old + b" " + b"x" * 67)[:67],
    "wide": lambda old: (old + b"x" * 63)[:63] + "é and more".encode(),
    "cut-utf8": lambda old: (old + b"x" * 63)[:63] + "é".encode()[:1],
    "not-semver": lambda old: b"6.19.14.31400000",
}
"""Bad strings by name, made from the old text: nothing; 67 bytes; valid, with a two-byte character across byte 64;
64 bytes that end inside such a character; four numbers, as kernels have them."""


@dataclass(frozen=True)
class ConfigureFailure:
    """Configure calls that fail: of one device (`*` any), and of all its calls or only call number `call`.

    Calls are counted over all devices, decided ones only, from the start of the tree.
    """

    bdf: str = EVERY
    call: int | None = None


@dataclass(frozen=True)
class FaultSet:
    """All faults of a tree. Paths are below the root, texts are the bytes of a file as latin-1."""

    vanished: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    minors: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[ConfigureFailure, ...] = ()
    blocked: tuple[str, ...] = ()

    def blocks(self, bdf: str) -> bool:
        """Whether configure calls for a device must wait."""
        return bdf in self.blocked or EVERY in self.blocked

    def fails(self, bdf: str, call: int) -> bool:
        """Whether configure call number `call`, from 1, for a device fails."""
        return any(fault.bdf in (EVERY, bdf) and fault.call in (None, call) for fault in self.failures)

    def entries(self, machine: Machine) -> dict[str, Entry]:
        """What the tree of a machine consists of under these faults."""
        entries = plan(machine, absent=self.vanished, minors=self.minors)
        for path, text in self.texts.items():
            if path in entries:
                entries[path] = File(text.encode("latin-1"))
        return {path: entry for path, entry in entries.items() if not _is_below(path, self.missing)}


def load(directory: Path) -> FaultSet:
    """The faults kept in a state directory."""
    path = directory / _FILE
    if not path.is_file():
        return FaultSet()
    saved = state.read_json(path)
    try:
        return FaultSet(
            vanished=tuple(saved["vanished"]),
            missing=tuple(saved["missing"]),
            texts=saved["texts"],
            minors=saved["minors"],
            failures=tuple(ConfigureFailure(**failure) for failure in saved["failures"]),
            blocked=tuple(saved["blocked"]),
        )
    except (KeyError, TypeError):
        raise TreeError(f"{path}: damaged; heal the tree to start without faults") from None


class Faults:
    """Sets and heals the faults of one tree; every method raises FaultError for bad input."""

    def __init__(self, root: Path, *, clock: Clock | None = None) -> None:
        self.root = Path(root)
        self.clock = clock or Clock()

    def active(self) -> FaultSet:
        """The faults of now."""
        return load(state.directory(self.root))

    def vanish(self, *bdfs: str) -> None:
        """Take functions off the bus, with their device nodes; a bridge takes along what is behind it."""
        self._change(
            lambda old, machine: replace(old, vanished=_union(old.vanished, _functions(machine, bdfs)))
        )

    def bring_back(self, *bdfs: str) -> None:
        """Put vanished functions back, in their starting state."""

        def change(old: FaultSet, machine: Machine) -> FaultSet:
            for bdf in _functions(machine, bdfs):
                if bdf not in old.vanished:
                    gone = ", ".join(old.vanished) or "none"
                    raise FaultError(f"{bdf}: has not vanished by itself; vanished: {gone}")
            return replace(old, vanished=tuple(bdf for bdf in old.vanished if bdf not in bdfs))

        self._change(change)

    def empty(self) -> None:
        """Take every GPU off the bus."""

        def change(old: FaultSet, machine: Machine) -> FaultSet:
            return replace(old, vanished=_union(old.vanished, [gpu.bdf for gpu in machine.gpus()]))

        self._change(change)

    def missing(self, *targets: str) -> None:
        """Leave out files or whole directories: paths below the root, or `BDF/FILE`."""

        def change(old: FaultSet, machine: Machine) -> FaultSet:
            paths = [_resolve(target, machine, old, files_only=False) for target in targets]
            return replace(old, missing=_union(old.missing, paths))

        self._change(change)

    def text(self, target: str, data: bytes) -> None:
        """Give a file another content, as it is: a path below the root, or `BDF/FILE`."""

        def change(old: FaultSet, machine: Machine) -> FaultSet:
            path = _resolve(target, machine, old, files_only=True)
            return replace(old, texts={**old.texts, path: data.decode("latin-1")})

        self._change(change)

    def bad_text(self, target: str, name: str) -> None:
        """Give a file one of BAD_TEXTS, made from its text without faults."""
        if name not in BAD_TEXTS:
            hint = did_you_mean(name, BAD_TEXTS)
            raise FaultError(f'"{name}" is not a bad text; allowed: {", ".join(BAD_TEXTS)}{hint}')

        def change(old: FaultSet, machine: Machine) -> FaultSet:
            path = _resolve(target, machine, old, files_only=True)
            entry = plan(machine, minors=old.minors)[path]
            before = entry.data if isinstance(entry, File) else b""
            data = BAD_TEXTS[name](before.rstrip(b"\n")) + b"\n"
            return replace(old, texts={**old.texts, path: data.decode("latin-1")})

        self._change(change)

    def renumber(self, minors: Mapping[str, int]) -> None:
        """Give GPUs other minor numbers and so other device nodes; in one call two can swap theirs."""

        def change(old: FaultSet, machine: Machine) -> FaultSet:
            known = {gpu.bdf: gpu.minor for gpu in machine.gpus()}
            for bdf, minor in minors.items():
                if bdf not in known:
                    raise FaultError(
                        f"{bdf}: no such GPU; there are {', '.join(known)}{did_you_mean(bdf, known)}"
                    )
                if not 0 <= minor < CONTROL_MINOR:
                    raise FaultError(f"{bdf}: minor {minor} must be from 0 to {CONTROL_MINOR - 1}")
            owners: dict[int, str] = {}
            for bdf, minor in {**known, **old.minors, **minors}.items():
                other = owners.setdefault(minor, bdf)
                if other != bdf:
                    raise FaultError(
                        f"minor {minor} would belong to {other} and {bdf}; renumber both in one call"
                    )
            return replace(old, minors={**old.minors, **minors})

        self._change(change)

    def fail_configure(self, bdf: str = EVERY, call: int | None = None) -> None:
        """Let configure calls fail: all of a device or of any, or only the `call`-th from now."""
        if call is not None and call < 1:
            raise FaultError(f"call {call} must be 1 (the next call) or more")

        def change(old: FaultSet, machine: Machine) -> FaultSet:
            _gpu_or_every(machine, bdf)
            done = usage.load(state.directory(self.root)).attempts
            failure = ConfigureFailure(bdf, None if call is None else done + call)
            return replace(old, failures=(*old.failures, failure))

        self._change(change)

    def block_configure(self, bdf: str = EVERY) -> None:
        """Let configure calls of a device, or of any, wait until `release` or `heal`."""

        def change(old: FaultSet, machine: Machine) -> FaultSet:
            _gpu_or_every(machine, bdf)
            return replace(old, blocked=_union(old.blocked, [bdf]))

        self._change(change)

    def release(self, bdf: str = EVERY) -> None:
        """Let the blocked calls of a device go on; without a device all of them."""

        def change(old: FaultSet, machine: Machine) -> FaultSet:
            _gpu_or_every(machine, bdf)
            if bdf != EVERY and bdf not in old.blocked:
                blocked = ", ".join(old.blocked) or "none"
                raise FaultError(f"{bdf}: is not blocked by itself; blocked: {blocked}")
            return replace(old, blocked=() if bdf == EVERY else tuple(b for b in old.blocked if b != bdf))

        self._change(change)

    def heal(self) -> None:
        """Remove every fault; the tree is again what the machine says, changes made by hand undone."""
        self._change(lambda old, machine: FaultSet(), heal=True)

    def _change(self, change: Callable[[FaultSet, Machine], FaultSet], heal: bool = False) -> None:
        with state.locked(self.root) as directory:
            marker = tree.read_marker(self.root)
            before = self._present(marker.machine)
            new = change(FaultSet() if heal else load(directory), marker.machine)
            state.replace(directory / _FILE, json.dumps(asdict(new), indent=1).encode(), directory)
            tree.sync(self.root, new.entries(marker.machine), marker.real_devices)
            after = self._present(marker.machine)
            for bdf in sorted(before ^ after):
                usage.record(directory, Event("vanish" if bdf in before else "return", bdf), self.clock)

    def _present(self, machine: Machine) -> set[str]:
        bus = self.root / BUS_DEVICES
        return {gpu.bdf for gpu in machine.gpus() if (bus / gpu.bdf).is_symlink()}


def _union(old: Collection[str], new: Collection[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*old, *new)))


def _is_below(path: str, tops: Collection[str]) -> bool:
    return any(path == top or path.startswith(top + "/") for top in tops)


def _addresses(machine: Machine) -> dict[str, str]:
    """PCI address -> path below the root, for every function of the machine without faults."""
    return {
        path.rsplit("/", 1)[1]: "sys/" + entry.target.removeprefix("../../../")
        for path, entry in plan(machine).items()
        if isinstance(entry, Link) and path.startswith(BUS_DEVICES + "/")
    }


def _functions(machine: Machine, bdfs: Collection[str]) -> list[str]:
    known = _addresses(machine)
    for bdf in bdfs:
        if bdf not in known:
            have = ", ".join(known) or "none"
            raise FaultError(f"{bdf}: no such PCI function; there are {have}{did_you_mean(bdf, known)}")
    return list(bdfs)


def _gpu_or_every(machine: Machine, bdf: str) -> None:
    known = [gpu.bdf for gpu in machine.gpus()]
    if bdf != EVERY and bdf not in known:
        raise _no_gpu(bdf, known)


def _no_gpu(bdf: str, known: Collection[str]) -> FaultError:
    have = ", ".join(known) or "none"
    return FaultError(f"{bdf}: no such GPU; there are {have}{did_you_mean(bdf, known)}")


def _resolve(target: str, machine: Machine, old: FaultSet, files_only: bool) -> str:
    """The path below the root that a target names, which must be in the tree without faults."""
    known = _addresses(machine)
    path = target.strip("/")
    first, _, rest = path.removeprefix(BUS_DEVICES + "/").partition("/")
    if first in known:
        path = f"{known[first]}/{rest}"
    entries = plan(machine, minors=old.minors)
    if path in entries and (isinstance(entries[path], File) or not files_only):
        return path
    near = did_you_mean(path, [name for name, entry in entries.items() if isinstance(entry, File)])
    kind = "file" if files_only else "file or directory"
    raise FaultError(f"{target}: no such {kind} in the tree; give a path below the root or BDF/FILE{near}")
