"""Nodes of an embedded cluster that cannot be started."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from clusters import descriptor as descriptors
from clusters.client import ClientError
from clusters.descriptor import Rule
from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import ClusterError, ClusterSpec, NodeSpec
from clusters.process import StartError
from conformance import catalogue

REFERENCE = Path(__file__).parents[2] / "driver" / "reference.yaml"


def test_nothing_is_left_of_a_node_whose_name_is_taken() -> None:
    with EmbeddedCluster(ClusterSpec(control_plane=False)) as cluster:
        cluster.add_node(NodeSpec(name="one"))
        before = set(threading.enumerate())
        with pytest.raises(ClientError, match="already exists"):
            cluster.add_node(NodeSpec(name="one"))
        assert [thread.name for thread in set(threading.enumerate()) - before] == []
        assert sorted(path.name for path in cluster.root.glob("n*")) == ["n1"]


def test_nothing_is_left_of_a_cluster_with_a_wrong_kubelet_setting() -> None:
    before = set(threading.enumerate())
    spec = ClusterSpec(nodes=(NodeSpec(),), kubelet=(("syncFrequenzy", "1s"),))
    with pytest.raises(ClusterError, match="unknown field syncFrequenzy; known are syncFrequency"):
        EmbeddedCluster(spec)
    assert [thread.name for thread in set(threading.enumerate()) - before] == []


def test_every_node_tells_that_the_permissions_of_a_driver_are_refused() -> None:
    known = descriptors.load(REFERENCE, catalogue.capabilities())
    # A rule needs a group, or a URL.
    descriptor = replace(known, permissions=(Rule((), ("pods",), ("get",)),))
    with EmbeddedCluster(ClusterSpec(control_plane=False)) as cluster:
        for _ in range(2):
            node = cluster.add_node()
            with pytest.raises(StartError, match="permissions: the API server refuses them"):
                node.kubeconfig(descriptor)
