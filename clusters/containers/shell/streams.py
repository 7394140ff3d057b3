"""Where a command of a shell writes and reads: redirections."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, replace

from clusters.containers.process import Write
from clusters.containers.shell.state import Shell

_STREAMS = {"/dev/stdout": 1, "/proc/1/fd/1": 1, "/proc/self/fd/1": 1, "/dev/stderr": 2, "/proc/1/fd/2": 2}


class RedirectError(Exception):
    """A redirection that failed, with the message of the shell."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


@dataclass(frozen=True)
class Streams:
    """Standard output and error, and what standard input holds."""

    stdout: Write
    stderr: Write
    stdin: bytes = b""

    def with_fd(self, fd: int, write: Write) -> Streams:
        """The streams with one of the two outputs replaced; other descriptors are accepted and ignored."""
        if fd == 1:
            return replace(self, stdout=write)
        return replace(self, stderr=write) if fd == 2 else self


def _drop(_: str) -> None:
    """What is written to /dev/null."""


def redirect(shell: Shell, redirects: Sequence[tuple[int, str, str]], streams: Streams) -> Streams:
    """Apply redirections (descriptor, kind, target) in order. Raises RedirectError."""
    found = streams
    for fd, kind, target in redirects:
        if kind == "duplicate":
            found = found.with_fd(fd, found.stderr if target == "2" else found.stdout)
        elif kind == "read":
            found = replace(found, stdin=_read(shell, target))
        else:
            found = found.with_fd(fd, _writer(shell, target, found, append=kind == "append"))
    return found


def _read(shell: Shell, target: str) -> bytes:
    if target == "/dev/null":
        return b""
    try:
        return shell.process.path(posixpath.join(shell.folder, target)).read_bytes()
    except OSError as problem:
        raise RedirectError(_message(shell, target, "open", "No such file", problem)) from problem


def _writer(shell: Shell, target: str, streams: Streams, *, append: bool) -> Write:
    path = posixpath.normpath(posixpath.join(shell.folder, target))
    if path == "/dev/null":
        return _drop
    if path in _STREAMS:
        return streams.stdout if _STREAMS[path] == 1 else streams.stderr
    try:
        file = shell.process.writable(path)
        with file.open("ab" if append else "wb"):
            pass
    except OSError as problem:
        raise RedirectError(_message(shell, target, "create", "Directory nonexistent", problem)) from problem

    def write(text: str) -> None:
        # Opened for each text: a task that is killed leaves nothing open.
        with file.open("ab") as opened:
            opened.write(text.encode("utf-8", "surrogateescape"))

    return write


def _message(shell: Shell, target: str, verb: str, missing: str, problem: OSError) -> str:
    if shell.bash:
        return f"{shell.name}: {target}: {problem.strerror}\n"
    cause = missing if isinstance(problem, FileNotFoundError) else problem.strerror
    return f"{shell.name}: {shell.line}: cannot {verb} {target}: {cause}\n"
