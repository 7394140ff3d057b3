"""A container engine of drakit's own, for a root without one: a dockerd that nobody else sees, shared by all runs.

    HOME/data         images, containers and volumes; it stays, as the cache of images
    HOME/lock         held by who starts or stops the engine
    HOME/users        held shared by everyone who uses it: whoever lets go last stops it
    HOME/engine.json  process and start time of the engine, as long as it may run
    HOME/log          what dockerd says
    /run/drakit-ID    its socket and what it keeps while it runs; mode 0700. In it `before.json` tells what the machine
                      was like before any engine of drakit's changed it: like these changes it does not outlive a boot

Locks are flock(2) locks, which end with their process. An engine whose users were all killed goes on running, until
the next one takes it over, or stops it with `stop_unused`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from clusters.kind import engine_init, footprint, runc_nocap
from clusters.kind.engine_process import EngineProcess
from clusters.kind.errors import EngineError
from clusters.kind.footprint import Footprint

Progress = Callable[[str], None]

ENVIRONMENT: Final = "DRAKIT_ENGINE_HOME"
"""Names another home for the private engine."""

_RUN: Final = Path("/run")
_PROGRAMS: Final = ("dockerd", "containerd", "runc", "iptables", "ip")
_SBIN: Final = "/usr/local/sbin:/usr/sbin:/sbin"
_BEFORE: Final = "before.json"
_NETWORKS: Final = "data/network/files/local-kv.db"
_RUNTIME: Final = "drakit"
_START_SECONDS: Final = 120.0
"""For a machine that is busy: an engine that has ended is seen at once."""

_STOP_SECONDS: Final = 30.0
_REMIND_SECONDS: Final = 2.0
_POLL: Final = 0.05


def default_home() -> Path:
    """`$DRAKIT_ENGINE_HOME`, or `drakit/engine` in the user's cache folder."""
    if named := os.environ.get(ENVIRONMENT, ""):
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".cache") / "drakit" / "engine"


def run_folder(home: Path) -> Path:
    """The folder of the socket, and of what the engine of a home keeps while it runs."""
    # Short, as the names of sockets may not be long, and the same for everyone who uses this home.
    mark = hashlib.sha256(os.fsencode(home.absolute())).hexdigest()[:12]
    return Path(f"{footprint.RUN}{mark}")


def missing() -> str:
    """Why there can be no private engine here; "" when there can."""
    if sys.platform != "linux":
        return "a private engine needs Linux"
    if os.geteuid() != 0:
        return "a private engine needs root"
    lacking = [name for name in _PROGRAMS if _which(name) is None]
    if lacking:
        return f"a private engine needs {', '.join(lacking)} (Debian and Ubuntu: apt install docker.io)"
    return ""


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:{_SBIN}"


def _which(name: str) -> str | None:
    return shutil.which(name, path=_path())


class Use:
    """The use of a running private engine, as long as this object is not closed and its process lives."""

    def __init__(self, home: _Home, handle: int) -> None:
        self._home, self._handle = home, handle
        self.host = f"unix://{home.socket}"

    @property
    def home(self) -> Path:
        """Its home folder."""
        return self._home.path

    def close(self) -> None:
        """Let go of it; whoever does last stops the engine. Raises EngineError when it does not end."""
        handle, self._handle = self._handle, -1
        if handle < 0:
            return
        with self._home.alone(lambda _: None):
            os.close(handle)
            self._home.stop_if_unused(lambda _: None)


def use(progress: Progress, home: Path | None = None) -> Use:
    """Use the private engine, which is started unless it runs. Raises EngineError."""
    if reason := missing():
        raise EngineError(reason)
    place = _Home(home or default_home())
    place.make()
    with place.alone(progress):
        handle = place.open("users")
        try:
            fcntl.flock(handle, fcntl.LOCK_SH)
            place.start(progress)
        except BaseException:
            os.close(handle)
            place.stop_if_unused(progress)
            raise
    return Use(place, handle)


def stop_unused(progress: Progress, home: Path | None = None) -> bool:
    """Stop an engine that runs though nobody uses it, and take back what a killed one has left.

    Whether there was one. Raises EngineError.
    """
    place = _Home(home or default_home())
    if not place.left():
        return False
    with place.alone(progress):
        return place.stop_if_unused(progress)


class _Home:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = run_folder(path)
        self.name = self.run.name
        # Names of interfaces have at most 15 characters.
        self.bridge = f"dk{self.name.rpartition('-')[2]}"
        self.socket = self.run / "docker.sock"
        self.record = path / "engine.json"
        self.before = self.run / _BEFORE
        self.log = path / "log"

    def make(self) -> None:
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _unusable(error, self.path) from None

    def open(self, name: str) -> int:
        try:
            return os.open(self.path / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unusable(error, self.path / name) from None

    @contextlib.contextmanager
    def alone(self, progress: Progress) -> Iterator[None]:
        """Be the only one who starts or stops the engine."""
        with _locked(self.open("lock"), progress):
            yield

    def process(self) -> EngineProcess | None:
        """What was written down about the engine; None when there is nothing."""
        try:
            return EngineProcess(**json.loads(self.record.read_text(encoding="ascii")))
        except (OSError, ValueError, TypeError):
            return None

    def left(self) -> bool:
        """Whether there are traces of an engine that runs or was killed."""
        return self.record.exists() or self.before.exists()

    def start(self, progress: Progress) -> None:
        """Start it unless it runs and answers. Raises EngineError."""
        process = self.process()
        if process is not None and process.alive:
            if self._answers():
                return
            progress("the container engine that was left behind does not answer; starting it again")
        if self.left():
            self._end(process, progress)
        try:
            for folder in (self.path / "data", self.run, self.run / "exec", self.run / "tmp"):
                folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise _unusable(error, self.path) from None
        with _machine(progress), footprint.guarded():
            _write(self.before, json.dumps(asdict(self._look())))
            footprint.make_room()
            for cover in footprint.COVERED:
                Path(cover).mkdir(mode=0o711, exist_ok=True)
            footprint.run([str(_which("ip")), "link", "add", "name", self.bridge, "type", "bridge"])
            self._launch()
            self._wait(progress)

    def _look(self) -> Footprint:
        """What the machine was like before this engine, and before those of other homes that changed it already."""
        seen = footprint.look()
        for other in sorted(_RUN.glob(f"drakit-*/{_BEFORE}")):
            seen = seen.before(footprint.read(other))
        return seen

    def _launch(self) -> None:
        runc = _which("runc")
        shim = self.run / "runc"
        words = [sys.executable, "-I", "-S", runc_nocap.__file__, str(runc)]
        _write(shim, f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', 0o700)
        config = self.run / "daemon.json"
        _write(config, json.dumps(self._configuration(shim), indent=2))
        command = [str(_which("dockerd")), f"--config-file={config}"]
        with self.log.open("wb") as log:
            self.log.chmod(0o600)
            starter = subprocess.run(  # noqa: S603 - our own interpreter and file
                [
                    sys.executable,
                    "-I",
                    "-S",
                    engine_init.__file__,
                    str(self.record),
                    *footprint.COVERED,
                    "--",
                    *command,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**_variables(), "PATH": _path(), "TMPDIR": str(self.run / "tmp")},
                cwd="/",
                start_new_session=True,
                check=False,
            )
        if starter.returncode != 0:
            raise EngineError(f"the container engine cannot be started: {self._last_words()}")

    def _configuration(self, shim: Path) -> dict[str, Any]:
        return {
            "data-root": str(self.path / "data"),
            "exec-root": str(self.run / "exec"),
            "pidfile": str(self.run / "dockerd.pid"),
            "hosts": [f"unix://{self.socket}"],
            # Not docker0, which is another engine's: dockerd takes it away when it is told to have no bridge.
            "bridge": self.bridge,
            "cgroup-parent": f"/{self.name}",
            "exec-opts": ["native.cgroupdriver=cgroupfs"],
            "runtimes": {_RUNTIME: {"path": str(shim)}},
            "default-runtime": _RUNTIME,
        }

    def _wait(self, progress: Progress) -> None:
        start = time.monotonic()
        remind = start + _REMIND_SECONDS
        process = self.process()
        while not self._answers():
            now = time.monotonic()
            if process is None or not process.alive:
                raise EngineError(f"dockerd ended at its start: {self._last_words()}; its log is {self.log}")
            if now > start + _START_SECONDS:
                raise EngineError(
                    f"dockerd does not answer after {_START_SECONDS:.0f} s: {self._last_words()}; its log is {self.log}"
                )
            if now > remind:
                progress(f"waiting for the container engine: {now - start:.0f} s")
                remind += _REMIND_SECONDS * 2
            time.sleep(_POLL)

    def _answers(self) -> bool:
        return self.socket.exists() and bool(
            self._docker("version", "--format", "{{.Server.Version}}").strip()
        )

    def _docker(self, *words: str) -> str:
        return footprint.run([_which("docker") or "docker", "--host", f"unix://{self.socket}", *words])

    def _last_words(self) -> str:
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "it said nothing"

    def stop_if_unused(self, progress: Progress) -> bool:
        """Stop it unless somebody uses it; whether there was something to stop. Needs `alone`. Raises EngineError."""
        if not self.left():
            return False
        handle = self.open("users")
        try:
            if not _try_lock(handle):
                return False
            process = self.process()
            if process is None or not process.alive:
                progress("cleaning up after a container engine that was killed")
            self._end(process, progress)
        finally:
            os.close(handle)
        return True

    def _end(self, process: EngineProcess | None, progress: Progress) -> None:
        """End the engine if it runs, with all its containers, and take back what it changed. Raises EngineError."""
        if process is not None and process.alive:
            # They are what somebody was killed with, and nobody else's: the engine is the kit's own.
            if found := self._docker("ps", "--all", "--quiet", "--no-trunc").split():
                self._docker("rm", "--force", "--volumes", *found)
            self._docker("network", "prune", "--force")
            process.signal(signal.SIGTERM)
            if not process.ended(_STOP_SECONDS):
                process.signal(signal.SIGKILL)
                if not process.ended(_STOP_SECONDS):
                    raise EngineError(
                        f"the container engine (process {process.pid}) does not end; its log is {self.log}"
                    )
        with _machine(progress):
            footprint.restore(footprint.read(self.before), self._bridges(), self.name)
            shutil.rmtree(self.run, ignore_errors=True)
        self.record.unlink(missing_ok=True)

    def _bridges(self) -> list[str]:
        """The bridges of its networks, and its own.

        A killed engine cannot be asked for them: what it knows about its networks is searched for the names of those
        that this machine has.
        """
        known = b""
        with contextlib.suppress(OSError):
            known = (self.path / _NETWORKS).read_bytes()
        return [
            self.bridge,
            *(name for name in footprint.bridges() if name.removeprefix("br-").encode() in known),
        ]


def _variables() -> dict[str, str]:
    """The environment of the engine: proxies for its pulls, and nothing that would change its settings."""
    kept = {
        "HOME",
        "LANG",
        "TMPDIR",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    }
    return {key: value for key, value in os.environ.items() if key.upper() in kept}


def _write(path: Path, text: str, mode: int = 0o600) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _machine(progress: Progress) -> Iterator[None]:
    """Be the only one whose engine starts, or takes back what it changed: each looks at what others have changed."""
    with _locked(os.open(_RUN, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), progress):
        yield


@contextlib.contextmanager
def _locked(handle: int, progress: Progress) -> Iterator[None]:
    """Hold the lock of an open file, and close that; polled, so that it can be said what is waited for."""
    try:
        remind = time.monotonic() + _REMIND_SECONDS
        while not _try_lock(handle):
            if time.monotonic() > remind:
                progress("waiting for another run that starts or stops the container engine")
                remind = float("inf")
            time.sleep(_POLL)
        yield
    finally:
        os.close(handle)


def _unusable(error: OSError, path: Path) -> EngineError:
    return EngineError(
        f"{error.filename or path}: {error.strerror}; {ENVIRONMENT} names another folder for the container engine"
    )
