"""Makes and enters the mount namespace of a cluster; a script of the standard library alone, so that it starts fast.

    enter.py make FOLDER                    a new namespace in which only mounts below FOLDER are shared, with the
                                            namespaces that are made from it and with nobody else; says "ready" and
                                            waits for the end of its input
    enter.py run FD -- COMMAND...           the command in the namespace of the descriptor
    enter.py cover FD PATH=SOURCE... -- COMMAND...
                                            the same in a namespace of its own made from that one, where each PATH shows
                                            SOURCE instead of what the host has there, or has not

A namespace and all its mounts are gone as soon as no process and no descriptor holds it, however its processes ended.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_NEWNS = 0x00020000
_BIND, _REC, _PRIVATE, _SHARED = 4096, 16384, 1 << 18, 1 << 20

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, flags: int, kind: str = "none") -> None:
    arguments = (source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None)
    _check(_libc.mount(*arguments), f"mount {target}")


def _unshare() -> None:
    _check(_libc.unshare(_NEWNS), "unshare")


def _make(folder: str) -> None:
    _unshare()
    _mount("none", "/", _REC | _PRIVATE)
    _mount(folder, folder, _BIND | _REC)
    _mount("none", folder, _SHARED)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()


def _cover(path: Path, source: Path) -> None:
    """Show `source` at `path`. Where there is nothing yet, the parent becomes a copy that has it."""
    if not os.path.lexists(path):
        _replace_parent(path, is_folder=source.is_dir())
    _mount(str(source), str(path), _BIND)


def _replace_parent(path: Path, *, is_folder: bool) -> None:
    parent = path.parent
    if not parent.is_dir():
        _replace_parent(parent, is_folder=True)
    held = os.open(parent, os.O_PATH | os.O_DIRECTORY)
    _mount("tmpfs", str(parent), 0, "tmpfs")
    for entry in Path(f"/proc/self/fd/{held}").iterdir():
        there = parent / entry.name
        if entry.is_symlink():
            there.symlink_to(entry.readlink())
            continue
        _place(there, is_folder=entry.is_dir())
        _mount(str(entry), str(there), _BIND | _REC)
    os.close(held)
    _place(path, is_folder=is_folder)


def _place(path: Path, *, is_folder: bool) -> None:
    if is_folder:
        path.mkdir()
    else:
        path.touch(0o600)


def main(words: list[str]) -> None:
    """Do what the words say; a command takes the place of this process."""
    if words[0] == "make":
        _make(words[1])
        return
    end = words.index("--")
    descriptor, covers, command = int(words[1]), words[2:end], words[end + 1 :]
    _check(_libc.setns(descriptor, _NEWNS), "setns")
    os.close(descriptor)
    if words[0] == "cover":
        _unshare()
        for cover in covers:
            path, _, source = cover.partition("=")
            _cover(Path(path), Path(source))
    os.execv(command[0], command)  # noqa: S606 - without a shell on purpose


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as error:
        sys.exit(f"{error.strerror or error}")
