"""What becomes of a container's command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusters.containers.commands import FOLDERS, Call, Command, find
from clusters.containers.process import Process, Program, StartError
from clusters.containers.shell import SHELLS, ShellProgram


class _Direct:
    """A command as process 1."""

    def __init__(self, command: Command, line: tuple[str, ...]) -> None:
        self._command = command
        self._line = line

    async def run(self, process: Process) -> int:
        """Run the command with the container's environment."""
        environment = process.view.environment
        return await self._command(
            Call(process, self._line, environment, process.stdout, process.stderr, process.term)
        )


def parse(command_line: Sequence[str], environment: Mapping[str, str]) -> Program:
    """The program of a command line, its first word the command.

    Raises:
        StartError: with runc's text, when there is no such command.
    """
    line = tuple(command_line)
    folder, _, base = line[0].rpartition("/")
    if base in SHELLS and folder in FOLDERS:
        return ShellProgram(line)
    command = find(line[0], environment)
    if command is None:
        cause = (
            f"stat {line[0]}: no such file or directory"
            if "/" in line[0]
            else "executable file not found in $PATH"
        )
        raise StartError(f'exec: "{line[0]}": {cause}')
    return _Direct(command, line)
