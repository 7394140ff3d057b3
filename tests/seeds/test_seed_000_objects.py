"""Seed 000, how DRA works: objects, controllers and scheduler."""

from __future__ import annotations

import pytest
from seeds_api import CATS_NODE, GPU_NODE, NVIDIA, PLAIN_NODE, eventually, history, impersonate, refusal, send
from seeds_kit import World

from clusters.client import Client
from clusters.process import DriverProcess
from conformance.cluster import manifests
from conformance.cluster.manifests import request

DRIVER = "simple.example.com"


def class_and_slice(world: World, *devices: str) -> str:
    """A class of a driver, and a slice with devices on the plain node; the class."""
    world.slice_of(DRIVER, *devices)
    return world.device_class("simple", DRIVER)


@pytest.mark.seed("S000-01")
def test_slices_written_by_hand_are_used_and_those_of_other_nodes_are_not_for_a_kubelet(
    world: World, api: Client
) -> None:
    name = class_and_slice(world, "dev")
    world.claim("one", request(name))
    world.pod("user", claims={"device": "one"})
    assert world.devices("one") == ["dev"]

    for node in ("n1", "n2"):
        send(api, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
    kubelet = impersonate(api, "system:node:n1", "system:nodes")
    own = manifests.resource_slice("own", DRIVER, [{"name": "d"}], node="n1")
    assert send(kubelet, own)["spec"]["nodeName"] == "n1"
    nobody = impersonate(api, "bob")
    code, text = refusal(lambda: send(nobody, own))
    assert code == 403
    assert text == (
        'resourceslices.resource.k8s.io is forbidden: User "bob" cannot create resource "resourceslices" in API group '
        '"resource.k8s.io" at the cluster scope'
    )
    for foreign in (
        manifests.resource_slice("foreign", DRIVER, [{"name": "d"}], node="n2"),
        manifests.resource_slice("foreign", DRIVER, [{"name": "d"}], allNodes=True),
    ):
        code, text = refusal(lambda: send(kubelet, foreign))  # noqa: B023
        assert code == 403
        assert text.endswith("can only create ResourceSlice with the same NodeName as the requesting node")


@pytest.mark.seed("S000-02", "S002-07")
def test_a_request_for_a_class_that_does_not_exist_waits_for_it(world: World) -> None:
    world.slice_of(DRIVER, "dev")
    world.claim("one", request("simple", "gpu"))
    world.pod("user", claims={"device": "one"})
    condition = world.unschedulable("user")
    assert condition["reason"] == "Unschedulable"
    assert condition["message"] == (
        "0/3 nodes are available: request gpu: device class simple does not exist. preemption: 0/3 nodes are "
        "available: 3 Preemption is not helpful for scheduling."
    )
    assert world.event("user", "FailedScheduling")["message"] == condition["message"]
    world.device_class("simple", DRIVER)
    assert world.devices("one") == ["dev"]


@pytest.mark.process
@pytest.mark.seed("S000-02", "S001-09", "S004-14")
def test_a_driver_needs_no_class_and_nothing_but_an_administrator_makes_one(
    world: World, nvidia: DriverProcess
) -> None:
    assert [item["spec"]["driver"] for item in world.all_of("ResourceSlice")] == [NVIDIA]
    assert world.all_of("DeviceClass") == []
    world.submit("nvidia-device-classes")
    assert [item["metadata"]["name"] for item in world.all_of("DeviceClass")] == [
        "gpu.nvidia.com",
        "mig.nvidia.com",
    ]


@pytest.mark.seed("S000-03")
def test_a_pod_refers_to_a_claim_or_to_a_template(world: World) -> None:
    name = class_and_slice(world, "a", "b")
    world.driver(DRIVER)
    world.claim("one", request(name))
    world.template("each", request(name))
    world.pod("by-claim", claims={"device": "one"})
    world.phase("by-claim")
    world.pod("by-template", templates={"device": "each"})
    world.phase("by-template")
    assert world.devices("one") == ["a"]
    assert world.devices(world.generated("by-template", "device")) == ["b"]


@pytest.mark.seed("S000-04")
def test_a_slice_has_up_to_128_devices(api: Client) -> None:
    """Differs in part: devices of a pool need not be similar, and there are limits."""

    def with_devices(count: int, **fields: object) -> dict[str, object]:
        devices = [{"name": f"d{number}", **fields} for number in range(count)]
        return manifests.resource_slice(f"s{count}-{len(fields)}", DRIVER, devices, allNodes=True)

    taints = {"taints": [{"key": "example.com/k", "effect": "NoSchedule"}]}
    send(api, with_devices(128))
    send(api, with_devices(64, **taints))
    assert refusal(lambda: send(api, with_devices(129))) == (
        422,
        'ResourceSlice.resource.k8s.io "s129-0" is invalid: spec.devices: Too many: 129: must have at most 128 items',
    )
    code, text = refusal(lambda: send(api, with_devices(65, **taints)))
    assert code == 422
    assert "spec.devices: Too many: 65: must have at most 64 items" in text


@pytest.mark.seed("S000-04")
def test_a_pool_spans_slices_and_its_devices_differ(world: World) -> None:
    for number, device in enumerate(
        (manifests.device("fast", {"speed": 9}), manifests.device("dark", {"hue": "x"}))
    ):
        world.slice_of(DRIVER, device, name=f"part-{number}", pool="both", count=2)
    name = world.device_class("simple", DRIVER)
    world.claim("two", request(name, count=2))
    world.pod("user", claims={"device": "two"})
    assert world.devices("two") == ["fast", "dark"]


@pytest.mark.seed("S000-05", "S001-06")
def test_the_controller_makes_claims_from_templates(world: World) -> None:
    name = class_and_slice(world, "dev")
    world.template("each", request(name))
    pod = world.pod("user", templates={"gpu": "each"})
    claim = world.generated("user", "gpu")
    meta = world.get("ResourceClaim", claim)["metadata"]
    assert claim.startswith("user-gpu-") and len(claim) == len("user-gpu-") + 5
    assert meta["generateName"] == "user-gpu-"
    assert meta["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "user",
            "uid": pod["metadata"]["uid"],
            "controller": True,
        }
    ]
    assert meta["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    assert world.get("Pod", "user")["status"]["resourceClaimStatuses"] == [
        {"name": "gpu", "resourceClaimName": claim}
    ]
    managers = {entry["manager"] for entry in meta["managedFields"] if "subresource" not in entry}
    assert "kube-controller-manager" in managers


@pytest.mark.seed("S000-06")
def test_a_missing_template_is_told_and_repaired(world: World) -> None:
    world.submit("nvidia-device-classes")
    world.pod("user", templates={"gpu": "single-gpu"})
    event = world.event("user", "FailedResourceClaimCreation")
    assert event["message"] == (
        'PodResourceClaim gpu: resource claim template "single-gpu": resourceclaimtemplate.resource.k8s.io '
        '"single-gpu" not found'
    )
    assert event["type"] == "Warning"
    assert world.get("Pod", "user")["status"]["phase"] == "Pending"
    world.submit("single-gpu-claim-template")
    assert world.generated("user", "gpu").startswith("user-gpu-")


@pytest.mark.seed("S000-07")
def test_a_pod_waits_silently_for_its_named_claim(world: World) -> None:
    """Differs in part: nothing fails visibly."""
    name = class_and_slice(world, "dev")
    world.driver(DRIVER)
    world.pod("user", claims={"device": "one"})
    # Another Pod shows that the scheduler has had its turn.
    world.pod("other", containers=[manifests.container()])
    world.phase("other")
    assert world.get("Pod", "user")["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert world.events("user") == []
    world.claim("one", request(name))
    world.phase("user")


@pytest.mark.seed("S000-08", "S002-17")
def test_only_nodes_with_free_matching_devices_are_eligible(world: World) -> None:
    name = class_and_slice(world, "only")
    world.claim("first", request(name))
    world.claim("second", request(name))
    world.pod("a", claims={"device": "first"})
    assert world.devices("first") == ["only"]
    world.pod("b", claims={"device": "second"})
    assert world.unschedulable("b")["message"] == (
        "0/3 nodes are available: 3 cannot allocate all claims. preemption: 0/3 nodes are available: 3 Preemption "
        "is not helpful for scheduling."
    )
    world.delete("Pod", "a")
    assert world.devices("second") == ["only"]


@pytest.mark.seed("S000-09", "S002-04", "S002-22")
def test_the_scheduler_writes_finalizer_allocation_and_reservation_before_it_binds(world: World) -> None:
    """Differs in part (002): the Pod is bound after the claim's status is written, not before."""
    name = class_and_slice(world, "dev")
    made = world.claim("one", request(name))
    pod = world.pod("user", claims={"device": "one"})
    bound = eventually(
        lambda: (found := world.get("Pod", "user"))["spec"].get("nodeName") and found, "user is bound"
    )
    since = made["metadata"]["resourceVersion"]
    steps = [event["object"] for event in history(world.client, "resourceclaims", world.namespace, since)]
    assert [bool(step["metadata"].get("finalizers")) for step in steps] == [True, True]
    first, second = steps
    assert first["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert first.get("status", {}) == {}
    status = second["status"]
    assert [result["device"] for result in status["allocation"]["devices"]["results"]] == ["dev"]
    assert status["allocation"]["allocationTimestamp"]
    assert status["reservedFor"] == [{"resource": "pods", "name": "user", "uid": pod["metadata"]["uid"]}]
    # The writes of a scheduler in their order: the binding of the Pod is newer than the status of the claim.
    pods = world.client.watch("v1", "pods", world.namespace, timeout=1, resourceVersion=since)
    binding = next(event["object"] for event in pods if event["object"]["spec"].get("nodeName"))
    assert int(binding["metadata"]["resourceVersion"]) > int(second["metadata"]["resourceVersion"])
    assert bound["spec"]["nodeName"] == PLAIN_NODE


@pytest.mark.seed("S000-10")
def test_devices_are_taken_in_the_order_of_pools_and_slices(world: World) -> None:
    world.slice_of(DRIVER, "dev-a2", name="b-slice", pool="b-pool", count=2)
    world.slice_of(DRIVER, "dev-b1", name="a-slice", pool="b-pool", count=2)
    world.slice_of(DRIVER, "dev-z", name="z-slice", pool="a-pool")
    name = world.device_class("simple", DRIVER)
    found = []
    for claim in ("claim-1", "claim-2", "claim-3"):
        world.claim(claim, request(name))
        world.pod(claim, claims={"device": claim})
        (result,) = world.results(claim)
        found.append((result["pool"], result["device"]))
    assert found == [("a-pool", "dev-z"), ("b-pool", "dev-b1"), ("b-pool", "dev-a2")]


@pytest.mark.seed("S000-11")
def test_names_of_devices_do_not_choose_the_node(world: World) -> None:
    """Differs in part: names decide inside one node only."""
    world.slice_of(DRIVER, "a-first", name="a", pool="a", node=PLAIN_NODE)
    world.slice_of(DRIVER, "z-last", name="z", pool="z", node=CATS_NODE)
    name = world.device_class("simple", DRIVER)
    # Half of one node's CPUs are taken: the scheduler prefers the emptier node.
    busy = manifests.container(resources={"requests": {"cpu": "4"}})
    world.pod("busy", containers=[busy], node=PLAIN_NODE)
    world.phase("busy")
    world.claim("one", request(name))
    world.pod("user", claims={"device": "one"})
    assert world.devices("one") == ["z-last"]


@pytest.mark.seed("S000-12")
def test_the_pod_goes_where_its_devices_are(world: World) -> None:
    for node, device in ((CATS_NODE, "on-cats"), (GPU_NODE, "on-gpu")):
        world.slice_of(DRIVER, manifests.device(device, {"node": device}), name=device, node=node, pool=node)
    name = world.device_class("simple", DRIVER)
    selector = f'device.attributes["{DRIVER}"].node == "on-cats"'
    world.claim("one", request(name, selectors=[selector]))
    world.driver(DRIVER, CATS_NODE)
    world.pod("user", claims={"device": "one"})
    assert world.phase("user")["spec"]["nodeName"] == CATS_NODE
    # One cycle: no failed attempt comes before.
    assert world.events("user")[0]["reason"] == "Scheduled"
    term = {"key": "metadata.name", "operator": "In", "values": [CATS_NODE]}
    allocation = world.get("ResourceClaim", "one")["status"]["allocation"]
    assert allocation["nodeSelector"] == {"nodeSelectorTerms": [{"matchFields": [term]}]}
