"""A small shell for scripts of containers, on the cluster's clock."""

from __future__ import annotations

from clusters.containers.shell.interpreter import ShellProgram, run_shell
from clusters.containers.shell.options import SHELLS

__all__ = ["SHELLS", "ShellProgram", "run_shell"]
