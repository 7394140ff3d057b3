"""The commands that containers understand.

Started directly or from a shell: `probe`, `sleep`, `exit`, `env`, `printenv`, `true`, `false`, `echo`, `cat`,
`hostname`, `tail -f /dev/null`, `date`, `ls`, `nvidia-smi` (where there are GPUs), `pause`. `sh` and `bash` run
scripts, see `clusters.containers.shell`.
"""

from __future__ import annotations

import asyncio
import datetime
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from clusters.containers import durations, gpus, probe
from clusters.containers.process import Process, Write, happens_within

FOLDERS = ("", "/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin")
"""Where commands are found; "" stands for a name without a folder."""


@dataclass
class Call:
    """A command with what it runs in. `term` is set when the stop signal reaches it."""

    process: Process
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    stdout: Write
    stderr: Write
    term: asyncio.Event
    stdin: bytes = b""

    @property
    def name(self) -> str:
        """The name that the command was called by."""
        return self.arguments[0]


Command = Callable[[Call], Awaitable[int]]


def find(name: str, environment: Mapping[str, str]) -> Command | None:
    """The command of a name or of an absolute path in one of the usual folders."""
    folder, _, base = name.rpartition("/")
    if "/" in name and name != "/pause" and folder not in FOLDERS:
        return None
    if base == "nvidia-smi" and not gpus.gpus(environment):
        # The file comes from the driver's libraries, which CDI mounts.
        return None
    return COMMANDS.get(base)


async def _probe(call: Call) -> int:
    code, limit = 0, None
    ends = False
    words = list(call.arguments[1:])
    try:
        while words:
            option, _, value = words.pop(0).partition("=")
            if option not in ("--exit", "--for"):
                raise ValueError(f"unknown option {option}; known: --exit CODE, --for SECONDS")
            value = value or (words.pop(0) if words else "")
            if option == "--exit":
                code, ends = _exit_code(value), True
            else:
                limit = _duration(value)
    except ValueError as problem:
        call.stderr(f"probe: {problem}\n")
        return 2
    call.stdout(probe.line(call.process.view, call.environment))
    if limit is not None:
        return 0 if await happens_within(call.process.clock, call.term, limit) else code
    if not ends:
        await call.term.wait()
    return code


def _exit_code(text: str) -> int:
    if not text.isdecimal() or int(text) > 255:
        raise ValueError(f"{text!r} is no exit code; use 0 to 255")
    return int(text)


def _duration(text: str) -> float:
    try:
        return durations.seconds([text])
    except ValueError:
        raise ValueError(f"{text!r} is no duration; use seconds, or a number with s, m, h or d") from None


async def _sleep(call: Call) -> int:
    if len(call.arguments) == 1:
        call.stderr("sleep: missing operand\nTry 'sleep --help' for more information.\n")
        return 1
    try:
        duration = durations.seconds(call.arguments[1:])
    except ValueError as problem:
        call.stderr(f"sleep: invalid time interval ‘{problem}’\nTry 'sleep --help' for more information.\n")
        return 1
    await call.process.clock.sleep(duration)
    return 0


async def _exit(call: Call) -> int:
    try:
        return _exit_code(call.arguments[1]) if len(call.arguments) > 1 else 0
    except ValueError as problem:
        call.stderr(f"exit: {problem}\n")
        return 2


async def _env(call: Call) -> int:
    call.stdout("".join(f"{name}={value}\n" for name, value in call.environment.items()))
    return 0


async def _printenv(call: Call) -> int:
    if len(call.arguments) == 1:
        return await _env(call)
    found = [call.environment.get(name) for name in call.arguments[1:]]
    call.stdout("".join(f"{value}\n" for value in found if value is not None))
    return 1 if None in found else 0


async def _true(call: Call) -> int:
    return 0


async def _false(call: Call) -> int:
    return 1


async def _echo(call: Call) -> int:
    words = call.arguments[1:]
    newline = "\n"
    if words and words[0] == "-n":
        words, newline = words[1:], ""
    call.stdout(" ".join(words) + newline)
    return 0


async def _cat(call: Call) -> int:
    if len(call.arguments) == 1:
        call.stdout(call.stdin.decode("utf-8", "surrogateescape"))
        return 0
    code = 0
    for name in call.arguments[1:]:
        try:
            call.stdout(call.process.path(name).read_bytes().decode("utf-8", "surrogateescape"))
        except OSError as problem:
            call.stderr(f"cat: {name}: {problem.strerror}\n")
            code = 1
    return code


async def _hostname(call: Call) -> int:
    call.stdout(f"{call.process.view.hostname}\n")
    return 0


async def _tail(call: Call) -> int:
    if call.arguments[1:] not in (("-f", "/dev/null"), ("-F", "/dev/null")):
        call.stderr("tail: only -f /dev/null is known to simulated containers\n")
        return 2
    await call.process.clock.sleep(math.inf)
    return 0


async def _date(call: Call) -> int:
    formats = {(): "%a %b %e %H:%M:%S UTC %Y", ("+%s",): "%s"}
    form = formats.get(call.arguments[1:])
    if form is None:
        call.stderr("date: only the form without arguments and +%s are known to simulated containers\n")
        return 2
    now = call.process.clock.now()
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
    call.stdout(f"{int(now)}\n" if form == "%s" else f"{moment.strftime(form)}\n")
    return 0


async def _ls(call: Call) -> int:
    paths = call.arguments[1:] or (call.process.view.working_dir,)
    if any(path.startswith("-") for path in paths):
        call.stderr("ls: options are not known to simulated containers\n")
        return 2
    code = 0
    for path in paths:
        names = call.process.names(path)
        if names is None:
            call.stderr(f"ls: cannot access '{path}': No such file or directory\n")
            code = 2
            continue
        folder = names != [path]
        title = f"{path}:\n" if len(paths) > 1 and folder else ""
        shown = [name for name in names if not (folder and name.startswith("."))]
        call.stdout(title + "".join(f"{name}\n" for name in shown))
    return code


async def _nvidia_smi(call: Call) -> int:
    if call.arguments[1:] not in (("-L",), ("--list-gpus",)):
        call.stderr("nvidia-smi: only -L is known to simulated containers\n")
        return 2
    call.stdout(gpus.listing(gpus.gpus(call.environment)))
    return 0


async def _pause(call: Call) -> int:
    await call.term.wait()
    return 0


COMMANDS: dict[str, Command] = {
    "probe": _probe,
    "sleep": _sleep,
    "exit": _exit,
    "env": _env,
    "printenv": _printenv,
    "true": _true,
    "false": _false,
    "echo": _echo,
    "cat": _cat,
    "hostname": _hostname,
    "tail": _tail,
    "date": _date,
    "ls": _ls,
    "nvidia-smi": _nvidia_smi,
    "pause": _pause,
}
"""All commands but shells, by base name."""
