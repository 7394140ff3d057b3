"""Where what images are made of is kept: files by the hash of what they were made from, made by one run at a time.

~/.cache/drakit/images/rootfs-HASH.tar
~/.cache/drakit/images/probe-HASH.tar
~/.cache/drakit/images/.locks/NAME   a flock(2) lock, held by who makes it
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from clusters.binaries import cache
from clusters.interface import ClusterError

Progress = Callable[[str], None]

_POLL_SECONDS: Final = 0.1
_REMIND_SECONDS: Final = 30.0
_LENGTH: Final = 12


def folder() -> Path:
    """The folder: `images` beside the cache of binaries."""
    return cache.root().parent / "images"


def digest(*parts: str | bytes) -> str:
    """A hash of texts, in 12 hexadecimal digits; where one ends and the next begins counts."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(f"{len(data)}:".encode() + data)
    return found.hexdigest()[:_LENGTH]


def tree_digest(folder: Path) -> str:
    """A hash of the files below a folder but for Go tests: names, contents, and which can be executed."""
    parts: list[str | bytes] = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.endswith("_test.go"):
            parts += [path.relative_to(folder).as_posix(), path.read_bytes(), str(os.access(path, os.X_OK))]
    return digest(*parts)


@contextlib.contextmanager
def alone(name: str, progress: Progress) -> Iterator[Path]:
    """Be the only one who makes something; yields a folder to work in, gone afterwards.

    What a run that was killed has left behind is removed first. Raises ClusterError when the cache cannot be used.
    """
    try:
        locks = folder() / ".locks"
        locks.mkdir(parents=True, exist_ok=True)
        handle = os.open(locks / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _unusable(error) from None
    try:
        _wait(handle, name, progress)
        for left in folder().glob(f".work-{name}-*"):
            shutil.rmtree(left, ignore_errors=True)
        work = Path(tempfile.mkdtemp(prefix=f".work-{name}-", dir=folder()))
        try:
            yield work
        except OSError as error:
            raise _unusable(error) from None
        finally:
            shutil.rmtree(work, ignore_errors=True)
    finally:
        os.close(handle)


def kept(name: str, progress: Progress, make: Callable[[Path], Path]) -> Path:
    """The file of a name; `make` makes it in the folder that it gets, if it is not there. Raises ClusterError."""
    path = folder() / name
    if path.is_file():
        return path
    with alone(name, progress) as work:
        # Another run may have made it meanwhile.
        return path if path.is_file() else make(work).replace(path)


def _wait(handle: int, name: str, progress: Progress) -> None:
    start = time.monotonic()
    remind = start
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            now = time.monotonic()
            if now >= remind:
                progress(f"waiting for another run that makes {name} ({now - start:.0f} s)")
                remind = now + _REMIND_SECONDS
            time.sleep(_POLL_SECONDS)
        else:
            return


def _unusable(error: OSError) -> ClusterError:
    return ClusterError(
        f"{error.filename or folder()}: {error.strerror or error}; images are made in {folder()}, "
        "and XDG_CACHE_HOME names another place for it"
    )
