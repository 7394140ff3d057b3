"""Plays all scenarios on a cluster and collects what is compared."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from kd_scenarios import PARALLEL, RESTARTS, Scenario
from kd_world import World

from clusters.interface import Cluster, ClusterSpec, NodeSpec

SPEC: Final = ClusterSpec(nodes=(NodeSpec(),), kubelet=(("syncFrequency", "1s"),))
"""One node; what fails is tried again within two seconds."""

_AT_ONCE: Final = 6


def play(cluster: Cluster, names: Collection[str] = ()) -> dict[str, dict[str, Any]]:
    """The records of all scenarios, or of those named; one that did not work has the key `error`."""

    def one(item: tuple[str, Scenario]) -> tuple[str, dict[str, Any]]:
        name, scenario = item
        world = World(cluster, name)
        error = ""
        try:
            scenario(world)
        except Exception:  # noqa: BLE001 - told by the test of the scenario
            error = traceback.format_exc()
        return name, {**world.end(), "error": error}

    def chosen(scenarios: Mapping[str, Scenario]) -> list[tuple[str, Scenario]]:
        return [(name, scenario) for name, scenario in scenarios.items() if not names or name in names]

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        records = dict(pool.map(one, chosen(PARALLEL)))
    return records | dict(map(one, chosen(RESTARTS)))
