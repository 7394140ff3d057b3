"""Scripts of containers."""

from __future__ import annotations

from clusters.containers.process import Process

SHELLS = {"sh": "dash", "dash": "dash", "ash": "dash", "bash": "bash"}
"""Names of shells, and whose messages they use."""


class ShellProgram:
    """A shell as process 1."""

    def __init__(self, line: tuple[str, ...]) -> None:
        self._line = line

    async def run(self, process: Process) -> int:
        """Run the script of `-c`."""
        await process.term.wait()
        return 0
