"""Looks for requirements that a run left out and nobody has agreed to: `python -m tools.skips REPORT.json ...`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from conformance import reviewed


def main(paths: list[str]) -> int:
    """Print what is left out against conformance/tiers.yaml; exit code 1 when there is something."""
    lines = []
    for path in paths:
        report = json.loads(Path(path).read_text(encoding="utf-8"))
        lines += reviewed.unreviewed(report["cluster"]["tier"], reviewed.skips_of(report))
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
