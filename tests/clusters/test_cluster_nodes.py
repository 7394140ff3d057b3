"""Nodes of an embedded cluster that cannot be started."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from clusters import descriptor as descriptors
from clusters import node as nodes
from clusters.client import Client, ClientError
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


def test_a_driver_acts_on_its_node_as_long_as_that_is_there() -> None:
    descriptor = descriptors.load(REFERENCE, catalogue.capabilities())
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    with EmbeddedCluster(ClusterSpec(control_plane=False)) as cluster:
        node = cluster.add_node(NodeSpec(name="one"))
        config = yaml.safe_load(node.kubeconfig(descriptor).read_text())
        driver = Client(cluster.url, cluster.root / "ca.pem", config["users"][0]["user"]["token"])

        def user() -> dict[str, object]:
            answer = driver.create("authentication.k8s.io/v1", "selfsubjectreviews", review)
            return dict(answer["status"]["userInfo"])

        uid = cluster.client().get("v1", "nodes", "one")["metadata"]["uid"]
        extra = user()["extra"]
        assert isinstance(extra, dict)
        extra.pop("authentication.kubernetes.io/credential-id")
        assert extra == {
            "authentication.kubernetes.io/node-name": ["one"],
            "authentication.kubernetes.io/node-uid": [uid],
        }
        assert cluster.client().list("v1", "pods") == []
        cluster.client().delete("v1", "nodes", "one")
        cluster.clock.advance(11)  # answers about tokens are remembered for 10 s
        deadline = time.monotonic() + 30
        with pytest.raises(ClientError, match="401 Unauthorized"):
            while time.monotonic() < deadline:
                user()
        driver.close()


def test_a_driver_waits_for_its_node_but_not_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "_REGISTERED_SECONDS", 0.1)
    descriptor = descriptors.load(REFERENCE, catalogue.capabilities())
    with EmbeddedCluster(ClusterSpec(control_plane=False)) as cluster:
        node = cluster.add_node(NodeSpec(name="one"))
        found = cluster.client().get("v1", "nodes", "one")
        cluster.client().delete("v1", "nodes", "one")
        with pytest.raises(StartError, match=r"node one: its kubelet has not registered it within 0\.1 s"):
            node.kubeconfig(descriptor)
        again = {"metadata": {"name": "one", "labels": found["metadata"]["labels"]}}
        monkeypatch.setattr(nodes, "_REGISTERED_SECONDS", 30.0)
        timer = threading.Timer(0.2, cluster.client().create, ("v1", "nodes", again))
        timer.start()
        assert node.kubeconfig(descriptor).exists()
        timer.join()


def test_an_account_of_which_a_failed_try_has_left_a_part_is_completed() -> None:
    descriptor = descriptors.load(REFERENCE, catalogue.capabilities())
    with EmbeddedCluster(ClusterSpec(control_plane=False)) as cluster:
        client = cluster.client()
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": f"drakit:driver:{descriptor.name}"},
            "rules": [rule.as_dict() for rule in descriptor.permissions],
        }
        client.create("rbac.authorization.k8s.io/v1", "clusterroles", role)
        assert cluster.add_node().kubeconfig(descriptor).exists()
        assert client.get("v1", "serviceaccounts", descriptor.name, "kube-system")


def test_the_end_of_a_node_does_not_wait_for_its_registration() -> None:
    descriptor = descriptors.load(REFERENCE, catalogue.capabilities())
    caught: list[StartError] = []
    looked = threading.Event()

    def start_driver() -> None:
        with pytest.raises(StartError) as error:
            node.run_driver(replace(descriptor, prepare_node=()))
        caught.append(error.value)

    with EmbeddedCluster(ClusterSpec(control_plane=False)) as cluster:
        node = cluster.add_node()
        client = cluster.client()
        client.delete("v1", "nodes", node.name)
        find = client.find

        def seen(*words: str) -> dict[str, object] | None:
            looked.set()
            return find(*words)

        client.find = seen  # type: ignore[assignment,method-assign]
        thread = threading.Thread(target=start_driver)
        thread.start()
        assert looked.wait(10.0)
        begin = time.monotonic()
        node.close()
        thread.join(10.0)
        assert time.monotonic() - begin < 10.0
    assert str(caught[0]) == "start.command: the run is over"
