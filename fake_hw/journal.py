"""Who configured and reset which device when: append-only JSON lines, and the check for double use.

A record is one `write` to a file opened for appending, so it survives the SIGKILL of its writer whole.
Writers hold the lock of the tree, so the order of the lines is the order of what happened.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, get_args

from fake_hw import state
from fake_hw.errors import JournalError

FILE: Final = "journal.jsonl"

Kind = Literal["configure", "configure-failed", "configure-blocked", "reset", "vanish", "return"]


@dataclass(frozen=True)
class Event:
    """One record.

    `monotonic_ns` is CLOCK_MONOTONIC, comparable between processes of one boot; `time` is UTC in RFC 3339
    form; `pid` is the process that acted. `claim` is empty for what happens to a device without a claim
    (vanish, return). `detail` says why a call failed or that it changed nothing.
    """

    kind: Kind
    bdf: str
    claim: str = ""
    shared: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    detail: str = ""
    pid: int = 0
    monotonic_ns: int = 0
    time: str = ""


@dataclass(frozen=True)
class Overlap:
    """Two claims had one device at once, at least one of them exclusively; `end_ns` None: still so."""

    bdf: str
    claims: tuple[str, str]
    start_ns: int
    end_ns: int | None


@dataclass(frozen=True)
class Clock:
    """Where records get their times from: nanoseconds of CLOCK_MONOTONIC, and seconds since 1970."""

    monotonic_ns: Callable[[], int] = time.monotonic_ns
    seconds: Callable[[], float] = time.time


def read(root: Path) -> list[Event]:
    """All complete records of a tree, in order; raises JournalError for a line that is not a record."""
    return read_from(state.directory(root), 0)[0]


def read_from(directory: Path, offset: int) -> tuple[list[Event], int]:
    """The complete records from a byte offset on, and the offset behind them.

    A last line without its end is a writer in the middle of its work, or a dead one: it is not there yet.
    """
    try:
        with (directory / FILE).open("rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return [], 0
    data = data[: data.rfind(b"\n") + 1]
    return [_parse(line, directory / FILE) for line in data.splitlines()], offset + len(data)


def append(directory: Path, event: Event, clock: Clock) -> None:
    """Write a record, with the time and process of now. The caller holds the lock of the tree.

    Raises OSError when the record does not fit on the disk; it has not happened then.
    """
    wall = (
        datetime.fromtimestamp(clock.seconds(), UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    )
    record = asdict(event) | {"pid": os.getpid(), "monotonic_ns": clock.monotonic_ns(), "time": wall}
    line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
    descriptor = os.open(directory / FILE, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _drop_torn_tail(descriptor)
        if os.write(descriptor, line) < len(line):
            # The next writer cuts the part off.
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory / FILE))
    finally:
        os.close(descriptor)


def overlaps(events: Iterable[Event]) -> list[Overlap]:
    """Every time span in which two claims had one device without both having asked for sharing.

    A claim has a device from `configure` to `reset` of the two, or until the device vanishes. Sorted by the
    start.
    """
    users: dict[str, dict[str, bool]] = {}
    started: dict[tuple[str, tuple[str, str]], int] = {}
    found: list[Overlap] = []
    for event in events:
        of_device = users.setdefault(event.bdf, {})
        if event.kind == "configure":
            of_device[event.claim] = event.shared
        elif event.kind == "reset":
            of_device.pop(event.claim, None)
        elif event.kind == "vanish":
            of_device.clear()
        now = _conflicts(of_device)
        for bdf, claims in [key for key in started if key[0] == event.bdf and key[1] not in now]:
            found.append(Overlap(bdf, claims, started.pop((bdf, claims)), event.monotonic_ns))
        for claims in now:
            started.setdefault((event.bdf, claims), event.monotonic_ns)
    found += [Overlap(bdf, claims, start, None) for (bdf, claims), start in started.items()]
    return sorted(found, key=lambda overlap: (overlap.start_ns, overlap.bdf, overlap.claims))


def _conflicts(users: Mapping[str, bool]) -> set[tuple[str, str]]:
    """Pairs of claims, of which at least one is exclusive."""
    return {
        (first, second)
        for first in users
        for second in users
        if first < second and not (users[first] and users[second])
    }


def _drop_torn_tail(descriptor: int) -> None:
    """Cut off what a writer left that died inside a write; that its lock is free shows that it is dead."""
    end = os.fstat(descriptor).st_size
    if end == 0 or os.pread(descriptor, 1, end - 1) == b"\n":
        return
    data = os.pread(descriptor, end, 0)
    os.ftruncate(descriptor, data.rfind(b"\n") + 1)


def _parse(line: bytes, path: Path) -> Event:
    try:
        event = Event(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise JournalError(f"{path}: not a record: {line[:80]!r} ({error})") from None
    if event.kind not in get_args(Kind):
        raise JournalError(f'{path}: unknown kind "{event.kind}"; known: {", ".join(get_args(Kind))}')
    return event
