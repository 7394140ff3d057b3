"""An OCI runtime that asks of the kernel only what it grants here, then is runc; a script of the standard library.

    runc_nocap.py RUNC ARGUMENTS...

A root without CAP_SYS_RESOURCE, as there is in sandboxes, can give nobody this capability, nor raise limits, nor make a
process safer from the killer of a full memory; runc fails when it is asked to. A privileged container asks for all of
it. Where the capability is there, nothing is changed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

CAPABILITY: Final = "CAP_SYS_RESOURCE"
_BIT: Final = 24


def grants_all(status: str) -> bool:
    """Whether a process of this /proc/PID/status can hand on CAP_SYS_RESOURCE."""
    for line in status.splitlines():
        if line.startswith("CapBnd:"):
            return bool(int(line.split()[1], 16) >> _BIT & 1)
    return True


def lessen(process: dict[str, Any]) -> None:
    """Take from the `process` of an OCI configuration what cannot be granted."""
    for names in (process.get("capabilities") or {}).values():
        if CAPABILITY in (names or ()):
            names.remove(CAPABILITY)
    if (process.get("oomScoreAdj") or 0) < 0:
        process["oomScoreAdj"] = 0
    process.pop("rlimits", None)


def option(words: Sequence[str], *names: str) -> str | None:
    """The value of an option, written `--name value` or `--name=value`; None without it."""
    for number, word in enumerate(words):
        if word in names:
            return words[number + 1] if number + 1 < len(words) else None
        name, equals, value = word.partition("=")
        if equals and name in names:
            return value
    return None


def document(words: Sequence[str]) -> tuple[Path, bool] | None:
    """The file that a command of runc reads its process from, and whether it is that of a whole container."""
    if "create" in words or "run" in words:
        return Path(option(words, "--bundle", "-b") or ".", "config.json"), True
    if "exec" in words:
        name = option(words, "--process", "-p")
        return (Path(name), False) if name else None
    return None


def rewrite(words: Sequence[str]) -> None:
    """Change the file that these words of a command line name. Raises OSError and ValueError."""
    found = document(words)
    if found is None:
        return
    path, whole = found
    content = json.loads(path.read_text(encoding="utf-8"))
    process = content.get("process") if whole else content
    if process:
        lessen(process)
        path.write_text(json.dumps(content), encoding="utf-8")


def main(words: list[str]) -> None:
    """Change what has to be, then become runc."""
    runc, *arguments = words
    if not grants_all(Path("/proc/self/status").read_text(encoding="ascii", errors="replace")):
        rewrite(arguments)
    os.execv(runc, [runc, *arguments])  # noqa: S606 - without a shell on purpose


if __name__ == "__main__":
    main(sys.argv[1:])
