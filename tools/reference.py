"""Writes docs/requirements.md from the catalogue: `python -m tools.reference` (`--check` only compares)."""

from __future__ import annotations

import sys
from pathlib import Path

from conformance import catalogue
from conformance.model import Requirement

TARGET = Path(__file__).parents[1] / "docs" / "requirements.md"
_COLUMNS = "| id | level | requirement | asked of | source |\n| --- | --- | --- | --- | --- |\n"
_HEAD = """# Requirements

Catalogue {version}: {count} requirements. Written by `python -m tools.reference`; do not edit.

An id is never renamed or reused. MUSTs decide the exit code, SHOULDs and MAYs are reported. A requirement with a
capability is asked of drivers that declare it; one with hooks needs these in the descriptor; "since" and "until" are
versions of Kubernetes. `docs/sources.md` explains the sources.
"""
_GAPS = """
## Known gaps

Requirements that released components break. There the verdict is `known-gap`, which is no failure.

| id | component | Kubernetes | issue |
| --- | --- | --- | --- |
"""


def render() -> str:
    """The page."""
    everything = list(catalogue.requirements().values())
    parts = [_HEAD.format(version=catalogue.version(), count=len(everything))]
    for suite, areas in catalogue.SUITES.items():
        parts.append(f"\n## Suite {suite}\n")
        for area in areas:
            parts.append(f"\n### {area.capitalize()}\n\n{_COLUMNS}")
            parts += [_row(requirement) for requirement in everything if requirement.area == area]
    gaps = [(requirement, gap) for requirement in everything for gap in requirement.known_gaps]
    parts.append(_GAPS)
    parts += [
        f"| {requirement.id} | {gap.component} | {', '.join(gap.versions)} | {gap.issue} |\n"
        for requirement, gap in gaps
    ]
    return "".join(parts)


def _row(requirement: Requirement) -> str:
    cells = (
        requirement.id,
        str(requirement.level),
        requirement.rule,
        ", ".join(_asked(requirement)),
        ", ".join(requirement.source),
    )
    return "| " + " | ".join(cells) + " |\n"


def _asked(requirement: Requirement) -> list[str]:
    """Of which drivers, on which clusters."""
    asked = [f"capability {requirement.capability}"] if requirement.capability else []
    asked += [f"hook {hook}" for hook in requirement.hooks]
    asked = asked or ["every driver"]
    asked += [f"gate {gate}" for gate in requirement.gates]
    if requirement.since != Requirement.since:
        asked.append(f"since {requirement.since}")
    if requirement.until:
        asked.append(f"until {requirement.until}")
    return asked


def main() -> int:
    """Write or compare."""
    text = render()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text, encoding="utf-8")
        return 0
    if TARGET.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{TARGET.name} is not current; run python -m tools.reference\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
