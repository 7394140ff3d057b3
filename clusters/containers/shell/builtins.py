"""Commands that change or ask the shell itself."""

from __future__ import annotations

import asyncio
import posixpath
import re
import shlex
from collections.abc import Callable, Sequence

from clusters.containers.commands import FOLDERS
from clusters.containers.shell.expressions import evaluate
from clusters.containers.shell.state import ExitShell, LoopControl, Shell, ShellError
from clusters.containers.shell.streams import Streams

SIGTERM, SIGKILL = 15, 9
SIGNALLED = 128
"""Added to the number of the signal that ended a child, to give its status."""
_SIGNALS = {"TERM": SIGTERM, "KILL": SIGKILL, "INT": 2, "HUP": 1, "QUIT": 3, "USR1": 10, "USR2": 12}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Builtin = Callable[[Shell, Sequence[str], Streams], int]


def job_status(job: asyncio.Task[int]) -> int:
    """The status of a child that has ended."""
    if job.cancelled():
        return SIGNALLED + SIGTERM
    return 1 if job.exception() is not None else job.result()


def _colon(shell: Shell, words: Sequence[str], streams: Streams) -> int:
    return 0


def _false(shell: Shell, words: Sequence[str], streams: Streams) -> int:
    return 1


def _exit(shell: Shell, words: Sequence[str], streams: Streams) -> int:
    if not words:
        raise ExitShell(shell.status)
    if not re.fullmatch(r"-?[0-9]+" if shell.bash else "[0-9]+", words[0]):
        text = f"exit: {words[0]}: numeric argument required" if shell.bash else ""
        raise ShellError(f"{shell.name}: {text or f'{shell.line}: exit: Illegal number: {words[0]}'}\n", 2)
    raise ExitShell(int(words[0]) & 255)


def _echo(shell: Shell, words: Sequence[str], streams: Streams) -> int:
    words = list(words)
    newline, escapes = "\n", not shell.bash
    while words and re.fullmatch("-[neE]+" if shell.bash else "-n", words[0]):
        option = words.pop(0)
        newline = "" if "n" in option else newline
        escapes = escapes or "e" in option
    text = " ".join(words)
    streams.stdout((_escapes(text) if escapes else text) + newline)
    return 0


def _escapes(text: str) -> str:
    return re.sub(r"\\([\\ntr])", lambda found: {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}[found[1]], text)


def _printf(shell: Shell, words: Sequence[str], streams: Streams) -> int:
    if not words:
        streams.stderr(f"{shell.name}: {shell.line}: printf: usage: printf format [arg ...]\n")
        return 2
    arguments = list(words[1:])
    form = _escapes(words[0])
    if re.search(r"%[^%sd]", form.replace("%%", "")):
        raise ShellError(
            f"{shell.name}: {shell.line}: printf: simulated containers know only %s, %d and %%\n", 2
        )
    while True:
        before = len(arguments)
        streams.stdout(re.sub(r"%([%sd])", lambda found: _formatted(found[1], arguments), form))
        if not arguments or len(arguments) == before:
            return 0


def _formatted(letter: str, arguments: list[str]) -> str:
    if letter == "%":
        return "%"
    return arguments.pop(0) if arguments else {"s": "", "d": "0"}[letter]


def _export(shell: Shell, words: Sequence[str], streams: Streams) -> int:
    words = [word for word in words if word != "-p"]
    if not words:
        streams.stdout("".join(_declaration(shell, name) for name in sorted(shell.exported)))
        return 0
    for word in words:
        name, equals, value = word.partition("=")
        if not _NAME.fullmatch(name):
            cause = "not a valid identifier" if shell.bash else "bad variable name"
            text = f"export: `{word}': {cause}" if shell.bash else f"{shell.line}: export: {word}: {cause}"
            if not shell.bash:
                raise ShellError(f"{shell.name}: {text}\n", 2)
            streams.stderr(f"{shell.name}: {text}\n")
            return 1
        if equals:
            shell.variables[name] = value
        shell.exported.add(name)
    return 0


def _declaration(shell: Shell, name: str) -> str:
    value = shell.variables.get(name)
    if shell.bash:
        return f"declare -x {name}\n" if value is None else f"declare -x {name}={bash_quoted(value)}\n"
    return f"export {name}\n" if value is None else f"export {name}={dash_quoted(value)}\n"


def bash_quoted(value: str) -> str:
    """A value as bash's `export` prints it."""
    if re.search(r"[\x00-\x1f\x7f]", value):
        named = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}
        return (
            "$'"
            + "".join(
                named.get(char) or (char if char >= " " and char != "\x7f" else f"\\{ord(char):03o}")
                for char in value
            )
            + "'"
        )
    return '"' + re.sub(r'([\\"$`])', r"\\\1", value) + '"'


def dash_quoted(value: str) -> str:
    """A value as dash's `export` prints it."""
    return shlex.quote(value) if "'" in value else f"'{value}'"


def _unset(shell: Shell, words: Sequence[str], streams: Streams) -> int:
    for word in words:
        shell.variables.pop(word, None)
        shell.exported.discard(word)
    return 0


def _set(shell: Shell, words: Sequence[str], streams: Streams) -> int:
    rest = list(words)
    while rest and rest[0][:1] in ("-", "+") and len(rest[0]) > 1:
        option = rest.pop(0)
        if option == "--":
            shell.positional = rest
            return 0
        for letter in option[1:]:
            name = (rest.pop(0) if rest else "") if letter == "o" else letter
            shell.set_option(name, on=option[0] == "-")
    if rest:
        shell.positional = rest
    return 0


def _trap(shell: Shell, words: Sequence[str], streams: Streams) -> int:
    words = [word for word in words if word != "--"]
    if len(words) < 2:
        for name, action in shell.traps.items() if not words else ():
            shown = f"SIG{name}" if shell.bash and name != "EXIT" else name
            streams.stdout(f"trap -- '{action}' {shown}\n")
        # One word alone resets the trap of that signal.
        for name in words:
            shell.traps.pop(_signal_name(name), None)
        return 0
    for word in words[1:]:
        name = _signal_name(word)
        if name not in _SIGNALS and name != "EXIT":
            text = (
                f"trap: {word}: invalid signal specification"
                if shell.bash
                else f"{shell.line}: trap: {word}: bad trap"
            )
            streams.stderr(f"{shell.name}: {text}\n")
            return 1
        if words[0] == "-":
            shell.traps.pop(name, None)
        else:
            shell.traps[name] = words[0]
    return 0


def _signal_name(word: str) -> str:
    numbers = {str(number): name for name, number in _SIGNALS.items()} | {"0": "EXIT"}
    return numbers.get(word, word.upper().removeprefix("SIG"))


def _kill(shell: Shell, words: Sequence[str], streams: Streams) -> int:
    signal = "TERM"
    rest = list(words)
    if rest and rest[0].startswith("-"):
        option = rest.pop(0)
        signal = _signal_name(rest.pop(0) if option == "-s" and rest else option[1:])
    status = 0
    for word in rest:
        if word == "1" and signal == "TERM":
            shell.process.init_term.set()
            continue
        job = shell.jobs.get(int(word)) if word.isdecimal() else None
        if job is None or job.done():
            where = f"{shell.name}: kill: ({word}) -" if shell.bash else f"{shell.name}: {shell.line}: kill:"
            streams.stderr(f"{where} No such process\n")
            status = 1
        else:
            job.cancel()
    return status


def _cd(shell: Shell, words: Sequence[str], streams: Streams) -> int:
    target = words[0] if words else shell.variables.get("HOME", "/")
    folder = posixpath.normpath(posixpath.join(shell.folder, target))
    if not shell.process.is_folder(folder):
        text = (
            f"cd: {target}: No such file or directory"
            if shell.bash
            else f"{shell.line}: cd: can't cd to {target}"
        )
        streams.stderr(f"{shell.name}: {text}\n")
        return 1 if shell.bash else 2
    shell.variables["OLDPWD"], shell.variables["PWD"] = shell.folder, folder
    shell.folder = folder
    return 0


def _pwd(shell: Shell, words: Sequence[str], streams: Streams) -> int:
    streams.stdout(f"{shell.folder}\n")
    return 0


def _shift(shell: Shell, words: Sequence[str], streams: Streams) -> int:
    count = int(words[0]) if words and words[0].isdecimal() else 1
    if count > len(shell.positional):
        if shell.bash:
            return 1
        raise ShellError(f"{shell.name}: {shell.line}: shift: can't shift that many\n", 2)
    shell.positional = shell.positional[count:]
    return 0


def _break(shell: Shell, words: Sequence[str], streams: Streams) -> int:
    return _leave(shell, words, leave=True)


def _continue(shell: Shell, words: Sequence[str], streams: Streams) -> int:
    return _leave(shell, words, leave=False)


def _leave(shell: Shell, words: Sequence[str], *, leave: bool) -> int:
    if not shell.loops:
        return 0
    levels = int(words[0]) if words and words[0].isdecimal() else 1
    raise LoopControl(min(max(1, levels), shell.loops), leave=leave)


def _test(shell: Shell, words: Sequence[str], streams: Streams) -> int:
    return _tested(shell, words, streams, "test")


def _bracket(shell: Shell, words: Sequence[str], streams: Streams) -> int:
    if not words or words[-1] != "]":
        missing = "missing `]'" if shell.bash else "missing ]"
        where = f"{shell.name}: [:" if shell.bash else f"{shell.name}: {shell.line}: [:"
        streams.stderr(f"{where} {missing}\n")
        return 2
    return _tested(shell, words[:-1], streams, "[")


def _tested(shell: Shell, words: Sequence[str], streams: Streams, name: str) -> int:
    try:
        return 0 if evaluate(shell, list(words)) else 1
    except ValueError as problem:
        where = f"{shell.name}: {name}:" if shell.bash else f"{shell.name}: {shell.line}: {name}:"
        streams.stderr(f"{where} {problem}\n")
        return 2


BUILTINS: dict[str, Builtin] = {
    ":": _colon,
    "true": _colon,
    "false": _false,
    "exit": _exit,
    "echo": _echo,
    "printf": _printf,
    "export": _export,
    "unset": _unset,
    "set": _set,
    "trap": _trap,
    "kill": _kill,
    "cd": _cd,
    "pwd": _pwd,
    "shift": _shift,
    "break": _break,
    "continue": _continue,
    "test": _test,
    "[": _bracket,
}
"""Builtin commands by name; `eval`, `exec` and `wait` belong to the interpreter."""

__all__ = [
    "BUILTINS",
    "FOLDERS",
    "SIGNALLED",
    "SIGTERM",
    "Builtin",
    "bash_quoted",
    "dash_quoted",
    "job_status",
]
