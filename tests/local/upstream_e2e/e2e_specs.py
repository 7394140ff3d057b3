"""Upstream's specs about DRA that need no container, and what a cluster needs to run them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from e2e_runner import PROCESSES

GATES = ",".join(
    f"{name}=true"
    for name in (
        "DRADerivedAttributes",
        "DRADeviceCompatibilityGroups",
        "DRAListTypeAttributes",
        "DRANodeAllocatableResources",
        "DRAOptionalNodeOperations",
        "DRAPartitionableDevicesType",
        "DRAResourcePoolStatus",
    )
)
RUNTIME_CONFIG = "resource.k8s.io/v1alpha3=true,resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true"
LEAST = 42
"""How many specs there are at least; fewer mean that something was not looked at."""


@dataclass(frozen=True)
class Spec:
    """A spec's name and the seconds that it takes on a real cluster when nothing else runs."""

    name: str
    seconds: float


def known() -> list[Spec]:
    """All of them, from specs.txt: a line has the seconds and the name."""
    lines = Path(__file__).with_name("specs.txt").read_text().splitlines()
    pairs = (line.split(" ", 1) for line in lines if line)
    return [Spec(name, float(seconds)) for seconds, name in pairs]


def chosen(minutes: float, processes: int = PROCESSES) -> list[Spec]:
    """The shortest ones, as many as so many processes can run within the time; 0 minutes stand for no limit."""
    left = minutes * 60 * processes
    found = []
    for spec in sorted(known(), key=lambda one: (one.seconds, one.name)):
        left -= spec.seconds
        if minutes and left < 0:
            break
        found.append(spec)
    return sorted(found, key=lambda one: one.name)
