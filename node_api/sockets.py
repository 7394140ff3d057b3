"""Unix sockets of plugins: path limit, clients, servers, stale files.

Linux keeps a socket path in 108 bytes with a closing NUL, so 107 bytes are usable; beyond that gRPC fails
with a text that names neither the path nor the limit.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import socket
import stat
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

import grpc

MAX_PATH_BYTES = 107
"""Longest usable path of a Unix socket on Linux, in bytes of the file system's encoding."""

AUTHORITY = "localhost"
"""`:authority` that the kubelet sends; gRPC's default, the escaped path, is refused by strict servers."""


_RANDOM_DIGITS = 3


class SocketPathError(ValueError):
    """The path cannot be used for a Unix socket: too long, or something else is there."""


class SocketInUseError(SocketPathError):
    """Another process listens on the socket."""


def check_socket_path(path: str | os.PathLike[str]) -> str:
    """Return the path as text if it fits into a socket address.

    Raises:
        SocketPathError: if it is longer than 107 bytes or empty, with the length and a way out.
    """
    text = os.fspath(path)
    size = len(os.fsencode(text))
    if size == 0:
        raise SocketPathError("the path of a Unix socket must not be empty")
    if size > MAX_PATH_BYTES:
        raise SocketPathError(
            f"socket path {text!r} has {size} bytes, a Unix socket allows {MAX_PATH_BYTES}: use a shorter "
            "directory (for example one directly below /tmp) or a shorter name"
        )
    return text


def _target(path: str) -> str:
    # gRPC parses the target as a URI and decodes it, so what is special in URIs must be escaped.
    return "unix:" + quote(path)


def channel(path: str | os.PathLike[str], options: Sequence[tuple[str, Any]] = ()) -> grpc.Channel:
    """Return a client channel to the socket; it connects at the first call.

    The authority is `localhost`. Each channel has its own connection: gRPC would otherwise share it, and the
    waiting time after a failed connect, with earlier channels to the same path.

    Args:
        path: the socket; it need not exist yet.
        options: further channel arguments; they win over the ones set here.

    Raises:
        SocketPathError: see `check_socket_path`.
    """
    target = _target(check_socket_path(path))
    settings: dict[str, Any] = {"grpc.default_authority": AUTHORITY, "grpc.use_local_subchannel_pool": 1}
    settings.update(options)
    return grpc.insecure_channel(target, options=list(settings.items()))


def _mode(path: str) -> int | None:
    """File type and permissions without following links; None if nothing is there."""
    try:
        return os.lstat(path).st_mode
    except FileNotFoundError:
        return None


def is_stale(path: str | os.PathLike[str]) -> bool:
    """Whether the path is a socket file that nobody listens on.

    False if it is absent, not a socket (symbolic links are not followed), alive, or not accessible.
    """
    text = check_socket_path(path)
    mode = _mode(text)
    if mode is None or not stat.S_ISSOCK(mode):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        # Non-blocking: a listener with a full queue gives EAGAIN and is alive.
        return probe.connect_ex(text) == errno.ECONNREFUSED


def remove_stale(path: str | os.PathLike[str]) -> bool:
    """Remove a socket file that nobody listens on; return whether there was one.

    Raises:
        SocketPathError: if something other than a socket is there (it is left alone).
        SocketInUseError: if a process listens on the socket.
    """
    text = check_socket_path(path)
    mode = _mode(text)
    if mode is None:
        return False
    if not stat.S_ISSOCK(mode):
        raise SocketPathError(f"{text!r} exists and is not a socket: remove it or choose another path")
    if not is_stale(text):
        raise SocketInUseError(f"a process already listens on {text!r}: stop it or choose another path")
    with contextlib.suppress(FileNotFoundError):
        Path(text).unlink()
    return True


class _SocketFile:
    """The file of a socket that this process serves."""

    def __init__(self, path: str, identity: tuple[int, int]) -> None:
        self.path = path
        self._identity = identity
        self._lock = threading.Lock()

    @property
    def present(self) -> bool:
        """Whether the socket of this server is still at its path, for new clients to find."""
        try:
            found = os.lstat(self.path)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    def unlink(self) -> None:
        """Remove the socket file if it is still the one of this server; calls go on being answered."""
        with self._lock, contextlib.suppress(FileNotFoundError):
            if self.present:
                Path(self.path).unlink()


class ServedSocket(_SocketFile):
    """A started gRPC server on a socket; closing it stops the server and removes its socket."""

    def __init__(self, server: grpc.Server, path: str, identity: tuple[int, int]) -> None:
        super().__init__(path, identity)
        self.server = server

    def close(self, grace: float | None = None) -> None:
        """Remove the socket file, then stop the server; running calls get `grace` seconds."""
        self.unlink()
        self.server.stop(grace).wait()

    def __enter__(self) -> ServedSocket:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close without grace."""
        self.close()


class AioServedSocket(_SocketFile):
    """A started server of an event loop on a socket; closing it stops the server and removes its socket."""

    def __init__(self, server: grpc.aio.Server, path: str, identity: tuple[int, int]) -> None:
        super().__init__(path, identity)
        self.server = server

    async def close(self, grace: float | None = None) -> None:
        """Remove the socket file, then stop the server; running calls get `grace` seconds."""
        self.unlink()
        await self.server.stop(grace)


def _hidden_prefix(path: str) -> str:
    """How the hidden name begins that a server for this path binds; short, as the whole path must fit."""
    return "." + hashlib.sha256(os.fsencode(os.path.basename(path))).hexdigest()[:3]  # noqa: PTH119 - bytes of the name


def serve(
    server: grpc.Server, path: str | os.PathLike[str], *, mode: int = 0o600, directory_mode: int = 0o750
) -> ServedSocket:
    """Start the server on the socket; the path appears only when calls are answered.

    A stale socket at the path is replaced. The server binds a hidden name beside it (which kubelets ignore)
    that is renamed when everything is ready: nobody sees a socket with wrong permissions, and gRPC, which
    removes the name it has bound long after stopping, cannot remove the socket of a successor.

    Args:
        server: with its handlers, not started.
        path: where clients connect.
        mode: permissions of the socket.
        directory_mode: permissions of the directory if it must be made (0750 as the kubelet's own).

    Raises:
        SocketPathError: if the path is too long or not a socket.
        SocketInUseError: if another process listens there.
        OSError: if the directory cannot be written.
    """
    text, hidden = _bind(server, path, directory_mode)
    try:
        Path(hidden).chmod(mode)
        server.start()
        return ServedSocket(server, text, _show(hidden, text))
    except OSError:
        server.stop(None)
        Path(hidden).unlink(missing_ok=True)
        raise


async def serve_aio(
    server: grpc.aio.Server, path: str | os.PathLike[str], *, mode: int = 0o600, directory_mode: int = 0o750
) -> AioServedSocket:
    """As `serve`, for a server of the running event loop."""
    text, hidden = _bind(server, path, directory_mode)
    try:
        Path(hidden).chmod(mode)
        await server.start()
        return AioServedSocket(server, text, _show(hidden, text))
    except OSError:
        await server.stop(None)
        Path(hidden).unlink(missing_ok=True)
        raise


def _bind(
    server: grpc.Server | grpc.aio.Server, path: str | os.PathLike[str], directory_mode: int
) -> tuple[str, str]:
    """Let the server bind a hidden name beside the path; returns the path and that name."""
    text = check_socket_path(path)
    directory, _ = os.path.split(text)
    prefix = _hidden_prefix(text)
    hidden = check_socket_path(Path(directory, f"{prefix}{secrets.token_hex(2)[:_RANDOM_DIGITS]}"))
    Path(directory).mkdir(mode=directory_mode, parents=True, exist_ok=True)
    remove_stale(text)
    for left in Path(directory).glob(f"{prefix}{'[0-9a-f]' * _RANDOM_DIGITS}"):
        # A process was killed between binding and renaming.
        if is_stale(left):
            left.unlink(missing_ok=True)
    try:
        # gRPC reports a failed bind as RuntimeError without a cause.
        server.add_insecure_port(_target(hidden))
    except RuntimeError as problem:
        raise OSError(f"cannot listen on {text!r}: {problem}") from problem
    return text, hidden


def _show(hidden: str, path: str) -> tuple[int, int]:
    """Give the socket its name; returns device and inode of it."""
    found = os.lstat(hidden)
    Path(hidden).rename(path)
    return found.st_dev, found.st_ino
