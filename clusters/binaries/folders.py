"""Binaries in a folder that the user names."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from clusters.binaries.errors import BinariesError
from clusters.binaries.releases import E2E, ETCD, Release

ENVIRONMENT: Final = "DRAKIT_BINARIES"
"""Names the folder when nothing else does."""

_ANSWER_SECONDS: Final = 60.0


def named(folder: Path | None) -> Path | None:
    """The folder that the user names as an argument or in the environment."""
    if folder is not None:
        return folder
    value = os.environ.get(ENVIRONMENT, "")
    return Path(value) if value else None


def check(folder: Path, release: Release, names: Sequence[str]) -> tuple[str, dict[str, Path]]:
    """The version in the folder, and the path of each binary.

    One binary, the kubelet if it is wanted, must be of the release's minor version; its patch version is free.
    Raises BinariesError that names everything that is missing.
    """
    if not folder.is_dir():
        raise BinariesError(
            f"{folder}: {'not a folder' if folder.exists() else 'no such folder'}; it should hold {', '.join(names)}"
        )
    paths = {name: folder.absolute() / name for name in names}
    missing = [name for name, path in paths.items() if not path.is_file()]
    if missing:
        raise BinariesError(
            f"{folder}: {', '.join(missing)} missing; "
            f'"drakit binaries fetch {release.minor}" or "build" gets them into the cache, '
            f"which is used when no folder is named ({ENVIRONMENT} names one, too)"
        )
    closed = [str(path) for path in paths.values() if not os.access(path, os.X_OK)]
    if closed:
        raise BinariesError(
            f"not executable: {', '.join(closed)}; chmod +x helps if they are the right files"
        )
    version = _version(paths)
    if version is None:
        return release.kubernetes, paths
    if not re.match(rf"v{re.escape(release.minor)}\.\d", version):
        hint = "; it was built without its version" if version.startswith("v0.0.0") else ""
        raise BinariesError(
            f"{folder} holds Kubernetes {version}, and {release.minor} is wanted{hint}; "
            "name another folder, or the version that is there"
        )
    return version, paths


def _version(paths: dict[str, Path]) -> str | None:
    """What one binary says it is; None when there is none to ask."""
    asked = [name for name in paths if name not in (ETCD, E2E)]
    if not asked:
        return None
    name = "kubelet" if "kubelet" in asked else asked[0]
    arguments = ["version", "--client"] if name == "kubectl" else ["--version"]
    try:
        done = subprocess.run(  # noqa: S603 - the binary that the user wants to run
            [str(paths[name]), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except OSError as error:
        raise BinariesError(f"{paths[name]} cannot be run here: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise BinariesError(
            f"{paths[name]} {' '.join(arguments)}: no answer within {_ANSWER_SECONDS:.0f} s"
        ) from None
    found = re.search(r"\bv\d+\.\d+\.\d\S*", done.stdout)
    if done.returncode != 0 or found is None:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise BinariesError(
            f"{paths[name]} does not tell its version ({' '.join(arguments)}): {said[-1] if said else 'no output'}"
        )
    return found[0]
