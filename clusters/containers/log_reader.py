"""Reading a container's log with the options of `kubectl logs`, by the rules of the kubelet.

Lines are counted and dated as the file has them, so a part of a long line counts as one; parts come out joined.
"""

from __future__ import annotations

import asyncio
import datetime
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from clusters.containers.logs import STDERR, STDOUT, format_time

POLL_SECONDS = 0.05
"""How often a followed log is looked at. Real time, not the clock's: it is about files, not about the cluster."""
_BLOCK = 64 * 1024
_TIME = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True)
class LogOptions:
    """What to read. `since` in seconds since the epoch; `stream` "" for both, else stdout or stderr.

    `tail` and `limit_bytes` None: everything.
    """

    follow: bool = False
    tail: int | None = None
    since: float | None = None
    timestamps: bool = False
    limit_bytes: int | None = None
    stream: str = ""


@dataclass(frozen=True)
class LogLine:
    """A line of a log file: nanoseconds since the epoch, the stream, and the text with its line end if it is whole."""

    time: int
    stream: str
    text: bytes


def since(seconds: int | None, moment: float | None, now: float) -> float | None:
    """The start that `sinceSeconds` and `sinceTime` ask for together: the later one."""
    found = [start for start in (None if seconds is None else now - seconds, moment) if start is not None]
    return max(found) if found else None


def parse_line(line: bytes) -> LogLine | None:
    """A line of the file with its line end, or None when it is not in the CRI format."""
    parts = line.split(b" ", 3)
    if len(parts) < 4:
        return None
    time, stream = _parse_time(parts[0]), parts[1].decode("ascii", "replace")
    if time is None or stream not in (STDOUT, STDERR):
        return None
    text = parts[3]
    if parts[2].split(b":")[0] == b"P":
        text = text.removesuffix(b"\n")
    return LogLine(time, stream, text)


def _parse_time(text: bytes) -> int | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat((match[1] + match[3].replace(b"Z", b"+00:00")).decode())
    except ValueError:
        return None
    return int(moment.timestamp()) * 1_000_000_000 + int((match[2] or b"").ljust(9, b"0"))


def tail_start(file: BinaryIO, lines: int | None) -> int:
    """The offset in the file at which its last `lines` lines begin."""
    if lines is None:
        return 0
    end = file.seek(0, 2)
    if lines <= 0:
        return end
    wanted = lines + 1
    position = end
    while position > 0:
        start = max(0, position - _BLOCK)
        file.seek(start)
        block = file.read(position - start)
        # The end of the last line does not begin another one.
        if position == end and not block.endswith(b"\n"):
            wanted -= 1
        found = block.count(b"\n")
        if found >= wanted:
            at = len(block)
            for _ in range(wanted):
                at = block.rindex(b"\n", 0, at)
            return start + at + 1
        wanted -= found
        position = start
    return 0


async def read_logs(
    path: Path, options: LogOptions, running: Callable[[], bool] = lambda: False
) -> AsyncIterator[bytes]:
    """Yield the text of a log, in pieces of any size.

    Args:
        path: the log file.
        options: what to read of it.
        running: whether the container still writes; asked while following. The log is read to its end after that.

    Raises:
        OSError: the file cannot be read.
    """
    writer = _Output(options)
    with path.open("rb") as file:
        file.seek(tail_start(file, options.tail))
        rest = b""
        alive = True
        # What is written after the start has been found is not of the tail.
        lines_left = None if options.follow else options.tail
        while True:
            block = file.read(_BLOCK)
            if block:
                *lines, rest = (rest + block).split(b"\n")
                if lines_left is not None:
                    lines = lines[:lines_left]
                    lines_left -= len(lines)
                if out := writer.add([line + b"\n" for line in lines]):
                    yield out
                if writer.full or lines_left == 0:
                    return
            elif options.follow and alive:
                # What was written before the container ended is read once more after it has been seen ended.
                alive = running()
                if alive:
                    await asyncio.sleep(POLL_SECONDS)
            else:
                break
        if rest and (out := writer.add([rest])):
            yield out


class _Output:
    """Applies the options that look at single lines."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._left = options.limit_bytes
        self._line_begins = True
        self._since = None if options.since is None else int(options.since * 1_000_000_000)

    @property
    def full(self) -> bool:
        """Whether the limit of bytes has been reached."""
        return self._left is not None and self._left <= 0

    def add(self, lines: list[bytes]) -> bytes:
        out = bytearray()
        for raw in lines:
            line = parse_line(raw)
            if line is None or self.full:
                continue
            if not self._wanted(line):
                self._line_begins = line.text.endswith(b"\n") or not line.text
                continue
            text = line.text
            if self._options.timestamps and self._line_begins:
                text = _fixed_time(line.time) + b" " + text
            self._line_begins = line.text.endswith(b"\n") or not line.text
            if self._left is not None:
                text = text[: self._left]
                self._left -= len(text)
            out += text
        return bytes(out)

    def _wanted(self, line: LogLine) -> bool:
        if self._since is not None and line.time < self._since:
            return False
        return not self._options.stream or line.stream == self._options.stream


def _fixed_time(nanoseconds: int) -> bytes:
    """The time as `kubectl logs --timestamps` shows it: always nine decimals."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{format_time(seconds * 1_000_000_000).removesuffix('Z')}.{rest:09d}Z".encode()
