"""Steps that run a command: told while they take long, ended with the kit, explained when they fail."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from clusters.binaries.command import Command
from clusters.guardian import OWNER, Guardian
from clusters.interface import ClusterError
from clusters.kind.image.store import Progress

_QUIET_SECONDS: Final = 2.0
_TELL_SECONDS: Final = 10.0
_LAST_LINES: Final = 8


def step(
    what: str,
    command: Sequence[str],
    work: Path,
    progress: Progress,
    *,
    variables: Mapping[str, str] | None = None,
) -> str:
    """Run a command in the folder `work`; what it printed. An interrupt ends it and all that it has started.

    Raises ClusterError with its last lines when it fails.
    """
    start = time.monotonic()
    log = work / "log"
    guardian = Guardian()
    try:
        environment = {**os.environ, **(variables or {}), OWNER: guardian.owner}
        process = Command(list(command), work, environment, log, guardian)
        process.start()
        try:
            tell = _QUIET_SECONDS
            while process.is_alive():
                process.join(max(0.0, start + tell - time.monotonic()))
                if process.is_alive():
                    progress(f"{what}: {tell:.0f} s")
                    tell = (tell // _TELL_SECONDS + 1) * _TELL_SECONDS
        except BaseException:
            process.stop()
            raise
    finally:
        guardian.close()
    if process.error is not None:
        raise ClusterError(f"{what}: {command[0]}: {process.error.strerror}")
    text = log.read_text(encoding="utf-8", errors="replace")
    if process.code != 0:
        last = "\n".join(text.strip().splitlines()[-_LAST_LINES:])
        raise ClusterError(f"{what}: {Path(command[0]).name} failed with exit code {process.code}\n{last}")
    seconds = time.monotonic() - start
    if seconds > _QUIET_SECONDS:
        progress(f"{what}: done in {seconds:.0f} s")
    return text
