"""Get binaries of Kubernetes before tests need them, as a build takes minutes: `python -m tools.binaries WHAT...`.

WHAT is a minor version, for all that a cluster and its tests need, or VERSION/NAME for one of its binaries.
"""

from __future__ import annotations

import sys

from clusters.binaries import STANDARD, BinariesError, find


def main(wanted: list[str]) -> int:
    """Find each of them; 1 when one cannot be had."""
    for what in wanted:
        version, _, name = what.partition("/")
        try:
            find(version, [name] if name else STANDARD, progress=lambda line: print(line, file=sys.stderr))
        except BinariesError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
