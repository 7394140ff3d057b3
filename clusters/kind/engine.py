"""A container engine that answers: the one that the user's docker command has, or drakit's private one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from clusters.kind import private_engine
from clusters.kind.errors import EngineError

Progress = Callable[[str], None]

ENVIRONMENT: Final = "DRAKIT_ENGINE"
"""`given` or `private` chooses one of the two engines; without it the given one is used where it answers."""

_PRIVATE: Final = "private:"
_ANSWER_SECONDS: Final = 60.0
_LAST_LINES: Final = 6


class Engine:
    """A running container engine, reached by the docker command. A context manager; close it when it is not needed.

    `identity` names the engine for `reopen`, `version` is its own, `private` says that it is drakit's.
    """

    def __init__(self, docker: str, host: str, *, use: private_engine.Use | None = None) -> None:
        """`host` is what DOCKER_HOST is set to. Raises EngineError when the engine does not answer."""
        self.docker, self.host = docker, host
        self._use = use
        self.private = use is not None
        self.identity = f"{_PRIVATE}{use.home}" if use is not None else host
        self.version = self.run("version", "--format", "{{.Server.Version}}", timeout=_ANSWER_SECONDS).strip()

    def environment(self) -> dict[str, str]:
        """The variables of a command that uses this engine, such as kind."""
        kept = {key: value for key, value in os.environ.items() if key != "DOCKER_CONTEXT"}
        # kind would take another engine when told to, or a network of the user's choice.
        for name in ("KIND_EXPERIMENTAL_PROVIDER", "KIND_EXPERIMENTAL_DOCKER_NETWORK"):
            kept.pop(name, None)
        return kept | {"DOCKER_HOST": self.host}

    def run(self, *words: str, stdin: str | None = None, timeout: float = 120.0) -> str:
        """What a docker command prints. Raises EngineError with the last lines of what it said when it fails."""
        command = [self.docker, *words]
        try:
            done = subprocess.run(  # noqa: S603 - the user's docker command, without a shell
                command,
                input=stdin if stdin is not None else "",
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                env=self.environment(),
                check=False,
            )
        except OSError as error:
            raise EngineError(f"{self.docker} cannot be run: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise EngineError(f"docker {' '.join(words[:3])}: no answer within {timeout:.0f} s") from None
        if done.returncode != 0:
            raise EngineError(_failure(words, done.stderr or done.stdout, self.host))
        return done.stdout

    def close(self) -> None:
        """Let go of the engine; the last user of the private one stops it. Raises EngineError."""
        if self._use is not None:
            self._use.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def find(progress: Progress, home: Path | None = None) -> Engine:
    """An engine that answers: that of DOCKER_HOST or of the docker context, else a private one where that can be.

    `home` is the folder of the private engine. Raises EngineError, which tells what is missing.
    """
    choice = os.environ.get(ENVIRONMENT, "")
    if choice not in ("", "given", "private"):
        raise EngineError(f'{ENVIRONMENT}={choice}: it is "given" or "private", or not set')
    docker = docker_command()
    if choice == "private":
        return _private(docker, progress, home)
    host = given_host(docker)
    try:
        return Engine(docker, host)
    except EngineError as error:
        # An engine that was named is wanted, and an engine that refuses this user is there.
        named = os.environ.get("DOCKER_HOST") or os.environ.get("DOCKER_CONTEXT")
        reason = private_engine.missing()
        if (
            choice == "given"
            or named
            or "permission denied" in str(error)
            or host.partition(":")[0] != "unix"
        ):
            raise
        if reason:
            raise EngineError(f"{error}; {reason}") from None
    return _private(docker, progress, home)


def private_home(identity: str) -> Path | None:
    """The home of the private engine of this `identity`; None for another engine."""
    return Path(identity.removeprefix(_PRIVATE)) if identity.startswith(_PRIVATE) else None


def reopen(identity: str, progress: Progress) -> Engine:
    """The engine that had this `identity`; a private one is started unless it runs. Raises EngineError."""
    docker = docker_command()
    home = private_home(identity)
    return Engine(docker, identity) if home is None else _private(docker, progress, home)


def _private(docker: str, progress: Progress, home: Path | None) -> Engine:
    use = private_engine.use(progress, home)
    try:
        return Engine(docker, use.host, use=use)
    except BaseException:
        use.close()
        raise


def docker_command() -> str:
    """The docker command. Raises EngineError when there is none in PATH."""
    docker = shutil.which("docker")
    if docker is None:
        raise EngineError(
            'there is no command "docker" in PATH; install Docker (https://docs.docker.com/engine/install), '
            "or on Debian and Ubuntu: apt install docker.io"
        )
    return docker


def given_host(docker: str) -> str:
    """Where the docker command finds its engine. Raises EngineError for a context that is not there."""
    # An empty variable is none, for the docker command as well.
    if host := os.environ.get("DOCKER_HOST", ""):
        return host
    done = subprocess.run(  # noqa: S603 - the user's docker command, without a shell
        [docker, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_ANSWER_SECONDS,
        check=False,
    )
    if done.returncode != 0 or not done.stdout.strip():
        raise EngineError(_failure(("context", "inspect"), done.stderr, ""))
    return done.stdout.strip()


def _failure(words: tuple[str, ...], said: str, host: str) -> str:
    lines = [line.strip() for line in said.strip().splitlines() if line.strip()][-_LAST_LINES:]
    text = "\n".join(lines) or "it failed without a word"
    if "permission denied" in text and "connect" in text:
        return (
            f"permission denied: this user may not use the container engine at {host}; run as root (sudo), or join "
            "the group of its socket: sudo usermod -aG docker $USER, and log in again"
        )
    if "Cannot connect to the Docker daemon" in text or "error during connect" in text:
        return f"no container engine answers at {host}; start Docker, or let DOCKER_HOST name one that runs"
    return f"docker {' '.join(words[:3])}: {text}"
