"""A kind cluster of `drakit up`, and what real containers have that simulated ones do not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kind_kit import Drakit, log_of, make_pod, remove_pod, wait_phase

from clusters.client import Client
from clusters.observation import Observation, parse_observation
from drakit.state import Record

pytestmark = [pytest.mark.kind, pytest.mark.timeout(2400)]


def test_the_cluster_is_shown_with_its_nodes(shared: Drakit, record: Record) -> None:
    [state] = json.loads(shared.run("status", "--json"))
    assert (state["tier"], state["state"], state["nodesReady"]) == ("kind", "running", 2)
    assert state["version"].startswith("1.37.")
    assert "log_commands" not in state


def test_logs_are_read_inside_the_nodes(shared: Drakit, record: Record) -> None:
    names = shared.run("logs", "--name", record.name).split()
    first, second = record.nodes
    components = {"apiserver", "controller-manager", "scheduler", "etcd", "kind", "keeper"}
    assert components | {f"kubelet-{first}", f"kubelet-{second}", f"runtime-{second}"} <= set(names)
    assert "Successfully registered node" in shared.run("logs", f"kubelet-{second}", "--name", record.name)
    lines = shared.run("logs", "scheduler", "--tail", "3", "--name", record.name).splitlines()
    assert len(lines) == 3
    # As klog writes it, without the stamps of the container runtime.
    assert all(line[0] in "IWE" for line in lines)


def observe(api: Client, name: str, node: str, **container: Any) -> Observation:
    make_pod(api, name, {"nodeSelector": {"kubernetes.io/hostname": node}, "containers": [container]})
    wait_phase(api, name, "Running")
    found = parse_observation(log_of(api, name))
    remove_pod(api, name)
    return found


def test_limits_of_a_container_are_those_that_its_pod_asked_for(api: Client, record: Record) -> None:
    for node in record.nodes:
        resources = {"limits": {"cpu": "250m", "memory": "64Mi"}, "requests": {"cpu": "100m"}}
        limits = observe(api, "limited", node, resources=resources).limits
        # 0.25 of a period of 100 ms, 102 of 1024 shares.
        assert (limits["cpuQuota"], limits["cpuPeriod"], limits["cpuShares"]) == (25_000, 100_000, 102)
        assert limits["memory"] == 64 * 1024 * 1024


def test_a_container_without_limits_has_none(api: Client, record: Record) -> None:
    limits = observe(api, "free", record.nodes[1]).limits
    assert "memory" not in limits
    assert "cpuQuota" not in limits


def test_every_gate_of_dra_is_on_in_every_component(api: Client, record: Record) -> None:
    # What was found out when the cluster was made, once more from outside.
    for path in ("/metrics", *(f"/api/v1/nodes/{node}/proxy/metrics" for node in record.nodes)):
        metrics = api.text(path)
        off = [
            line
            for line in metrics.splitlines()
            if 'feature_enabled{name="DRA' in line and line.endswith(" 0")
        ]
        assert off == []
        assert 'kubernetes_feature_enabled{name="DRAOptionalNodeOperations",stage="ALPHA"} 1' in metrics
