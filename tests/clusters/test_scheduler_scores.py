"""What plugins of the scheduler think of nodes, and where they have nothing to say."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.scheduler.dynamic_resources.scoring import has_alternatives
from clusters.embedded.scheduler.framework.node_info import NodeInfo, PodInfo
from clusters.embedded.scheduler.framework.plugin import CycleState, Plugin
from clusters.embedded.scheduler.framework.status import SKIP
from clusters.embedded.scheduler.plugins.node_resources import (
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
    shortages,
)
from clusters.embedded.scheduler.plugins.taint_toleration import TaintToleration


def node(*taints: dict[str, str], **allocatable: str) -> NodeInfo:
    return NodeInfo(
        {
            "metadata": {"name": "n"},
            "spec": {"taints": list(taints)},
            "status": {"allocatable": {"pods": "2", **allocatable}},
        }
    )


def pod(name: str = "p", **requests: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "a", "resources": {"requests": requests}}]},
    }


def score(plugin: Plugin, wanted: dict[str, Any], place: NodeInfo) -> int:
    state = CycleState()
    assert plugin.pre_score(state, wanted, [place]) is None
    return plugin.score(state, wanted, place)


@pytest.mark.parametrize(
    ("used", "wanted", "expected"),
    [
        ({}, {"cpu": "2", "memory": "4Gi"}, 75),  # as balanced as before
        ({}, {"cpu": "4"}, 50),  # all of one, nothing of the other: 100 before, 50 then
        ({"cpu": "2"}, {"memory": "4Gi"}, 87),  # 75 before, 100 then
        ({"cpu": "2"}, {"cpu": "4"}, 62),  # more than there is counts as all: 75 before, 50 then
    ],
)
def test_balance_counts_before_and_after(used: dict[str, str], wanted: dict[str, str], expected: int) -> None:
    place = node(cpu="4", memory="8Gi")
    if used:
        place.add(PodInfo(pod("other", **used)))
    assert score(NodeResourcesBalancedAllocation(), pod(**wanted), place) == expected


def test_nodes_without_cpu_or_memory_are_balanced() -> None:
    wanted = pod(cpu="1", memory="1Gi")
    assert score(NodeResourcesBalancedAllocation(), wanted, node(cpu="4")) == 75


def test_nodes_with_most_room_are_best() -> None:
    # 3 of 4 cpus and 4 of 8 GiB are left: 75 and 50.
    assert score(NodeResourcesFit(), pod(cpu="1", memory="4Gi"), node(cpu="4", memory="8Gi")) == 62


@pytest.mark.parametrize(
    ("wanted", "missing", "resolvable"),
    [
        ({"cpu": 1000}, [], True),
        ({"cpu": 3000}, ["Insufficient cpu"], True),
        (
            {"example.com/x": 1, "memory": 1, "cpu": 5000},
            ["Insufficient cpu", "Insufficient memory", "Insufficient example.com/x"],
            False,
        ),
        ({"example.com/x": 0}, [], True),
    ],
)
def test_what_a_node_lacks_is_told(wanted: dict[str, int], missing: list[str], resolvable: bool) -> None:
    place = node(cpu="4")
    place.add(PodInfo(pod("other", cpu="2")))
    assert shortages(wanted, place) == (missing, resolvable)


def test_full_nodes_have_too_many_pods() -> None:
    place = node(cpu="4")
    for name in ("a", "b"):
        place.add(PodInfo(pod(name)))
    assert shortages({"cpu": 1000}, place) == (["Too many pods"], True)


def test_taints_are_looked_at_where_there_are_any() -> None:
    plugin, plain = TaintToleration(), node()
    disliked = node({"key": "k", "effect": "PreferNoSchedule"})
    assert plugin.pre_score(CycleState(), pod(), [plain, plain]) is SKIP
    assert plugin.pre_score(CycleState(), pod(), [plain, disliked]) is None
    assert [plugin.score(CycleState(), pod(), each) for each in (plain, disliked)] == [0, 1]
    assert plugin.normalize([0, 1]) == [100, 0]


def test_nodes_follow_what_is_known_of_them() -> None:
    place = NodeInfo()
    assert (place.name, place.taints) == ("", ())
    taint = {"key": "k", "effect": "NoSchedule"}
    place.set_node(node(taint).node)
    assert (place.name, place.taints) == ("n", [taint])
    assert (place.copy().name, place.copy().taints) == ("n", [taint])
    place.set_node(None)
    assert (place.name, place.taints) == ("", ())


def test_only_lists_of_alternatives_make_a_node_better() -> None:
    exactly = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {}}]}}}
    several = {"spec": {"devices": {"requests": [{"name": "r", "firstAvailable": [{"name": "a"}]}]}}}
    assert not has_alternatives([exactly, {"spec": {}}])
    assert has_alternatives([exactly, several])
