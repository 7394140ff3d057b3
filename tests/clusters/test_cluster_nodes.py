"""Nodes of an embedded cluster that cannot be started."""

from __future__ import annotations

import threading

import pytest

from clusters.client import ClientError
from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import ClusterError, ClusterSpec, NodeSpec


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
