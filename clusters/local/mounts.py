"""The private mount namespace of a cluster: what its kubelets mount is seen by its processes and by nobody else."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from clusters.interface import ClusterError
from clusters.local import enter

_PYTHON = (sys.executable, "-I", "-S", enter.__file__)


class MountNamespace:
    """Held by a descriptor of this process: when that ends, however it does, nothing of it is left."""

    def __init__(self, root: Path) -> None:
        """Mounts below `root` are seen by all processes of the namespace. Raises ClusterError."""
        maker = subprocess.Popen(  # noqa: S603 - our own interpreter and file
            [*_PYTHON, "make", str(root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with maker:
            assert maker.stdin and maker.stdout and maker.stderr  # noqa: S101 - all are pipes
            if maker.stdout.readline().strip() != "ready":
                reason = maker.stderr.read().strip() or "no reason given"
                raise ClusterError(
                    f"kubelets need a mount namespace of their own, which is not to be had here: {reason}; "
                    "a container needs CAP_SYS_ADMIN for it (docker run --privileged)"
                )
            self.descriptor = os.open(f"/proc/{maker.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            maker.stdin.close()

    def inside(self, command: Sequence[str], covers: Mapping[str, Path] | None = None) -> list[str]:
        """The command line that runs a command in the namespace; the descriptor must be passed on to it.

        With `covers` it gets one made from this, in which each path shows another: a place that is the host's alone.
        """
        words = [f"{path}={source}" for path, source in (covers or {}).items()]
        return [*_PYTHON, "cover" if words else "run", str(self.descriptor), *words, "--", *command]

    def close(self) -> None:
        """Let go of it; without effect when that was done."""
        with contextlib.suppress(OSError):
            os.close(self.descriptor)
        self.descriptor = -1
