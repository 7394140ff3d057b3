"""A small process that outlives the kit and cleans up after it when the kit dies without doing so itself.

It reads one JSON line per resource on standard input: {"owner": WORD} marks everything the kit starts, {"group": PGID,
"started": TICKS} is a process group the kit started, {"ended": PGID} says that the group is gone, {"folder": PATH} is
a folder the kit made, {"done": true} comes at the end. When the input ends without "done" (kill -9, crash), it kills
the groups that are still the kit's own, which it recognises by start time, and every process with the owner's mark,
and removes the folders.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

OWNER = "DRAKIT_OWNER"
"""Environment variable that marks a process as started by the kit; children inherit it wherever they go."""

_ROUNDS = 5
_END_SECONDS = 10.0


def start_ticks(pid: int) -> int | None:
    """Start time of a process in clock ticks since boot, from /proc; None when it does not exist."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The command name may hold spaces and parentheses; fields are counted after the last one. Start time is field 22.
    return int(text.rpartition(")")[2].split()[19])


def is_running(pid: int, started: int | None) -> bool:
    """Whether the process that started at `started` still runs; one that only waits to be buried does not."""
    try:
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return False
    return fields[0] not in ("Z", "X") and int(fields[19]) == started


def _owned(pid: str, owner: bytes) -> bool:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(variable == owner or variable.startswith(owner + b":") for variable in variables)


def kill_owned(owner: str) -> None:
    """SIGKILL every process that carries the mark `owner`, or one that begins with `owner:`.

    Catches what left its process group, such as a daemon that a driver has started.
    """
    wanted = f"{OWNER}={owner}".encode()
    # What is killed may have made another process after the list was read.
    for _ in range(_ROUNDS):
        found = [name.name for name in Path("/proc").iterdir() if name.name.isdigit()]
        killed = [
            pid for pid in found if int(pid) != os.getpid() and _owned(pid, wanted) and _kill(pid, wanted)
        ]
        if not killed:
            return


def _kill(pid: str, owner: bytes) -> bool:
    """Kill one process, with a handle on it where there are handles: its number may mean another meanwhile."""
    with contextlib.ExitStack() as stack:
        try:
            if not hasattr(os, "pidfd_open"):
                os.kill(int(pid), signal.SIGKILL)
                return True
            handle = os.pidfd_open(int(pid))
            stack.callback(os.close, handle)
            if not _owned(pid, owner):
                return False
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        except OSError:
            return False
    return True


def kill_group(pgid: int, started: int | None) -> None:
    """SIGKILL a process group whose leader started at `started`; without effect when its number means another now."""
    # A leader that is gone keeps its number reserved while the group has members.
    ticks = start_ticks(pgid)
    if ticks is not None and ticks != started:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pgid, signal.SIGKILL)


class Guardian:
    """The kit's side: tells the guardian process what to clean up. `owner` marks what the kit starts."""

    def __init__(self) -> None:
        self.owner = secrets.token_hex(8)
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and file
            [sys.executable, "-S", "-E", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._lock = threading.Lock()
        self._groups: dict[int, int | None] = {}
        self._tell({"owner": self.owner})

    def _tell(self, message: dict[str, Any]) -> None:
        with self._lock:
            pipe = self._process.stdin
            if pipe is not None and not pipe.closed:
                # Without a guardian (somebody killed it) the kit can still clean up itself.
                with contextlib.suppress(BrokenPipeError):
                    pipe.write(json.dumps(message).encode() + b"\n")
                    pipe.flush()

    def watch_group(self, pgid: int) -> None:
        """Kill this process group when the kit dies."""
        self._groups[pgid] = start_ticks(pgid)
        self._tell({"group": pgid, "started": self._groups[pgid]})

    def kill_group(self, pgid: int) -> None:
        """SIGKILL a process group that is watched; one that was forgotten may be somebody else's by now."""
        if pgid in self._groups:
            kill_group(pgid, self._groups[pgid])

    def forget_group(self, pgid: int) -> None:
        """The group has ended."""
        self._groups.pop(pgid, None)
        self._tell({"ended": pgid})

    def watch_folder(self, folder: Path) -> None:
        """Remove this folder when the kit dies."""
        self._tell({"folder": str(folder)})

    def close(self) -> None:
        """The kit has stopped what it started itself; what carries its mark all the same is killed here."""
        kill_owned(self.owner)
        self._tell({"done": True})
        with self._lock, contextlib.suppress(BrokenPipeError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _clean(owner: str, groups: dict[int, int | None], folders: list[str]) -> None:
    for pgid, started in groups.items():
        kill_group(pgid, started)
    if owner:
        kill_owned(owner)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _serve(stream: IO[str]) -> None:
    owner = ""
    groups: dict[int, int | None] = {}
    folders: list[str] = []
    for line in stream:
        try:
            message = json.loads(line)
        except ValueError:
            break  # the kit died in the middle of a line
        if "owner" in message:
            owner = message["owner"]
        elif "group" in message:
            groups[message["group"]] = message["started"]
        elif "ended" in message:
            groups.pop(message["ended"], None)
        elif "folder" in message:
            folders.append(message["folder"])
        elif "done" in message:
            return
    _clean(owner, groups, folders)


if __name__ == "__main__":
    _serve(sys.stdin)
