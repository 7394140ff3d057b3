"""Seed 001, about DRA."""

from __future__ import annotations

import pytest
from seeds_api import DRA, GPUS, PLAIN_NODE, eventually, holds, only, refusal, send
from seeds_kit import World

from clusters.client import Client
from clusters.gates import GATES, effective
from conformance.cluster import manifests
from conformance.cluster.manifests import request

UNFIT = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."


@pytest.fixture
def gpus(world: World) -> World:
    """The driver, class and slice of the seed: two GPUs of one topology on the plain node."""
    world.driver(GPUS)
    world.submit("gpu-device-class", "gpu-slice")
    return world


@pytest.mark.seed("S001-01", "S004-10")
def test_resources_of_device_plugins_are_still_counted(world: World, api: Client) -> None:
    """Differs in part: no longer either-or, a class can serve the same name."""

    def pod(name: str) -> None:
        resources = {"limits": {"nvidia.com/gpu": "1"}}
        world.pod(name, containers=[manifests.container(resources=resources)])

    pod("first")
    assert world.phase("first")["spec"]["nodeName"] == PLAIN_NODE
    pod("second")
    assert world.unschedulable("second")["message"].startswith(
        "0/3 nodes are available: 3 Insufficient nvidia.com/gpu. "
    )
    served = {**only("gpu-device-class"), "metadata": {"name": "served"}}
    served["spec"]["extendedResourceName"] = "nvidia.com/gpu"
    assert send(api, served)["spec"]["extendedResourceName"] == "nvidia.com/gpu"


@pytest.mark.seed("S001-02", "S001-03", "S002-10")
def test_pods_share_a_named_claim_which_is_prepared_once(gpus: World) -> None:
    driver = gpus.drivers[0]
    gpus.claim("shared", request(GPUS))
    pods = []
    for name in ("pod0", "pod1"):
        pods.append(gpus.pod(name, claims={"gpu": "shared"}))
        gpus.phase(name)
    reserved = gpus.get("ResourceClaim", "shared")["status"]["reservedFor"]
    assert sorted(entry["uid"] for entry in reserved) == sorted(pod["metadata"]["uid"] for pod in pods)
    assert len(driver.prepares("shared")) == 1
    gpus.delete("Pod", "pod0")
    gpus.gone("Pod", "pod0")
    assert driver.unprepares("shared") == []
    gpus.delete("Pod", "pod1")
    gpus.gone("Pod", "pod1")
    assert len(driver.unprepares("shared")) == 1


@pytest.mark.seed("S001-03")
def test_claims_of_templates_share_a_device_that_allows_it(world: World) -> None:
    device = manifests.device("big", capacity={"memory": {"value": "8Gi"}}, allowMultipleAllocations=True)
    world.slice_of(GPUS, device)
    part = request(world.device_class("part", GPUS))
    part["exactly"]["capacity"] = {"requests": {"memory": "4Gi"}}
    world.template("part", part)
    shares = []
    for name in ("pod0", "pod1"):
        world.pod(name, templates={"gpu": "part"})
        (result,) = world.results(world.generated(name, "gpu"))
        assert (result["device"], result["consumedCapacity"]) == ("big", {"memory": "4Gi"})
        shares.append(result["shareID"])
    assert shares[0] != shares[1]
    # Two shares of 4Gi are all of 8Gi.
    world.pod("pod2", templates={"gpu": "part"})
    assert "3 cannot allocate all claims" in world.unschedulable("pod2")["message"]


@pytest.mark.seed("S001-04", "S004-13")
def test_claims_are_not_provisioned_and_not_bound_without_a_pod(gpus: World) -> None:
    """The likeness to storage is an analogy: no provisioner, no binding object, one slice with many devices."""
    names = {entry["name"] for entry in gpus.client.request("GET", f"/apis/{DRA}")["resources"]}
    assert {name for name in names if "/" not in name} == {
        "deviceclasses",
        "devicetaintrules",
        "resourceclaims",
        "resourceclaimtemplates",
        "resourceslices",
    }
    slices = [item["metadata"]["name"] for item in gpus.all_of("ResourceSlice")]
    gpus.claim("one", request(GPUS))
    holds(lambda: gpus.state("one") == "pending", "a claim that no Pod uses is pending")
    assert [item["metadata"]["name"] for item in gpus.all_of("ResourceSlice")] == slices
    assert len(gpus.get("ResourceSlice", "gpu-slice")["spec"]["devices"]) == 2


@pytest.mark.seed("S001-05")
def test_a_claim_goes_from_user_to_control_plane_to_node_to_container(gpus: World) -> None:
    gpus.claim("one", request(GPUS, "gpu"))
    gpus.pod("user", claims={"gpu": "one"})
    gpus.phase("user")
    assert gpus.devices("one") == ["gpu-0"]
    (call,) = gpus.drivers[0].prepares("one")
    assert call.method == "NodePrepareResources"
    gpus.logged("user", '"claim_one_gpu":"true"')


@pytest.mark.seed("S001-06")
def test_controllers_make_claims_and_the_scheduler_allocates_them(gpus: World) -> None:
    scheduler, manager = (gpus.cluster.component(name) for name in ("scheduler", "controller-manager"))
    gpus.template("each", request(GPUS))
    scheduler.stop()
    try:
        gpus.pod("user", templates={"gpu": "each"})
        claim = gpus.generated("user", "gpu")
        assert gpus.state(claim) == "pending"
        manager.stop()
        try:
            scheduler.start()
            assert gpus.devices(claim) == ["gpu-0"]
            gpus.pod("other", templates={"gpu": "each"})
            holds(lambda: len(gpus.all_of("ResourceClaim")) == 1, "nobody else makes claims")
        finally:
            manager.start()
    finally:
        scheduler.start()
    assert gpus.devices(gpus.generated("other", "gpu")) == ["gpu-1"]


@pytest.mark.seed("S001-08", "S002-34")
def test_a_driver_may_report_about_an_allocated_device_but_need_not(gpus: World) -> None:
    """Differs in part (001): a Pod runs without such a report."""
    gpus.claim("one", request(GPUS))
    gpus.pod("user", claims={"gpu": "one"})
    gpus.phase("user")
    assert "devices" not in gpus.get("ResourceClaim", "one")["status"]
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Up",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    report = {
        "driver": GPUS,
        "pool": "gpu-pool",
        "device": "gpu-0",
        "conditions": [ready],
        "data": {"firmware": "1.2"},
        "networkData": {
            "interfaceName": "eth7",
            "ips": ["192.0.2.55/24"],
            "hardwareAddress": "02:00:00:00:00:01",
        },
    }
    gpus.patch("ResourceClaim", "one", {"status": {"devices": [report]}}, "status")
    assert gpus.get("ResourceClaim", "one")["status"]["devices"] == [report]


@pytest.mark.seed("S001-10")
def test_selectors_see_attributes_by_domain_and_name(world: World) -> None:
    attributes = {"model": "a", f"{GPUS}/topo": 3, "other.example.com/rack": "r1"}
    world.slice_of(GPUS, manifests.device("dev", attributes))
    name = world.device_class("gpu", GPUS)
    for claim, expression in {
        "bare": f'device.attributes["{GPUS}"].model == "a"',
        "own": f'device.attributes["{GPUS}"].topo == 3',
        "foreign": 'device.attributes["other.example.com"].rack == "r1"',
    }.items():
        world.claim(claim, request(name, selectors=[expression]))
        world.pod(claim, claims={"gpu": claim})
        assert world.devices(claim) == ["dev"]
        # The claim of a Pod that goes while it is bound stays allocated until its next Pod.
        world.event(claim, "Scheduled")
        world.delete("Pod", claim)
        world.gone("Pod", claim)
    world.claim("wrong", request(name, selectors=[f'"rack" in device.attributes["{GPUS}"]']))
    world.pod("wrong", claims={"gpu": "wrong"})
    assert "3 cannot allocate all claims" in world.unschedulable("wrong")["message"]


@pytest.mark.seed("S001-11")
def test_several_classes_over_the_same_devices_and_alternatives(world: World) -> None:
    fast, cheap = manifests.device("fast", {"speed": 9}), manifests.device("cheap", {"speed": 1})
    world.slice_of(GPUS, cheap, fast)
    speed = f'device.attributes["{GPUS}"].speed'
    world.device_class("fast", GPUS, f"{speed} > 5")
    world.device_class("any", GPUS, f"{speed} > 0")
    alternatives = [{"name": "best", "deviceClassName": "fast"}, {"name": "else", "deviceClassName": "any"}]
    found = []
    for name in ("pod0", "pod1"):
        world.claim(name, {"name": "gpu", "firstAvailable": alternatives})
        world.pod(name, claims={"gpu": name})
        (result,) = world.results(name)
        found.append((result["request"], result["device"]))
    assert found == [("gpu/best", "fast"), ("gpu/else", "cheap")]


@pytest.mark.seed("S001-13")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"version": "1.0"}, None),
        ({"version": "1" + ".0" * 2 + "-" + "a" * 59}, "may not be more than 64"),
        ({"string": "x" * 65}, "may not be more than 64"),
        ({"version": "1.0.0"}, ""),
        ({"version": "1.0.0-" + "a" * 58}, ""),
        ({"string": "x" * 64}, ""),
    ],
)
def test_versions_are_semantic_and_texts_short(api: Client, value: dict[str, str], text: str | None) -> None:
    slice_ = only("gpu-slice")
    slice_["metadata"] = {"generateName": "gpu-slice-"}
    slice_["spec"]["devices"][0]["attributes"]["driverVersion"] = value
    if text == "":
        stored = send(api, slice_)["spec"]["devices"][0]
        assert stored["attributes"]["driverVersion"] == value
        assert stored["capacity"] == {"memory": {"value": "80Gi"}}
        return
    code, message = refusal(lambda: send(api, slice_))
    assert code == 422
    ((kind, given),) = value.items()
    path = f"spec.devices[0].attributes[driverVersion].{kind}"
    if text is None:
        assert (
            f'{path}: Invalid value: "{given}": must be a string compatible with semver.org spec 2.0.0'
            in message
        )
    else:
        assert f"{path}: Too long: {text} bytes" in message


@pytest.mark.seed("S001-14")
def test_a_slice_does_not_say_what_is_in_use(gpus: World) -> None:
    """Differs: what is free is computed from all claims."""
    before = gpus.get("ResourceSlice", "gpu-slice")
    gpus.claim("one", request(GPUS))
    gpus.pod("user", claims={"gpu": "one"})
    gpus.phase("user")
    assert gpus.get("ResourceSlice", "gpu-slice") == before


@pytest.mark.seed("S001-18")
def test_a_slice_may_name_a_node_that_does_not_exist(api: Client) -> None:
    slice_ = only("gpu-slice")
    slice_["metadata"]["name"] = "lost"
    assert api.find("v1", "nodes", PLAIN_NODE) is None
    assert send(api, slice_)["spec"]["nodeName"] == PLAIN_NODE


@pytest.mark.seed("S001-19")
def test_all_selectors_of_class_and_request_must_be_true(world: World) -> None:
    devices = [manifests.device(f"d{a}{b}{c}", {"a": a, "b": b, "c": c}) for a, b, c in _COMBINATIONS]
    world.slice_of(GPUS, *devices)
    name = world.device_class("gpu", GPUS, f'device.attributes["{GPUS}"].a == 1')
    selectors = [f'device.attributes["{GPUS}"].{letter} == 1' for letter in ("b", "c")]
    world.claim("one", request(name, selectors=selectors, every=True))
    world.pod("user", claims={"gpu": "one"})
    assert world.devices("one") == ["d111"]


_COMBINATIONS = [(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 1, 1)]


@pytest.mark.seed("S001-21")
def test_an_unknown_attribute_in_a_selector_is_an_error_of_the_scheduler(gpus: World) -> None:
    name = gpus.namespace
    gpus.claim("wrongkey", request(GPUS, selectors=[f'device.attributes["{GPUS}"].nosuch == 0']))
    gpus.pod("user", claims={"gpu": "wrongkey"})
    condition = gpus.unschedulable("user")
    assert condition["reason"] == "SchedulerError"
    assert (
        f"claim {name}/wrongkey: selector #0 on device gpu.example.com/gpu-pool/gpu-0: CEL runtime error: no such "
        "key: nosuch. consider using CEL optional chaining (.? followed by orValue()) or guarding the check with "
        "has() for optional fields"
    ) in condition["message"]


@pytest.mark.seed("S001-22")
def test_equal_topology_in_general_is_a_constraint(gpus: World) -> None:
    requests = [request(GPUS, "primary-gpu"), request(GPUS, "secondary-gpu")]
    gpus.claim("two", *requests, constraints=[{"matchAttribute": f"{GPUS}/topo"}])
    gpus.pod("user", claims={"gpu": "two"})
    assert gpus.devices("two") == ["gpu-0", "gpu-1"]


@pytest.mark.seed("S001-23", "S002-11")
def test_each_pod_of_a_workload_gets_a_claim_of_its_own(gpus: World) -> None:
    gpus.template("single-gpu", request(GPUS, "gpu"))
    deployment = only("single-gpu-deployment")
    deployment["spec"]["replicas"] = 2
    gpus.create(deployment)

    def claims() -> list[manifests.Object] | None:
        found = gpus.all_of("ResourceClaim")
        states = [gpus.state(item["metadata"]["name"]) for item in found]
        return found if states == ["allocated,reserved"] * 2 else None

    made = eventually(claims, "two claims are in use", lambda: gpus.all_of("ResourceClaim"))
    devices = sorted(gpus.devices(item["metadata"]["name"])[0] for item in made)
    owners = {item["metadata"]["ownerReferences"][0]["uid"] for item in made}
    assert devices == ["gpu-0", "gpu-1"]
    assert owners == {pod["metadata"]["uid"] for pod in gpus.all_of("Pod")}


@pytest.mark.seed("S001-25")
def test_which_parts_are_ga_beta_and_alpha() -> None:
    """Outdated: more is general by now."""
    gates, known = effective({}), GATES["1.37"]
    ga = ["AdminAccess", "PrioritizedList", "ResourceClaimDeviceStatus", "ExtendedResource"]
    assert all(known[f"DRA{name}"].locked and gates[f"DRA{name}"] for name in ga)
    beta = ["PartitionableDevices", "ConsumableCapacity", "DeviceBindingConditions"]
    assert all(gates[f"DRA{name}"] and not known[f"DRA{name}"].locked for name in beta)
    alpha = ["ListTypeAttributes", "NodeAllocatableResources", "OptionalNodeOperations"]
    assert not any(gates[f"DRA{name}"] for name in alpha)


@pytest.mark.seed("S001-26")
def test_a_claim_that_is_deleted_in_use_goes_with_its_last_pod(gpus: World) -> None:
    gpus.claim("one", request(GPUS))
    for name in ("pod0", "pod1"):
        gpus.pod(name, claims={"gpu": "one"})
        gpus.phase(name)
    gpus.delete("ResourceClaim", "one")
    assert gpus.state("one") == "deleted,allocated,reserved"
    gpus.delete("Pod", "pod0")
    gpus.gone("Pod", "pod0")
    assert gpus.state("one") == "deleted,allocated,reserved"
    gpus.delete("Pod", "pod1")
    gpus.gone("ResourceClaim", "one")
