"""What a process prints, kept in memory up to a limit."""

from __future__ import annotations

import os
import select
import threading

from clusters.log_files import LogFile

HEAD_BYTES = 2 * 1024 * 1024
TAIL_BYTES = 256 * 1024
_READ_BYTES = 64 * 1024
_LOOK_SECONDS = 0.2
_LAST_WORDS_SECONDS = 1.0
_BRAKE_SECONDS = 0.02


class Output:
    """Reads what processes print: the first 2 MiB and the last 256 KiB are kept, over all runs of a driver.

    Beyond that it reads slowly, so that a process which prints without end costs neither memory, disk nor processor.
    """

    def __init__(self, log: LogFile | None = None) -> None:
        """`log` gets all of it, too."""
        self._log = log
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._reader: threading.Thread | None = None

    def pipe(self) -> int:
        """A descriptor for a process to write to; the caller closes its copy when the process has started."""
        self.finish()
        reading, writing = os.pipe()
        self._closing = threading.Event()
        self._reader = threading.Thread(
            target=self._read, args=(reading, self._closing), name="output", daemon=True
        )
        self._reader.start()
        return writing

    def settle(self) -> None:
        """Wait for the last words of processes that have ended; what still holds the pipe is not waited for."""
        if self._reader is not None:
            self._reader.join(_LAST_WORDS_SECONDS)

    def finish(self) -> None:
        """Read what is there and close the pipe, whoever still holds its other end."""
        if self._reader is not None:
            self.settle()
            self._closing.set()
            self._reader.join()
            self._reader = None

    def text(self) -> str:
        """What was printed; bytes that are not UTF-8 are replaced."""
        with self._lock:
            middle = f"\n[{self._left_out} bytes left out]\n".encode() if self._left_out else b""
            return bytes(self._head + middle + self._tail).decode(errors="replace")

    def _read(self, reading: int, closing: threading.Event) -> None:
        poll = select.poll()
        poll.register(reading, select.POLLIN)
        try:
            while not closing.is_set():
                if not poll.poll(_LOOK_SECONDS * 1000):
                    continue
                data = os.read(reading, _READ_BYTES)
                if not data:
                    return
                if self._log is not None:
                    self._log.write(data)
                if self._keep(data):
                    closing.wait(_BRAKE_SECONDS)
        finally:
            os.close(reading)
            if self._log is not None:
                self._log.finish()

    def _keep(self, data: bytes) -> bool:
        """Store what was read; whether the limit is reached."""
        with self._lock:
            room = HEAD_BYTES - len(self._head)
            self._head += data[:room]
            self._tail += data[room:] if room < len(data) else b""
            excess = len(self._tail) - TAIL_BYTES
            if excess > 0:
                del self._tail[:excess]
                self._left_out += excess
            return bool(self._tail)
