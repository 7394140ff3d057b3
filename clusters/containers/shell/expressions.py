"""`test` and `[`."""

from __future__ import annotations

import operator
import posixpath
from collections.abc import Callable

from clusters.containers.shell.state import Shell

_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}


def evaluate(shell: Shell, words: list[str]) -> bool:
    """Whether the expression holds. Raises ValueError with the message for what is not understood."""
    if not words:
        return False
    for joint, combine in (("-o", any), ("-a", all)):
        if joint in words[1:-1]:
            at = words.index(joint, 1)
            return combine([evaluate(shell, words[:at]), evaluate(shell, words[at + 1 :])])
    if words[0] == "!" and len(words) > 1:
        return not evaluate(shell, words[1:])
    if len(words) == 1:
        return words[0] != ""
    if len(words) == 2:
        return _unary(shell, *words)
    if len(words) == 3:
        return _binary(shell, *words)
    raise ValueError("too many arguments" if shell.bash else f"{words[0]}: unexpected operator")


def _unary(shell: Shell, sign: str, word: str) -> bool:
    if sign == "-n":
        return word != ""
    if sign == "-z":
        return word == ""
    path = posixpath.normpath(posixpath.join(shell.folder, word))
    devices = {device.path: device.type for device in shell.process.view.devices}
    if sign in ("-c", "-b"):
        return devices.get(path) == sign[1]
    place = shell.process.path(path)
    checks: dict[str, Callable[[], bool]] = {
        "-e": lambda: path in devices or place.exists() or shell.process.is_folder(path),
        "-f": lambda: path not in devices and place.is_file(),
        "-d": lambda: shell.process.is_folder(path),
        "-s": lambda: place.is_file() and place.stat().st_size > 0,
        "-r": lambda: path in devices or place.exists(),
    }
    if sign not in checks:
        raise ValueError(f"{sign}: {'unary operator expected' if shell.bash else 'unexpected operator'}")
    return checks[sign]()


def _binary(shell: Shell, left: str, sign: str, right: str) -> bool:
    if sign in ("=", "=="):
        return left == right
    if sign == "!=":
        return left != right
    if sign not in _NUMBERS:
        raise ValueError(
            f"{sign}: binary operator expected" if shell.bash else f"{left}: unexpected operator"
        )
    try:
        return _NUMBERS[sign](int(left), int(right))
    except ValueError:
        wrong = right if left.removeprefix("-").isdecimal() else left
        text = f"{wrong}: integer expression expected" if shell.bash else f"Illegal number: {wrong}"
        raise ValueError(text) from None
