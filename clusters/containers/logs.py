"""Container logs in the CRI format: `TIME STREAM TAG TEXT` a line.

TIME is RFC 3339 with nanoseconds (trailing zeros dropped, as Go writes it), STREAM stdout or stderr, TAG F for a
whole line and P for a part of one: of a line that is longer than `MAX_LINE`, or whose end never came.
"""

from __future__ import annotations

import datetime
import os
from pathlib import Path

from clusters.clock import Clock

MAX_LINE = 16 * 1024
"""Bytes of text after which a line is cut; containerd's default."""
FILE_MODE = 0o640
DIRECTORY_MODE = 0o755
STDOUT, STDERR = "stdout", "stderr"
_BILLION = 1_000_000_000


def format_time(nanoseconds: int) -> str:
    """A moment since the epoch as RFC 3339 in UTC with up to nine decimals, none of them a trailing zero."""
    seconds, rest = divmod(nanoseconds, _BILLION)
    text = datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S")
    decimals = f"{rest:09d}".rstrip("0")
    return f"{text}.{decimals}Z" if decimals else f"{text}Z"


class LogWriter:
    """The log of one container. Text is written when its line is complete, or when the log is closed."""

    def __init__(self, path: Path | None, clock: Clock) -> None:
        """Open the log for appending; None discards what is written. Raises OSError."""
        self._clock = clock
        self._last = 0
        self._pending = {STDOUT: b"", STDERR: b""}
        self._path = path
        self._file = self._open()

    def _open(self) -> int | None:
        if self._path is None:
            return None
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)

    def reopen(self) -> None:
        """Write to a new file at the path from now on, as after a rotation. Raises OSError and goes on as before."""
        before, self._file = self._file, self._open()
        if before is not None:
            os.close(before)

    def stdout(self, text: str) -> None:
        """Write to the container's standard output."""
        self._add(STDOUT, text)

    def stderr(self, text: str) -> None:
        """Write to the container's standard error."""
        self._add(STDERR, text)

    def close(self) -> None:
        """Write what is left as partial lines and close the file. Further text is dropped."""
        for stream, rest in self._pending.items():
            if rest:
                self._write([self._line(stream, b"P", rest)])
        self._pending = {STDOUT: b"", STDERR: b""}
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _add(self, stream: str, text: str) -> None:
        if self._file is None:
            return
        *lines, rest = (self._pending[stream] + text.encode("utf-8", "surrogateescape")).split(b"\n")
        out: list[bytes] = []
        for line in lines:
            line = line.removesuffix(b"\r")
            while len(line) > MAX_LINE:
                out.append(self._line(stream, b"P", line[:MAX_LINE]))
                line = line[MAX_LINE:]
            out.append(self._line(stream, b"F", line))
        while len(rest) > MAX_LINE:
            out.append(self._line(stream, b"P", rest[:MAX_LINE]))
            rest = rest[MAX_LINE:]
        self._pending[stream] = rest
        self._write(out)

    def _line(self, stream: str, tag: bytes, text: bytes) -> bytes:
        # Microseconds are what a float holds today. Later lines have later times, however coarse the clock is.
        self._last = max(self._last + 1, round(self._clock.now() * 1_000_000) * 1000)
        return b"%s %s %s %s\n" % (format_time(self._last).encode(), stream.encode(), tag, text)

    def _write(self, lines: list[bytes]) -> None:
        if self._file is None or not lines:
            return
        data = b"".join(lines)
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError:
            # A full disk loses output, as with a real runtime; the container goes on.
            return
