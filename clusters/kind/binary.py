"""The kind command: that of the user's PATH, else one built from pinned modules and kept in the cache of binaries."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from clusters.binaries import programs
from clusters.binaries.cache import Hold
from clusters.kind.errors import KindError

Progress = Callable[[str], None]

OLDEST: Final = (0, 31, 0)
"""Older ones do not write the configuration of Kubernetes' newer versions."""

_ANSWER_SECONDS: Final = 30.0
_VERSION: Final = re.compile(r"\bv?(\d+)\.(\d+)\.(\d+)(\S*)")


@dataclass(frozen=True)
class Kind:
    """The kind command; `version` is such as v0.33.0. It stays in the cache as long as this object is there."""

    path: Path
    version: str
    hold: Hold | None = field(default=None, repr=False, compare=False)


def find(progress: Progress) -> Kind:
    """The kind command; it is built when it is neither in PATH nor in the cache. Raises KindError, BinariesError."""
    if found := in_path():
        return found
    built = programs.find([programs.KIND], progress=progress)
    return Kind(built.path(programs.KIND.name), built.version, built.hold)


def in_path() -> Kind | None:
    """The kind command of PATH; None without one. Raises KindError for one that cannot be used."""
    program = shutil.which("kind")
    return None if program is None else Kind(Path(program).absolute(), check(Path(program)))


def check(program: Path) -> str:
    """The version of a kind command. Raises KindError when it does not tell one, or is too old."""
    try:
        done = subprocess.run(  # noqa: S603 - the user's kind, without a shell
            [str(program), "version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except OSError as error:
        raise KindError(f"{program} cannot be run here: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise KindError(f"{program} version: no answer within {_ANSWER_SECONDS:.0f} s") from None
    numbers = parse(done.stdout) if done.returncode == 0 else None
    if numbers is None:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise KindError(f"{program} does not tell its version: {said[-1] if said else 'no output'}")
    version = ".".join(map(str, numbers))
    if numbers < OLDEST:
        raise KindError(
            f"{program} is kind v{version}, and v{'.'.join(map(str, OLDEST))} or newer is needed; bring it up to date "
            f"(https://kind.sigs.k8s.io), or take it out of PATH: drakit builds {programs.KIND.version} then"
        )
    return f"v{version}"


def parse(text: str) -> tuple[int, int, int] | None:
    """The version in what `kind version` prints: `kind v0.33.0 go1.26.8 linux/amd64`; None when there is none.

    One that is being developed (`0.34.0-alpha.12+abc`) counts as the release that it is before.
    """
    found = _VERSION.search(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None
