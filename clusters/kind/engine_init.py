"""The first process of a private container engine; a script of the standard library, so that it starts fast.

    engine_init.py RECORD COVER... -- COMMAND...

It runs the engine in a mount and a process namespace of its own: whatever the engine mounts is seen by its containers
and nobody else, and when this process ends, however it does, the kernel ends everything that the engine has started,
containers included, and takes its mounts away. Each COVER is a folder that the engine finds empty: what another engine
of this machine keeps there is not for it.

RECORD is written as {"pid": ..., "started": ...} before the engine starts. On SIGTERM the engine is told to end.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType

_NEWNS, _NEWPID = 0x00020000, 0x20000000
_REC, _SLAVE = 16384, 1 << 19
_NOSUID, _NODEV, _NOEXEC = 2, 4, 8
_DEAD = 127

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, flags: int, kind: str = "none", data: str = "") -> None:
    arguments = (
        source.encode(),
        target.encode(),
        kind.encode(),
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    _check(_libc.mount(*arguments), f"mount {target}")


def _started(pid: int) -> int:
    return int(
        Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19]
    )


def _write(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(handle, text.encode())
        os.fsync(handle)
    finally:
        os.close(handle)
    new.replace(path)


def _be_first(covers: list[str], command: list[str]) -> int:
    """What process 1 of the new namespaces does: start the engine, bury the dead, end with the engine."""
    _mount("proc", "/proc", _NOSUID | _NODEV | _NOEXEC, "proc")
    for cover in covers:
        _mount("tmpfs", cover, _NOSUID | _NODEV, "tmpfs", "mode=0711")
    engine = os.fork()
    if engine == 0:
        try:
            os.execv(command[0], command)  # noqa: S606 - without a shell on purpose
        except OSError as error:
            sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        os._exit(_DEAD)

    def end(number: int, frame: FrameType | None) -> None:
        os.kill(engine, number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    while True:
        pid, status = os.wait()
        if pid == engine:
            return os.waitstatus_to_exitcode(status)


def main(words: list[str]) -> int:
    """Make the namespaces and process 1 in them, write it down, and let it go on."""
    end = words.index("--")
    record, covers, command = Path(words[0]), words[1:end], words[end + 1 :]
    _check(_libc.unshare(_NEWNS | _NEWPID), "unshare")
    _mount("none", "/", _REC | _SLAVE)
    wait, go = os.pipe()
    first = os.fork()
    if first == 0:
        os.close(go)
        # An engine that nobody has written down must not run: the end of the pipe without a word says so.
        if not os.read(wait, 1):
            return 1
        os.close(wait)
        return abs(_be_first(covers, command))
    os.close(wait)
    _write(record, json.dumps({"pid": first, "started": _started(first)}))
    os.write(go, b"!")
    return 0


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except OSError as error:
        sys.stderr.write(f"{error.strerror or error}\n")
        code = 1
    sys.stderr.flush()
    os._exit(code)
