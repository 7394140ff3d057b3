"""The reviewed list of what each kind of cluster leaves out (tiers.yaml), and what is left out against it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from clusters.document import Reader, load_yaml
from conformance import catalogue
from conformance.model import Isolation, Requirement, SkipCause

DISRUPTIVE: Final = "disruptive"
"""Stands in the list beside capabilities: what runs on a cluster of somebody else's when it is allowed."""

_FILE = catalogue.ROOT / "tiers.yaml"
_OF_THE_DRIVER = (SkipCause.DRIVER, SkipCause.VERSION)
# The gates of clusters that the kit does not start are as they are.
_OF_OTHERS = "existing"


@dataclass(frozen=True)
class Skip:
    """A skipped requirement, as a plan or a report says it; `needs` are the words that may be listed for it."""

    requirement: str
    cause: str
    reason: str
    needs: tuple[str, ...] = ()


def words(requirement: Requirement) -> tuple[str, ...]:
    """The words of the list for which a requirement can be left out."""
    disruptive = requirement.isolation is Isolation.DISRUPTIVE
    return (*requirement.needs, DISRUPTIVE) if disruptive else requirement.needs


@functools.cache
def left_out(tier: str) -> Mapping[str, tuple[str, ...]]:
    """Requirements by the tier capability for whose lack they are left out, or DISRUPTIVE. Raises DocumentError.

    The name of a suite stands for all of its requirements.
    """
    reader = Reader(load_yaml(_FILE), str(_FILE))
    reader.child("capabilities", required=True)
    tiers = reader.child("left_out", required=True)
    result: dict[str, tuple[str, ...]] = {}
    for name in tiers.keys():  # noqa: SIM118 - a Reader is no mapping
        entry = tiers.child(name)
        known = [*catalogue.tier_capabilities(), DISRUPTIVE]
        for word in entry.keys():  # noqa: SIM118
            if word not in known:
                entry.problem(word, f"is no capability; there are {', '.join(known)}")
            listed = entry.strings(word, allowed=[*catalogue.SUITES, *catalogue.requirements()])
            ids = tuple(
                one.id for one in catalogue.requirements().values() if {one.id, one.suite} & set(listed)
            )
            if name == tier:
                result[word] = ids
    reader.finish()
    return result


def unreviewed(tier: str, skips: Iterable[Skip]) -> list[str]:
    """A line for every skip that neither driver, version nor the reviewed list explains."""
    allowed = left_out(tier)
    lines = []
    for skip in skips:
        if skip.cause in _OF_THE_DRIVER or (tier == _OF_OTHERS and skip.cause == SkipCause.GATE):
            continue
        lacking = [word for word in skip.needs if skip.requirement in allowed.get(word, ())]
        if skip.cause != SkipCause.TIER or not lacking:
            lines.append(f"{skip.requirement} is left out on tier {tier}: {skip.reason} ({_FILE.name})")
    return lines


def skips_of(report: Mapping[str, Any]) -> Iterator[Skip]:
    """The skips of a report document."""
    requirements = catalogue.requirements()
    for record in report["results"]:
        if record["verdict"] == "skip":
            needs = words(requirements[record["id"]])
            yield Skip(record["id"], record["cause"], record["reason"], needs)
