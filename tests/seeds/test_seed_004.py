"""Seed 004, DRA on a managed service: one node with an A30, and the reference driver under the name of the seed's."""

from __future__ import annotations

import re
from typing import Any

import pytest
from seeds_api import DRA, GPU_NODE, NVIDIA, PLAIN_NODE, eventually, load, only, refusal, send
from seeds_kit import World

from clusters.client import Client
from clusters.process import DriverProcess
from conformance.cluster import manifests
from conformance.cluster.manifests import request

LINE = "GPU 0: NVIDIA A30 (UUID: GPU-c8133a35-9d03-a6b2-31dd-260000000000)\n"
"""What `nvidia-smi -L` prints; the seed masks the end of the UUID."""


@pytest.fixture
def a30(world: World, nvidia: DriverProcess) -> World:
    """The driver runs, and its classes and the seed's template are there."""
    world.submit("nvidia-device-classes", "single-gpu-claim-template")
    return world


def published(world: World) -> manifests.Object:
    """The only slice of the driver."""
    (found,) = world.client.list(DRA, "resourceslices", fieldSelector=f"spec.driver={NVIDIA}")
    return found


def pods_of(world: World, count: int, phase: str = "Running") -> list[manifests.Object]:
    """Wait for Pods of the Deployment in a phase."""

    def probe() -> list[manifests.Object] | None:
        found = [pod for pod in world.all_of("Pod") if pod["status"]["phase"] == phase]
        return found if len(found) == count else None

    found: list[manifests.Object] = eventually(
        probe, f"{count} Pods are {phase}", lambda: [pod["status"] for pod in world.all_of("Pod")]
    )
    return found


@pytest.mark.seed("S004-01")
def test_the_device_is_chosen_before_a_kubelet_sees_the_pod(world: World) -> None:
    kubelet = world.node().kubelet
    kubelet.stop()
    try:
        world.slice_of("small.example.com", "dev")
        world.claim("one", request(world.device_class("class", "small.example.com")))
        world.pod("user", claims={"gpu": "one"})
        assert world.devices("one") == ["dev"]
        eventually(lambda: world.get("Pod", "user")["spec"].get("nodeName") == PLAIN_NODE, "the Pod is bound")
        assert "containerStatuses" not in world.get("Pod", "user")["status"]
    finally:
        kubelet.start()


@pytest.mark.seed("S004-02")
def test_slices_are_cluster_scoped_and_say_in_four_ways_where_their_devices_are(world: World) -> None:
    driver = "small.example.com"
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [PLAIN_NODE]}
    there = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
    world.slice_of(driver, "by-name", name="a", node=PLAIN_NODE, pool="a")
    world.slice_of(driver, "everywhere", name="b", allNodes=True, pool="b")
    world.slice_of(driver, "by-selector", name="c", nodeSelector=there, pool="c")
    own = {"name": "own", "nodeName": PLAIN_NODE}
    world.slice_of(driver, own, name="d", perDeviceNodeSelection=True, pool="d")
    assert all("namespace" not in item["metadata"] for item in world.all_of("ResourceSlice"))
    world.claim("all", request(world.device_class("class", driver), every=True))
    world.pod("user", claims={"gpu": "all"}, node=PLAIN_NODE)
    assert world.devices("all") == ["by-name", "everywhere", "by-selector", "own"]


@pytest.mark.process
@pytest.mark.seed("S004-02", "S004-03", "M19")
def test_the_driver_publishes_what_the_seed_lists(a30: World) -> None:
    spec = published(a30)["spec"]
    (listed,) = only("nvidia-gpu-slice")["spec"]["devices"]
    (device,) = spec["devices"]
    assert (spec["driver"], spec["nodeName"], spec["pool"]["name"]) == (NVIDIA, GPU_NODE, GPU_NODE)
    assert spec["pool"]["resourceSliceCount"] == 1
    assert (device["name"], device["capacity"]) == (listed["name"], listed["capacity"])
    # Beside the seed's attributes there are the standard names for the PCI address and the NUMA node.
    assert device["attributes"] == {
        **listed["attributes"],
        "resource.kubernetes.io/numaNode": {"int": 0},
        "resource.kubernetes.io/pciBusID": {"string": "0000:65:01.0"},
    }


@pytest.mark.seed("S004-04")
def test_a_slice_tells_inventory_and_taints_alone(world: World) -> None:
    """Differs: there is no state of the hardware in it; what must not be used has a taint."""
    taint = {"key": "example.com/broken", "effect": "NoSchedule"}
    world.slice_of("small.example.com", {"name": "broken", "taints": [taint]}, "good")
    world.claim("one", request(world.device_class("class", "small.example.com")))
    world.pod("user", claims={"gpu": "one"})
    assert world.devices("one") == ["good"]
    schemas = world.client.request("GET", f"/openapi/v3/apis/{DRA}")["components"]["schemas"]
    properties = schemas["io.k8s.api.resource.v1.ResourceSlice"]["properties"]
    assert set(properties) == {"apiVersion", "kind", "metadata", "spec"}


@pytest.mark.process
@pytest.mark.seed("S004-05", "S004-17", "S004-22")
def test_a_template_occupies_nothing_and_one_claim_has_the_whole_gpu(a30: World) -> None:
    assert a30.all_of("ResourceClaim") == []
    selector = "device.attributes['gpu.nvidia.com'].type == 'gpu'"
    a30.claim("one", request(NVIDIA, selectors=[selector]))
    a30.pod("user", claims={"gpu": "one"})
    assert a30.devices("one") == ["gpu-0"]
    a30.claim("two", request(NVIDIA))
    a30.pod("other", claims={"gpu": "two"})
    assert "3 cannot allocate all claims" in a30.unschedulable("other")["message"]


@pytest.mark.seed("S004-06")
def test_allocation_modes(api: Client, world: World) -> None:
    """Differs in part: the modes are ExactCount, with a count, and All."""
    wrong = manifests.claim("x", manifests.claim_spec([request(NVIDIA)]))
    wrong["spec"]["devices"]["requests"][0]["exactly"]["allocationMode"] = "OnDemand"
    code, text = refusal(lambda: send(api, wrong, namespace="default"))
    assert code == 422
    assert text == (
        'ResourceClaim.resource.k8s.io "x" is invalid: spec.devices.requests[0].exactly.allocationMode: '
        'Unsupported value: "OnDemand": supported values: "All", "ExactCount"'
    )
    world.slice_of("small.example.com", "a", "b", "c")
    name = world.device_class("class", "small.example.com")
    world.claim("some", request(name, count=2))
    world.claim("every", request(name, every=True))
    world.pod("user", claims={"gpu": "some"})
    assert world.devices("some") == ["a", "b"]
    # The claim of a Pod that goes while it is bound stays allocated until its next Pod.
    world.event("user", "Scheduled")
    world.delete("Pod", "user")
    world.gone("Pod", "user")
    world.pod("user", claims={"gpu": "every"})
    assert world.devices("every") == ["a", "b", "c"]


@pytest.mark.process
@pytest.mark.seed("S004-07", "S004-25", "S004-26", "M20", "M21", "S000-03")
def test_the_deployment_of_the_seed_lists_its_gpu(a30: World) -> None:
    a30.submit("single-gpu-deployment")
    (pod,) = pods_of(a30, 1)
    name = pod["metadata"]["name"]
    assert pod["spec"]["nodeName"] == GPU_NODE
    (status,) = pod["status"]["resourceClaimStatuses"]
    claim = status["resourceClaimName"]
    assert re.fullmatch(rf"{re.escape(name)}-gpu-[a-z0-9]{{5}}", claim)
    assert a30.state(claim) == "allocated,reserved"
    assert a30.results(claim) == [{"request": "gpu", "driver": NVIDIA, "pool": GPU_NODE, "device": "gpu-0"}]
    assert a30.logged(name, "\n", "test") == LINE


@pytest.mark.process
@pytest.mark.seed("S004-26")
def test_the_container_of_the_seed_starts_again_after_600_seconds(a30: World) -> None:
    a30.submit("single-gpu-deployment")
    (pod,) = pods_of(a30, 1)
    name = pod["metadata"]["name"]
    a30.logged(name, "\n")

    a30.skip(600)

    def restarted() -> bool:
        (container,) = a30.get("Pod", name)["status"]["containerStatuses"]
        return int(container["restartCount"]) == 1 and "running" in container["state"]

    assert eventually(restarted, "the container was restarted", lambda: a30.get("Pod", name)["status"])
    (container,) = a30.get("Pod", name)["status"]["containerStatuses"]
    ended = container["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
    assert a30.logged(name, "\n") == LINE


@pytest.mark.seed("S004-26")
def test_without_a_device_there_is_no_nvidia_smi(world: World) -> None:
    container = manifests.container(command=["sh", "-c", "nvidia-smi -L"])
    world.pod("user", containers=[container])
    pod = world.phase("user", "Failed")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 127
    assert "nvidia-smi" in world.log("user") and "not found" in world.log("user")


@pytest.mark.process
@pytest.mark.seed("S004-08", "S000-08")
def test_a_device_is_locked_while_its_pod_lives(a30: World) -> None:
    deployment = only("single-gpu-deployment")
    deployment["spec"]["replicas"] = 2
    a30.create(deployment)
    (running,) = pods_of(a30, 1)
    (pending,) = pods_of(a30, 1, "Pending")
    waiting, lucky = pending["metadata"]["name"], running["metadata"]["name"]
    assert "3 cannot allocate all claims" in a30.unschedulable(waiting)["message"]
    claim = a30.generated(waiting, "gpu")
    assert a30.state(claim) == "pending"
    # With one replica less, the Pod that does not run is the one to go; so delete the other by hand.
    a30.delete("Pod", lucky)
    assert a30.devices(claim) == ["gpu-0"]
    a30.phase(waiting)


@pytest.mark.seed("S004-11")
def test_versions_of_kubernetes_and_runtime(world: World) -> None:
    version = world.client.request("GET", "/version")
    assert (int(version["major"]), int(version["minor"])) >= (1, 34)
    for node in world.all_of("Node"):
        runtime = node["status"]["nodeInfo"]["containerRuntimeVersion"]
        assert tuple(map(int, runtime.removeprefix("containerd://").split(".")[:2])) >= (2, 1)
    # The runtime applies CDI devices that the kubelet names.
    world.driver("small.example.com")
    world.slice_of("small.example.com", "dev")
    world.claim("one", request(world.device_class("class", "small.example.com")))
    world.pod("user", claims={"gpu": "one"})
    assert '"cdiDevices":["small.example.com/test=claim-' in world.logged("user", "\n")


@pytest.mark.seed("S004-12")
def test_labels_choose_nodes_for_a_driver(world: World) -> None:
    assert [
        node["metadata"]["name"]
        for node in world.client.list("v1", "nodes", labelSelector="vke.node.gpu.schedule=nvidia-dra")
    ] == [GPU_NODE]
    term = {"key": "vke.node.gpu.schedule", "operator": "In", "values": ["nvidia-dra"]}
    selector = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}
    labels = {"app": "nvidia-dra-driver-gpu"}
    pod = {"containers": [manifests.container("gpus")], "affinity": affinity}
    world.create(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "nvidia-dra-driver-gpu-kubelet-plugin"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }
    )
    (made,) = pods_of(world, 1)
    assert made["spec"]["nodeName"] == GPU_NODE
    assert len(world.all_of("Pod")) == 1


@pytest.mark.process
@pytest.mark.seed("S004-15", "S004-16")
def test_the_slice_is_named_after_its_driver_and_node_and_owned_by_the_node(a30: World) -> None:
    """Differs in part: the order of the parts has changed in Kubernetes' own helper; both names are legal."""
    meta = published(a30)["metadata"]
    assert NVIDIA in meta["name"] and GPU_NODE in meta["name"]
    assert meta["name"].startswith(meta["generateName"])
    assert re.fullmatch(r"-?[a-z0-9]{5}", meta["name"].removeprefix(meta["generateName"]))
    (owner,) = meta["ownerReferences"]
    node = a30.get("Node", GPU_NODE)
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", GPU_NODE, node["metadata"]["uid"])
    assert owner["controller"] is True


@pytest.mark.process
@pytest.mark.seed("S004-14", "S004-17")
def test_the_class_of_the_seed_selects_by_a_name_without_domain(a30: World) -> None:
    assert [document["metadata"]["name"] for document in load("nvidia-device-classes")] == [
        "gpu.nvidia.com",
        "mig.nvidia.com",
    ]
    a30.claim("mig", request("mig.nvidia.com"))
    a30.pod("mig", claims={"gpu": "mig"})
    assert "3 cannot allocate all claims" in a30.unschedulable("mig")["message"]
    a30.claim("gpu", request("gpu.nvidia.com"))
    a30.pod("gpu", claims={"gpu": "gpu"})
    assert a30.devices("gpu") == ["gpu-0"]


@pytest.mark.process
@pytest.mark.seed("S004-18")
def test_devices_are_not_in_the_status_of_the_node(a30: World) -> None:
    status = a30.get("Node", GPU_NODE)["status"]
    assert published(a30)["spec"]["nodeName"] == GPU_NODE
    for resources in (status["capacity"], status["allocatable"]):
        assert not [name for name in resources if "nvidia" in name]
        assert {"cpu", "memory", "pods"} <= set(resources)


@pytest.mark.seed("S004-19")
def test_a_template_has_its_name_in_its_namespace(world: World) -> None:
    """Differs: the name is not unique in the cluster."""
    world.make_namespace(f"{world.namespace}-two")
    template = only("single-gpu-claim-template")
    first = world.create(template)
    second = world.create(
        {**template, "metadata": {"name": "single-gpu", "namespace": f"{world.namespace}-two"}}
    )
    assert first["metadata"]["name"] == second["metadata"]["name"]
    code, text = world.refused(template)
    assert (code, text) == (409, 'resourceclaimtemplates.resource.k8s.io "single-gpu" already exists')


@pytest.mark.process
@pytest.mark.seed("S004-20", "S004-24")
def test_a_container_refers_to_the_claim_of_its_pod_not_to_the_request(a30: World) -> None:
    """Differs: the names of Pod claim and request have nothing to do with each other."""
    command = ["sh", "-c", "nvidia-smi -L; sleep 600"]
    containers = [
        manifests.container("plain", command, claims=["accelerator"]),
        # Beside results, an entry that narrows the claim is the only place for the request's name.
        manifests.container("narrow", command, claims=[("accelerator", "gpu")]),
    ]
    a30.pod("user", templates={"accelerator": "single-gpu"}, containers=containers)
    a30.phase("user")
    (result,) = a30.results(a30.generated("user", "accelerator"))
    assert result["request"] == "gpu"
    for container in ("plain", "narrow"):
        assert a30.logged("user", "\n", container) == LINE
    wrong = manifests.pod(
        "wrong", templates={"accelerator": "single-gpu"}, containers=[manifests.container(claims=["gpu"])]
    )
    code, text = a30.refused(wrong)
    assert code == 422
    assert 'spec.containers[0].resources.claims[0]: Not found: "gpu"' in text


@pytest.mark.process
@pytest.mark.seed("S004-21")
def test_device_class_name_is_a_class_not_a_driver(world: World, nvidia: DriverProcess) -> None:
    """Differs: a class of any name will do, and a driver without a class of its name cannot be asked for."""
    world.claim("by-driver", request(NVIDIA, "gpu"))
    world.pod("by-driver", claims={"gpu": "by-driver"})
    message = world.unschedulable("by-driver")["message"]
    assert f"request gpu: device class {NVIDIA} does not exist" in message
    world.claim("by-class", request(world.device_class("any-name", NVIDIA)))
    world.pod("by-class", claims={"gpu": "by-class"})
    assert world.devices("by-class") == ["gpu-0"]


@pytest.mark.process
@pytest.mark.seed("S004-23")
def test_many_pods_use_one_template(a30: World) -> None:
    claims = set()
    for name in ("first", "second"):
        a30.pod(name, templates={"gpu": "single-gpu"})
        a30.phase(name)
        claims.add(a30.generated(name, "gpu"))
        a30.delete("Pod", name)
        a30.gone("Pod", name)
    assert len(claims) == 2


@pytest.mark.process
@pytest.mark.seed("C13")
def test_events_of_a_pod_in_their_order(a30: World) -> None:
    """Differs in part: events of a real node's disks and cgroups are not sent."""
    a30.submit("single-gpu-deployment")
    (pod,) = pods_of(a30, 1)
    name = pod["metadata"]["name"]
    a30.event(name, "Started")
    seen: list[tuple[str, Any]] = [(event["reason"], event["message"]) for event in a30.events(name)]
    assert [reason for reason, _ in seen] == ["Scheduled", "Pulled", "Created", "Started"]
    assert seen[0][1] == f"Successfully assigned {a30.namespace}/{name} to {GPU_NODE}"
    assert [text for _, text in seen[2:]] == ["Container created", "Container started"]
