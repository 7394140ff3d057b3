"""Clusters that the tests of the seeds share, one of each kind in a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from seeds_api import NODES
from seeds_kit import World, nvidia_driver

from clusters.client import Client
from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import ClusterSpec
from clusters.process import DriverProcess


@pytest.fixture(scope="session")
def cluster() -> Iterator[EmbeddedCluster]:
    """A whole cluster with default gates and APIs, on the nodes that the seeds name.

    Its kubelets look again after a second instead of a minute.
    """
    with EmbeddedCluster(ClusterSpec(nodes=NODES, kubelet=(("syncFrequency", "1s"),))) as made:
        made.wait_ready(90)
        yield made


@pytest.fixture(scope="session")
def beta() -> Iterator[Client]:
    """An administrator of an API server that also serves resource.k8s.io/v1beta1."""
    spec = ClusterSpec(control_plane=False, runtime_config=(("resource.k8s.io/v1beta1", True),))
    with EmbeddedCluster(spec) as made:
        yield made.client()


@pytest.fixture(scope="session")
def api() -> Iterator[Client]:
    """An administrator of an API server alone, with default settings."""
    with EmbeddedCluster(ClusterSpec(control_plane=False)) as made:
        yield made.client()


@pytest.fixture
def world(cluster: EmbeddedCluster) -> Iterator[World]:
    """A namespace on the whole cluster."""
    made = World(cluster)
    try:
        yield made.begin()
    finally:
        made.end()


@pytest.fixture(scope="module")
def nvidia(cluster: EmbeddedCluster) -> Iterator[DriverProcess]:
    """The driver of seed 004, running on the node of seed 004 and its device published."""
    with nvidia_driver(cluster) as process:
        yield process
