"""The cache of binaries: one folder a version, filled by one process at a time, kept while it is in use.

    ROOT/v1.37.2/kubelet       complete binaries; whatever begins with a dot is being made
    ROOT/etcd-v3.7.3/etcd
    ROOT/.locks/v1.37.2.fill   held by who fills the folder
    ROOT/.locks/v1.37.2.use    held shared by who uses what is in it

Locks are flock(2) locks, which end with the process that holds them, however it ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from clusters.binaries.errors import BinariesError

Progress = Callable[[str], None]
"""Gets one line of text for whatever takes longer than a moment."""

_LOCKS: Final = ".locks"
_POLL_SECONDS: Final = 0.1
_REMIND_SECONDS: Final = 30.0


def root() -> Path:
    """The cache's folder: `$XDG_CACHE_HOME/drakit/binaries` or `~/.cache/drakit/binaries`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification wants a path that is not absolute to be ignored.
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "drakit" / "binaries"


class Hold:
    """Shared locks on folders of the cache, which nobody prunes meanwhile; they end with `close` or with the object."""

    def __init__(self, handles: list[int]) -> None:
        self.close: Callable[[], object] = weakref.finalize(self, _close, handles)


def _close(handles: list[int]) -> None:
    while handles:
        os.close(handles.pop())


@dataclass(frozen=True)
class Shelf:
    """The folder of one version in the cache."""

    version: str

    @property
    def folder(self) -> Path:
        """Where the binaries are."""
        return root() / self.version

    def path(self, name: str) -> Path:
        """Where a binary is, or would be."""
        return self.folder / name

    def has(self, name: str) -> bool:
        """Whether a binary is there; what is there is complete."""
        return self.path(name).is_file() and os.access(self.path(name), os.X_OK)

    def contents(self) -> dict[str, int]:
        """The binaries that are there, with their sizes in bytes."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            entries = [entry for entry in self.folder.iterdir() if not entry.name.startswith(".")]
            return {entry.name: entry.stat().st_size for entry in sorted(entries)}
        return {}

    def _lock_file(self, kind: str) -> int:
        path = root() / _LOCKS / f"{self.version}.{kind}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise _unusable(path, error) from None

    def hold(self) -> list[int]:
        """Take the shared lock of a user; the descriptors are for `Hold`."""
        try:
            handle = self._lock_file("use")
        except BinariesError:
            # A cache that this user may only read is not pruned by this user either.
            return []
        with contextlib.suppress(OSError):
            # Where a file system has no locks, nothing can be pruned.
            fcntl.flock(handle, fcntl.LOCK_SH)
        return [handle]

    def in_use(self) -> bool:
        """Whether somebody uses or fills the folder at this moment."""
        try:
            with self._alone() as alone:
                return not alone
        except BinariesError:
            # Without the right to lock there is nothing to be known.
            return False

    @contextlib.contextmanager
    def _alone(self) -> Iterator[bool]:
        with contextlib.ExitStack() as stack:
            for kind in ("fill", "use"):
                handle = self._lock_file(kind)
                stack.callback(os.close, handle)
                if not _try_lock(handle):
                    yield False
                    return
            yield True

    @contextlib.contextmanager
    def filling(self, progress: Progress) -> Iterator[Path]:
        """Be the only one who fills the folder; yields a folder beside the binaries to work in, gone afterwards.

        What a run that was killed has left behind is removed first.
        """
        handle = self._lock_file("fill")
        try:
            _wait(handle, self.version, progress)
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._sweep()
                work = Path(tempfile.mkdtemp(prefix=".work-", dir=self.folder))
            except OSError as error:
                raise _unusable(self.folder, error) from None
            try:
                yield work
            finally:
                shutil.rmtree(work, ignore_errors=True)
                with contextlib.suppress(OSError):
                    self.folder.rmdir()
        finally:
            os.close(handle)

    def place(self, made: Path, name: str) -> Path:
        """Put a complete file into the cache under its name, at once or not at all."""
        try:
            made.chmod(0o755)
            return made.replace(self.path(name))
        except OSError as error:
            raise _unusable(self.path(name), error) from None

    def _sweep(self) -> None:
        for entry in self.folder.iterdir():
            if not entry.name.startswith("."):
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def prunable(self) -> int | None:
        """The bytes that `prune` would free, or None when somebody uses or fills the folder."""
        return None if self.in_use() else sum(self.contents().values())

    def prune(self) -> int | None:
        """Remove the folder; the bytes that were freed, or None when somebody uses or fills it."""
        with self._alone() as alone:
            if not alone:
                return None
            freed = sum(self.contents().values())
            try:
                shutil.rmtree(self.folder)
            except FileNotFoundError:
                return 0
            except OSError as error:
                raise _unusable(self.folder, error) from None
            return freed


def shelves() -> list[Shelf]:
    """The folders that are there."""
    try:
        entries = [
            entry.name for entry in root().iterdir() if entry.is_dir() and not entry.name.startswith(".")
        ]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [Shelf(name) for name in sorted(entries)]


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise _unusable(root() / _LOCKS, error) from None
    return True


def _wait(handle: int, version: str, progress: Progress) -> None:
    """Take the lock of who fills a folder; polled, so that it can be said how long it takes."""
    start = time.monotonic()
    remind = start
    while not _try_lock(handle):
        now = time.monotonic()
        if now >= remind:
            since = f" (for {now - start:.0f} s)" if now - start >= 1 else ""
            progress(f"waiting for another run that is getting {version}{since}")
            remind = now + _REMIND_SECONDS
        time.sleep(_POLL_SECONDS)


def _unusable(path: Path, error: OSError) -> BinariesError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return full_disk(path)
    return BinariesError(
        f"the cache cannot be used: {error.filename or path}: {error.strerror}; "
        "XDG_CACHE_HOME names another place for it, DRAKIT_BINARIES a folder with the binaries"
    )


def full_disk(path: Path) -> BinariesError:
    """The error of a file system without room."""
    return BinariesError(
        f'no space left for {path}; "drakit binaries prune" makes room in the cache, '
        "XDG_CACHE_HOME names another place for it"
    )
