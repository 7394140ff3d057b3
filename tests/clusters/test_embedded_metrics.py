"""What API server and kubelets of an embedded cluster tell about their feature gates."""

from __future__ import annotations

import pytest

from clusters import feature_metrics
from clusters.client import Client, ClientError
from clusters.embedded.cluster import EmbeddedCluster
from clusters.interface import ClusterSpec, NodeSpec


@pytest.fixture(scope="module")
def cluster() -> object:
    gates = (("DRADeviceTaints", False), ("DRAListTypeAttributes", True))
    with EmbeddedCluster(ClusterSpec(nodes=(NodeSpec("n1"),), gates=gates)) as running:
        running.wait_ready()
        yield running


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/nodes/n1/proxy/metrics"])
def test_a_component_tells_its_gates(cluster: EmbeddedCluster, path: str) -> None:
    text = cluster.client().text(path)
    values = feature_metrics.parse(text)
    # The rules for taints go off with the taints.
    wanted = {
        "DRADeviceTaints": False,
        "DRADeviceTaintRules": False,
        "DRAListTypeAttributes": True,
        "DRAConsumableCapacity": True,
        "DRAAdminAccess": True,
    }
    assert {name: values.get(name) for name in wanted} == wanted
    assert 'kubernetes_feature_enabled{name="DRAAdminAccess",stage=""} 1\n' in text
    assert 'kubernetes_feature_enabled{name="DRAListTypeAttributes",stage="ALPHA"} 1\n' in text


def test_a_node_is_reached_through_the_api_server(cluster: EmbeddedCluster) -> None:
    client: Client = cluster.client()
    assert client.text("/api/v1/nodes/n1/proxy/healthz") == "ok"
    assert "dra_resource_claims_in_use" in client.text("/api/v1/nodes/n1/proxy/metrics")
    for path, code in (("n1/proxy/nothing", 404), ("n2/proxy/metrics", 404)):
        with pytest.raises(ClientError) as caught:
            client.text(f"/api/v1/nodes/{path}")
        assert caught.value.code == code


def test_a_kubelet_that_does_not_run_cannot_be_reached(cluster: EmbeddedCluster) -> None:
    cluster.nodes[0].kubelet.stop()
    try:
        with pytest.raises(
            ClientError, match="503 ServiceUnavailable: error trying to reach service: dial tcp"
        ):
            cluster.client().text("/api/v1/nodes/n1/proxy/metrics")
    finally:
        cluster.nodes[0].kubelet.start()
