"""A small process that outlives the kit and cleans up after it when the kit dies without doing so itself.

It reads one JSON line per resource on standard input: {"group": PGID, "started": TICKS} for a process group the kit
started, {"ended": PGID} when that group is gone, {"folder": PATH} for a folder the kit made, {"done": true} at the
end. When the input ends without "done" (kill -9, crash), it kills the groups that are still the kit's own, which
it recognises by start time, and removes the folders.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any


def start_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot, from /proc; None when it does not exist."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The command name may hold spaces and parentheses; fields are counted after the last one. Start time is field 22.
    return int(text.rpartition(")")[2].split()[19])


class Guardian:
    """The kit's side: tells the guardian process what to clean up."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and file
            [sys.executable, "-S", "-E", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._lock = threading.Lock()

    def _tell(self, message: dict[str, Any]) -> None:
        with self._lock:
            pipe = self._process.stdin
            if pipe is not None and not pipe.closed:
                pipe.write(json.dumps(message).encode() + b"\n")
                pipe.flush()

    def watch_group(self, pgid: int) -> None:
        """Kill this process group when the kit dies."""
        self._tell({"group": pgid, "started": start_ticks(pgid)})

    def forget_group(self, pgid: int) -> None:
        """The group has ended."""
        self._tell({"ended": pgid})

    def watch_folder(self, folder: Path) -> None:
        """Remove this folder when the kit dies."""
        self._tell({"folder": str(folder)})

    def close(self) -> None:
        """The kit has cleaned up itself."""
        self._tell({"done": True})
        with self._lock:
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._process.wait()


def _clean(groups: dict[int, int | None], folders: list[str]) -> None:
    for pgid, started in groups.items():
        # A leader that is gone keeps its number reserved while the group has members.
        ticks = start_ticks(pgid)
        if ticks is not None and ticks != started:
            continue
        try:
            os.killpg(pgid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _serve(stream: IO[str]) -> None:
    groups: dict[int, int | None] = {}
    folders: list[str] = []
    for line in stream:
        try:
            message = json.loads(line)
        except ValueError:
            break  # the kit died in the middle of a line
        if "group" in message:
            groups[message["group"]] = message["started"]
        elif "ended" in message:
            groups.pop(message["ended"], None)
        elif "folder" in message:
            folders.append(message["folder"])
        elif "done" in message:
            return
    _clean(groups, folders)


if __name__ == "__main__":
    _serve(sys.stdin)
