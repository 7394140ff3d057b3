"""Seed 000, how DRA works: kubelets, and Pods that were given a node without the scheduler."""

from __future__ import annotations

import time

import pytest
from seeds_api import CATS_NODE, PLAIN_NODE, eventually, holds
from seeds_kit import World

from clusters.embedded.cluster import EmbeddedCluster
from clusters.embedded.kubelet.config import KubeletConfig
from clusters.interface import ClusterError, ClusterSpec, NodeSpec
from conformance.cluster import manifests
from conformance.cluster.manifests import request

DRIVER = "simple.example.com"
PREFIX = "Failed to prepare dynamic resources: prepare dynamic resources: "


@pytest.fixture
def device_class(world: World) -> str:
    """A class whose driver runs on the plain node with two devices."""
    world.driver(DRIVER)
    world.slice_of(DRIVER, "dev-0", "dev-1")
    return world.device_class("simple", DRIVER)


def waiting_reason(world: World, name: str) -> str:
    """What kubectl shows as the status of a Pod whose container waits; the kubelet writes it when it gets to it."""

    def statuses() -> list[manifests.Object] | None:
        return world.get("Pod", name)["status"].get("containerStatuses")

    (container,) = eventually(statuses, f"the kubelet tells the status of {name}")
    return str(container["state"]["waiting"]["reason"])


@pytest.mark.seed("S000-13", "S001-07")
def test_the_kubelet_asks_the_driver_before_it_makes_the_sandbox(world: World, device_class: str) -> None:
    """Differs (001): the name on the wire is NodePrepareResources; the seed names a callback of the Go helper."""
    driver = world.drivers[0]
    driver.faults.block_prepare.set()
    made = world.claim("one", request(device_class))
    world.pod("user", claims={"device": "one"})
    proxy, began = world.node().plugin_proxy, time.monotonic()
    (call,) = eventually(
        lambda: proxy.calls(began, method="NodePrepareResources"), "the kubelet asks the driver"
    )
    assert (call.service, call.method) == ("v1.DRAPlugin", "NodePrepareResources")
    # 45 seconds; gRPC rounds up what it sends to three digits.
    assert call.timeout is not None and 40 < call.timeout < 45.2
    uid = made["metadata"]["uid"]
    (seen,) = eventually(driver.prepares, "the driver is asked")
    assert seen.claims == ((world.namespace, "one", uid),)

    def pod() -> manifests.Object:
        return world.get("Pod", "user")

    assert waiting_reason(world, "user") == "ContainerCreating"
    conditions = {entry["type"]: entry for entry in pod()["status"]["conditions"]}
    assert conditions["PodReadyToStartContainers"]["status"] == "False"
    assert "podIP" not in pod()["status"]
    driver.faults.block_prepare.clear()
    world.phase("user")


@pytest.mark.seed("S000-15")
def test_a_pod_with_a_node_does_not_need_the_scheduler(world: World) -> None:
    scheduler = world.cluster.component("scheduler")
    scheduler.stop()
    try:
        world.pod("bound", nodeName=CATS_NODE)
        world.pod("unbound")
        assert world.phase("bound")["spec"]["nodeName"] == CATS_NODE
        assert world.get("Pod", "unbound")["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    finally:
        scheduler.start()
    world.phase("unbound")
    assert "Scheduled" not in [event["reason"] for event in world.events("bound")]


@pytest.mark.seed("S000-16", "S002-24")
def test_a_bound_pod_does_not_run_without_its_claim(world: World, device_class: str) -> None:
    made = world.claim("shared", request(device_class))
    shared = world.pod("pre-shared", claims={"device": "shared"}, nodeName=PLAIN_NODE)
    world.pod("pre-missing", claims={"device": "nosuchclaim"}, nodeName=PLAIN_NODE)
    world.pod("pre-template", templates={"device": "nosuchtemplate"}, nodeName=PLAIN_NODE)
    pod_uid, claim_uid = shared["metadata"]["uid"], made["metadata"]["uid"]
    texts = {
        "pre-missing": (
            'fetch ResourceClaim nosuchclaim: resourceclaims.resource.k8s.io "nosuchclaim" not found'
        ),
        "pre-shared": f"pod pre-shared ({pod_uid}) is not allowed to use ResourceClaim shared ({claim_uid})",
        "pre-template": f'pod "{world.namespace}/pre-template": ResourceClaim not created yet',
    }
    for name, text in texts.items():
        event = world.event(name, "FailedPrepareDynamicResources")
        assert event["message"] == PREFIX + text
        assert event["type"] == "Warning"
        assert waiting_reason(world, name) == "ContainerCreating"
        assert world.get("Pod", name)["status"]["phase"] == "Pending"
    # A kubelet also wants to know the claim of a Pod that it ends, so this one has to be removed by force.
    world.delete("Pod", "pre-template", grace=0)


@pytest.mark.seed("S000-17")
def test_the_kubelet_looks_again_at_its_sync_frequency(world: World, device_class: str) -> None:
    assert KubeletConfig().sync_frequency == 60.0
    world.pod("user", claims={"device": "late"}, nodeName=PLAIN_NODE)
    # One second here, and up to half of it more; nothing else happens to the Pod.
    eventually(
        lambda: world.event("user", "FailedPrepareDynamicResources").get("count", 1) >= 3,
        "the kubelet has tried three times",
        lambda: world.events("user"),
    )


@pytest.mark.seed("S000-18", "S002-01", "S002-25")
def test_dra_cannot_be_switched_off(world: World) -> None:
    """Differs: beta and off by default in the seed, now locked on."""
    with pytest.raises(ClusterError) as caught:
        EmbeddedCluster(ClusterSpec(gates=(("DynamicResourceAllocation", False),)))
    assert str(caught.value) == (
        "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true in Kubernetes 1.37; "
        "it can be set in 1.34"
    )


_WITHOUT_PLUGIN = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      disabled:
      - name: DynamicResources
"""


@pytest.mark.seed("S000-18", "S002-25", "S002-42")
def test_without_the_plugin_in_its_profile_a_scheduler_binds_pods_without_their_claims() -> None:
    """Differs: not by a gate, only with the plugin disabled; it belongs to the default profile."""
    spec = ClusterSpec(nodes=(NodeSpec(name=PLAIN_NODE),), scheduler_config=_WITHOUT_PLUGIN)
    with EmbeddedCluster(spec) as cluster:
        cluster.wait_ready()
        world = World(cluster).begin()
        world.slice_of(DRIVER, "dev")
        made = world.claim("one", request(world.device_class("simple", DRIVER)))
        pod = world.pod("user", claims={"device": "one"})
        event = world.event("user", "FailedPrepareDynamicResources")
        assert event["message"] == (
            f"{PREFIX}pod user ({pod['metadata']['uid']}) is not allowed to use ResourceClaim one "
            f"({made['metadata']['uid']})"
        )
        assert world.get("Pod", "user")["spec"]["nodeName"] == PLAIN_NODE
        assert world.state("one") == "pending"


@pytest.mark.seed("S000-19")
def test_the_controller_reserves_an_allocated_claim_for_a_bound_pod(world: World, device_class: str) -> None:
    world.claim("shared", request(device_class))
    early = world.pod("pre-shared", claims={"device": "shared"}, nodeName=PLAIN_NODE)
    world.event("pre-shared", "FailedPrepareDynamicResources")
    normal = world.pod("normal-shared", claims={"device": "shared"})
    world.phase("normal-shared")
    world.phase("pre-shared")
    reserved = world.get("ResourceClaim", "shared")["status"]["reservedFor"]
    assert reserved == [
        {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        for pod in (normal, early)
    ]


@pytest.mark.seed("S000-20")
def test_nobody_allocates_the_claim_of_a_bound_pod(world: World, device_class: str) -> None:
    world.template("each", request(device_class))
    world.pod("pre-template", templates={"device": "each"}, nodeName=PLAIN_NODE)
    claim = world.generated("pre-template", "device")
    world.pod("normal", templates={"device": "each"})
    world.phase("normal")
    holds(lambda: world.state(claim) == "pending", "the claim is pending")
    assert world.get("Pod", "pre-template")["status"]["phase"] == "Pending"


@pytest.mark.seed("S000-21")
def test_a_stuck_bound_pod_blocks_what_it_requests(world: World) -> None:
    def container(cpu: str, *claims: str) -> manifests.Object:
        return manifests.container(claims=claims, resources={"requests": {"cpu": cpu}})

    stuck = container("7", "device")
    world.pod("stuck", claims={"device": "none"}, containers=[stuck], nodeName=PLAIN_NODE)
    world.event("stuck", "FailedPrepareDynamicResources")
    # 7 of 8 CPUs are taken by a Pod that does not run.
    world.pod("victim-cpu", containers=[container("2")], node=PLAIN_NODE)
    message = world.unschedulable("victim-cpu")["message"]
    assert message.startswith(
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector. "
    )
    world.delete("Pod", "stuck")
    world.phase("victim-cpu")


@pytest.mark.seed("S000-22", "M01")
def test_a_node_selector_looks_at_the_label_not_at_the_name_of_the_node(world: World) -> None:
    label = "kubernetes.io/hostname"
    world.patch("Node", PLAIN_NODE, {"metadata": {"labels": {label: "somewhere"}}})
    try:
        world.pod("by-label", node="somewhere")
        assert world.phase("by-label")["spec"]["nodeName"] == PLAIN_NODE
        world.pod("by-name", node=PLAIN_NODE)
        assert (
            "3 node(s) didn't match Pod's node affinity/selector" in world.unschedulable("by-name")["message"]
        )
    finally:
        world.patch("Node", PLAIN_NODE, {"metadata": {"labels": {label: PLAIN_NODE}}})
    world.phase("by-name")
