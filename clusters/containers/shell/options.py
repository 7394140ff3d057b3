"""Command lines of shells."""

from __future__ import annotations

from collections.abc import Sequence

from clusters.containers.shell.state import Shell, ShellError

SHELLS = {"sh": "dash", "dash": "dash", "ash": "dash", "bash": "bash"}
"""Names of shells, and whose messages they use."""
USAGE_ERROR = 2
NOT_FOUND = 127


def read_options(shell: Shell, words: Sequence[str]) -> str | None:
    """Set what the options say; returns the script of `-c`, or None without one. Raises ShellError."""
    rest = list(words)
    wants_script = False
    while rest and len(rest[0]) > 1 and rest[0][0] in "-+":
        option = rest.pop(0)
        if option == "--":
            break
        if option in ("-o", "+o"):
            name = rest.pop(0) if rest else ""
            shell.set_option(name, on=option == "-o")
            continue
        if option.startswith("--"):
            continue
        for letter in option[1:]:
            if letter == "c":
                wants_script = True
            elif letter == "o":
                shell.set_option(rest.pop(0) if rest else "", on=option[0] == "-")
            elif letter not in "lix":
                shell.set_option(letter, on=option[0] == "-")
    if not wants_script:
        if rest:
            text = f"{shell.name}: 0: cannot open {rest[0]}: No such file\n"
            if shell.bash:
                text = f"{shell.name}: {rest[0]}: No such file or directory\n"
            raise ShellError(text, USAGE_ERROR if not shell.bash else NOT_FOUND)
        return None
    if not rest:
        text = "-c: option requires an argument" if shell.bash else "0: -c requires an argument"
        raise ShellError(f"{shell.name}: {text}\n", USAGE_ERROR)
    script = rest.pop(0)
    if rest:
        shell.name = rest.pop(0)
    shell.positional = rest
    return script
