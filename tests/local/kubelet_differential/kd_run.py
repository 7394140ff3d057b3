"""Plays all scenarios on a cluster and collects what is compared."""

from __future__ import annotations

import queue
import traceback
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from kd_scenarios import PARALLEL, RESTARTS, Scenario
from kd_world import World

from clusters.interface import Cluster, ClusterSpec, NodeSpec, WholeNode

_AT_ONCE: Final = 6
_RESTARTED: Final = 3
SPEC: Final = ClusterSpec(nodes=(NodeSpec(),) * (1 + _RESTARTED), kubelet=(("syncFrequency", "1s"),))
"""A node whose kubelet is left alone and those whose are not; what fails is tried again within two seconds."""


def play(cluster: Cluster, names: Collection[str] = ()) -> dict[str, dict[str, Any]]:
    """The records of all scenarios, or of those named; one that did not work has the key `error`."""

    steady, *others = cluster.nodes
    restarted: queue.SimpleQueue[WholeNode] = queue.SimpleQueue()
    for node in others:
        restarted.put(node)

    def one(name: str, scenario: Scenario, node: WholeNode) -> dict[str, Any]:
        world = World(cluster, name, node)
        error = ""
        try:
            scenario(world)
        except Exception:  # noqa: BLE001 - told by the test of the scenario
            error = traceback.format_exc()
        return {**world.end(), "error": error}

    def alone(name: str, scenario: Scenario) -> dict[str, Any]:
        node = restarted.get()
        try:
            return one(name, scenario, node)
        finally:
            restarted.put(node)

    def chosen(scenarios: Mapping[str, Scenario]) -> list[tuple[str, Scenario]]:
        return [(name, scenario) for name, scenario in scenarios.items() if not names or name in names]

    with ThreadPoolExecutor(_RESTARTED) as slow, ThreadPoolExecutor(_AT_ONCE) as pool:
        records = {name: slow.submit(alone, name, scenario) for name, scenario in chosen(RESTARTS)}
        records |= {name: pool.submit(one, name, scenario, steady) for name, scenario in chosen(PARALLEL)}
        return {name: record.result() for name, record in records.items()}
