"""The lists of scenarios, and what several of them ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kd_world import World

Scenario = Callable[[World], None]
PARALLEL: Final[dict[str, Scenario]] = {}
"""They leave the kubelet alone and run at the same time."""
RESTARTS: Final[dict[str, Scenario]] = {}
"""They stop or start the kubelet of a node that they have for themselves."""

STAY: Final = 4.0
"""For how many seconds nothing must change where something blocks."""
PREPARE, UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"


def parallel(scenario: Scenario) -> Scenario:
    """Declare a scenario that leaves the kubelet alone."""
    PARALLEL[scenario.__name__.replace("_", "-")] = scenario
    return scenario


def restarts(scenario: Scenario) -> Scenario:
    """Declare a scenario that stops or starts the kubelet."""
    RESTARTS[scenario.__name__.replace("_", "-")] = scenario
    return scenario


def end(w: World, *names: str) -> None:
    """Delete Pods and wait until they are gone."""
    for name in names:
        w.delete(name)
    for name in names:
        w.wait_gone(name)


def _statuses(w: World, name: str) -> list[dict[str, Any]]:
    return (w.find(name) or {}).get("status", {}).get("containerStatuses") or []


def waiting(w: World, name: str) -> str:
    """Why the first container of a Pod waits."""
    states = [each.get("state") or {} for each in _statuses(w, name)[:1]]
    return "".join(str((state.get("waiting") or {}).get("reason", "")) for state in states)


def running(w: World, name: str) -> bool:
    """Whether a container of a Pod runs."""
    return any("running" in (each.get("state") or {}) for each in _statuses(w, name))


def reported(w: World, name: str) -> bool:
    """Whether the status of a Pod's first container tells of its devices."""
    return any(each.get("allocatedResourcesStatus") for each in _statuses(w, name)[:1])


def restarts_of(w: World, name: str) -> int:
    """How often the first container of a Pod was started again."""
    return sum(int(each.get("restartCount", 0)) for each in _statuses(w, name)[:1])
