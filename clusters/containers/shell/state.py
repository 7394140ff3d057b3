"""The state of a shell: variables, traps, jobs, options."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from clusters.containers.process import Process

_OPTIONS = {"e": "errexit", "u": "nounset"}
_WITHOUT_EFFECT = frozenset({"x", "xtrace", "v", "pipefail", "m", "monitor", "posix"})
_FIRST_JOB = 7
"""Process number of the first child; those below are taken in a container that has run a little."""


class ShellError(Exception):
    """What ends a shell at once: a text for standard error, with its line end, and the status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


class ExitShell(Exception):  # noqa: N818  it is no error
    """The shell ends with a status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class LoopControl(Exception):  # noqa: N818  it is no error
    """`break` (`leave`) or `continue` of some levels of loops."""

    def __init__(self, levels: int, *, leave: bool) -> None:
        super().__init__(levels)
        self.levels = levels
        self.leave = leave


@dataclass
class Shell:
    """A shell. `term` is the stop signal as far as it reaches this shell; variables start as the environment."""

    process: Process
    name: str
    dialect: str
    term: asyncio.Event
    variables: dict[str, str]
    exported: set[str] = field(default_factory=set)
    traps: dict[str, str] = field(default_factory=dict)
    jobs: dict[int, asyncio.Task[int]] = field(default_factory=dict)
    positional: list[str] = field(default_factory=list)
    status: int = 0
    line: int = 1
    errexit: bool = False
    nounset: bool = False
    last_job: int | None = None
    loops: int = 0
    folder: str = ""

    def __post_init__(self) -> None:
        if not self.exported:
            self.exported = set(self.variables)
        if not self.folder:
            self.folder = self.process.view.working_dir or "/"
            self._set_own_variables()

    def _set_own_variables(self) -> None:
        self.variables["PWD"] = self.folder
        self.exported.add("PWD")
        if self.bash:
            level = self.variables.get("SHLVL", "0")
            self.variables["SHLVL"] = str(int(level) + 1 if level.isdecimal() else 1)
            # bash exports OLDPWD from the start, although it has no value before the first cd.
            self.exported |= {"SHLVL", "OLDPWD"}

    @property
    def bash(self) -> bool:
        """Whether this is bash rather than dash."""
        return self.dialect == "bash"

    def child(self) -> Shell:
        """A shell for a subshell or a job: a copy that signals and traps do not reach."""
        return Shell(
            self.process,
            self.name,
            self.dialect,
            asyncio.Event(),
            dict(self.variables),
            set(self.exported),
            positional=list(self.positional),
            status=self.status,
            line=self.line,
            errexit=self.errexit,
            nounset=self.nounset,
            last_job=self.last_job,
            folder=self.folder,
        )

    def environment(self) -> dict[str, str]:
        """The environment of commands."""
        return {name: value for name, value in self.variables.items() if name in self.exported}

    def value(self, name: str) -> str | None:
        """The value of a variable or parameter; None when it is not set. Raises ShellError with `set -u`."""
        found = self._special(name)
        if found is None:
            found = self.variables.get(name)
        if found is None and self.nounset:
            text = f"{name}: unbound variable" if self.bash else f"{self.line}: {name}: parameter not set"
            raise ShellError(f"{self.name}: {text}\n", 127 if self.bash else 2)
        return found

    def _special(self, name: str) -> str | None:
        if name == "?":
            return str(self.status)
        if name == "$":
            return "1"
        if name == "!":
            return "" if self.last_job is None else str(self.last_job)
        if name == "#":
            return str(len(self.positional))
        if name in ("@", "*"):
            return " ".join(self.positional)
        if name == "0":
            return self.name
        if name.isdecimal() and int(name) <= len(self.positional):
            return self.positional[int(name) - 1]
        return None

    def set_option(self, name: str, *, on: bool) -> None:
        """Set an option by its letter or long name. Raises ShellError."""
        name = _OPTIONS.get(name, name)
        if name in ("errexit", "nounset"):
            setattr(self, name, on)
        elif name not in _WITHOUT_EFFECT:
            raise ShellError(f"{self.name}: {self.line}: the option {name!r} is not known here\n", 2)

    def not_found(self, name: str) -> str:
        """The message for a command that does not exist."""
        if self.bash:
            cause = "No such file or directory" if "/" in name else "command not found"
            return f"{self.name}: {name}: {cause}\n"
        return f"{self.name}: {self.line}: {name}: not found\n"

    def add_job(self, task: asyncio.Task[int]) -> None:
        """Remember a child that runs in the background."""
        self.last_job = max([_FIRST_JOB - 1, *self.jobs, self.last_job or 0]) + 1
        self.jobs[self.last_job] = task
        self.status = 0

    async def end_jobs(self) -> None:
        """Kill the children: they do not outlive the shell."""
        jobs = [job for job in self.jobs.values() if not job.done()]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*self.jobs.values(), return_exceptions=True)
