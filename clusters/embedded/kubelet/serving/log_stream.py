"""Reads a log in the CRI format for somebody who asked for a part of it, and follows it while it grows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

from clusters.clock import parse_stamp
from clusters.embedded.kubelet.serving.log_options import LogOptions
from clusters.embedded.runtime.changes import Changes

_POLL_SECONDS: Final = 0.1
_CHUNK: Final = 64 * 1024


def _since(options: LogOptions, now: float) -> float | None:
    if options.since_seconds is not None:
        return now - options.since_seconds
    return options.since_time


class _Output:
    """Turns log lines into what the reader gets, within the limit of bytes."""

    def __init__(self, options: LogOptions, since: float | None) -> None:
        self._options, self._since = options, since
        self._left = options.limit_bytes
        self.full = self._left == 0
        self._continued = False

    def text(self, line: bytes) -> bytes:
        """The output for one line of the file, which ends with a newline."""
        moment, _, rest = line.partition(b" ")
        _, _, rest = rest.partition(b" ")
        tag, _, content = rest.partition(b" ")
        if self._since is not None and _moment(moment) < self._since:
            return b""
        whole = not tag.startswith(b"P")
        text = content if whole else content.removesuffix(b"\n")
        if self._options.timestamps and not self._continued:
            text = moment + b" " + text
        self._continued = not whole
        if self._left is None:
            return text
        text = text[: self._left]
        self._left -= len(text)
        self.full = self._left == 0
        return text


def _moment(text: bytes) -> float:
    """Seconds of a time stamp; Python reads microseconds only."""
    stamp, _, fraction = text.decode("ascii", "replace").removesuffix("Z").partition(".")
    with contextlib.suppress(ValueError):
        return parse_stamp(f"{stamp}Z") + (float(f"0.{fraction}") if fraction else 0.0)
    return 0.0


def _tail_start(path: Path, lines: int) -> int:
    """Offset of the last so many lines."""
    with path.open("rb") as file:
        content = file.read()
    if lines == 0:
        return len(content)
    position = len(content)
    for _ in range(lines + (1 if content.endswith(b"\n") else 0)):
        position = content.rfind(b"\n", 0, position)
        if position < 0:
            return 0
    return position + 1


async def log_stream(
    path: Path,
    options: LogOptions,
    now: float,
    running: Callable[[], Awaitable[bool]],
    changes: Changes | None,
) -> AsyncIterator[bytes]:
    """Pieces of the log.

    Args:
        path: the file.
        options: what is wanted.
        now: seconds since the epoch.
        running: whether the container may still write.
        changes: tells of containers that end; None when the log is not followed.
    """
    output = _Output(options, _since(options, now))
    offset = 0
    if options.tail_lines is not None and path.exists():
        offset = _tail_start(path, options.tail_lines)
    rest = b""
    while not output.full:
        alive = changes is not None and await running()
        grown = False
        if path.exists():
            with path.open("rb") as file:
                file.seek(offset)
                while chunk := file.read(_CHUNK):
                    grown = True
                    offset += len(chunk)
                    *lines, rest = (rest + chunk).split(b"\n")
                    text = b"".join(output.text(line + b"\n") for line in lines)
                    if text:
                        yield text
                    if output.full:
                        return
        if not alive:
            return
        if not grown:
            await _wait(changes)


async def _wait(changes: Changes | None) -> None:
    """Wait for growth of the file, of which nobody tells, or the end of a container, of which somebody does."""
    if changes is None:
        return
    with contextlib.suppress(TimeoutError, StopAsyncIteration):
        await asyncio.wait_for(changes.__anext__(), _POLL_SECONDS)
