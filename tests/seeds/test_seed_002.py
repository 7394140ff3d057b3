"""Seed 002, DRA in 1.32: what scheduler, kubelet and drivers do."""

from __future__ import annotations

import json

import grpc
import pytest
from seeds_api import CATS, CATS_NODE, eventually
from seeds_kit import World

from conformance.cluster import manifests
from conformance.cluster.manifests import opaque, request
from node_api.gen import pod_resources_v1_pb2 as messages
from node_api.gen.pod_resources_v1_pb2_grpc import PodResourcesListerStub

PREFIX = "Failed to prepare dynamic resources: prepare dynamic resources: "


@pytest.fixture
def cats(world: World) -> World:
    """Driver, class and slice of the seed: cats a to d, of which a and c are black and large."""
    world.driver(CATS, CATS_NODE)
    world.submit("cats-slice", "cats-device-class")
    return world


CLASS = "resource.example.com"


@pytest.mark.seed("S002-05")
def test_a_claim_from_a_template_goes_with_its_pod_after_unprepare(cats: World) -> None:
    driver = cats.drivers[0]
    cats.submit("cats-claim-template")
    cats.pod("user", templates={"cat": "large-black-cat-claim-template"})
    cats.phase("user")
    claim = cats.generated("user", "cat")
    driver.faults.block_unprepare.set()
    cats.delete("Pod", "user")
    eventually(lambda: driver.unprepares(claim), "the driver is asked to unprepare")
    assert cats.find("ResourceClaim", claim) is not None
    driver.faults.block_unprepare.clear()
    cats.gone("Pod", "user")
    cats.gone("ResourceClaim", claim)
    assert driver.prepared == {}


@pytest.mark.seed("S002-08")
def test_configuration_is_passed_through(cats: World) -> None:
    anything = {"anything": {"goes": [1, 2]}}
    cats.create(
        manifests.device_class(
            "tuned", ['device.driver == "resource-driver.example.com"'], [opaque(CATS, {"a": None})]
        )
    )
    # With a second request beside it, the entries say which request they are for.
    cats.claim(
        "one", request("tuned", "cat"), request(CLASS, "other"), configs=[opaque(CATS, anything, ["cat"])]
    )
    cats.pod("user", claims={"cat": "one"})
    cats.results("one")
    assert cats.get("ResourceClaim", "one")["status"]["allocation"]["devices"]["config"] == [
        {"source": "FromClass", "requests": ["cat"], "opaque": {"driver": CATS, "parameters": {"a": None}}},
        {"source": "FromClaim", "requests": ["cat"], "opaque": {"driver": CATS, "parameters": anything}},
    ]


@pytest.mark.seed("S002-12")
def test_a_container_has_the_devices_of_its_own_entries(cats: World) -> None:
    cats.claim("one", request(CLASS, "first"), request(CLASS, "second"))
    cats.claim("two", request(CLASS, "only"))
    containers = [
        manifests.container("all", claims=["cats"]),
        manifests.container("narrow", claims=[("cats", "second")]),
        manifests.container("other", claims=["cat"]),
        manifests.container("none"),
    ]
    cats.pod("user", claims={"cats": "one", "cat": "two"}, containers=containers)
    cats.phase("user")
    seen = {}
    for container in ("all", "narrow", "other", "none"):
        line = cats.logged("user", "\n", container)
        environment = json.loads(line)["environment"]
        seen[container] = {name for name in environment if name.startswith("claim_")}
    assert seen == {
        "all": {"claim_one_first", "claim_one_second"},
        "narrow": {"claim_one_second"},
        "other": {"claim_two_only"},
        "none": set(),
    }


@pytest.mark.seed("S002-19")
def test_constraints_between_devices_of_a_claim(cats: World) -> None:
    """Differs in part: more kinds of constraints since."""
    color, size = f"{CATS}/color", f"{CATS}/size"
    requests = [request(CLASS, "one"), request(CLASS, "two")]
    cats.claim("alike", *requests, constraints=[{"matchAttribute": color}, {"matchAttribute": size}])
    cats.claim("unlike", *requests, constraints=[{"distinctAttribute": color}])
    cats.pod("alike", claims={"cat": "alike"})
    assert cats.devices("alike") == ["cat-a", "cat-c"]
    # A white and a black one are left.
    cats.pod("unlike", claims={"cat": "unlike"})
    assert cats.devices("unlike") == ["cat-b", "cat-d"]


@pytest.mark.seed("S002-20")
def test_a_driver_reads_in_the_claim_all_that_it_needs(cats: World) -> None:
    made = cats.claim("one", request(CLASS, "cat"), configs=[opaque(CATS, {"name": "tom"})])
    cats.pod("user", claims={"cat": "one"})
    cats.phase("user")
    (call,) = cats.drivers[0].prepares("one")
    assert call.claims == ((cats.namespace, "one", made["metadata"]["uid"]),)
    # What the driver of the test read by these three: device, request and parameters.
    environment = json.loads(cats.logged("user", "\n"))["environment"]
    assert environment["user_name"] == "tom"
    assert environment["claim_one_cat"] == "true"


@pytest.mark.seed("S002-21")
def test_the_scheduler_needs_no_driver(world: World) -> None:
    world.submit("cats-slice", "cats-all")
    event = world.event("pod-with-cats", "FailedPrepareDynamicResources")
    assert event["message"] == f"{PREFIX}DRA driver resource-driver.example.com is not registered"
    pod = world.get("Pod", "pod-with-cats")
    assert pod["spec"]["nodeName"] == CATS_NODE

    def statuses() -> list[manifests.Object] | None:
        return world.get("Pod", "pod-with-cats")["status"].get("containerStatuses")

    found = eventually(statuses, "the kubelet tells the status of the Pod")
    states = [container["state"]["waiting"]["reason"] for container in found]
    assert states == ["ContainerCreating", "ContainerCreating"]
    claims = [entry["resourceClaimName"] for entry in pod["status"]["resourceClaimStatuses"]]
    assert [world.state(claim) for claim in claims] == ["allocated,reserved"] * 2
    world.driver(CATS, CATS_NODE)
    world.phase("pod-with-cats")


@pytest.mark.seed("S002-23")
def test_the_kubelet_tells_what_running_pods_use(cats: World) -> None:
    cats.submit("cats-claim-template", "cats-pod")
    cats.phase("pod-with-cats")
    claims = [cats.generated("pod-with-cats", name) for name in ("cat-0", "cat-1")]
    # What a container got, with the UID of its claim in the CDI id that the driver gave.
    expected = [
        (
            f"container{number}",
            claim,
            cats.namespace,
            [
                (
                    CATS,
                    "cats",
                    cats.devices(claim)[0],
                    [f"{CATS}/test=claim-{cats.get('ResourceClaim', claim)['metadata']['uid']}-req-0"],
                )
            ],
        )
        for number, claim in enumerate(claims)
    ]
    socket = cats.node(CATS_NODE).paths.root / "pod-resources" / "kubelet.sock"
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        stub = PodResourcesListerStub(channel)
        wanted = messages.GetPodResourcesRequest(pod_name="pod-with-cats", pod_namespace=cats.namespace)
        got = stub.Get(wanted, timeout=10).pod_resources
        listed = stub.List(messages.ListPodResourcesRequest(), timeout=10).pod_resources
    assert got in list(listed)
    assert [
        (
            container.name,
            resource.claim_name,
            resource.claim_namespace,
            [
                (
                    device.driver_name,
                    device.pool_name,
                    device.device_name,
                    [item.name for item in device.cdi_devices],
                )
                for device in resource.claim_resources
            ],
        )
        for container in got.containers
        for resource in container.dynamic_resources
    ] == expected


@pytest.mark.seed("S002-27", "S002-28")
def test_admin_access_reaches_devices_in_use(world: World) -> None:
    driver = "small.example.com"
    world.patch(
        "Namespace",
        world.namespace,
        {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}},
    )
    world.driver(driver)
    world.slice_of(driver, "gpu-0", "gpu-1")
    name = world.device_class("class", driver)
    world.claim("normal", request(name, count=2))
    world.pod("normal", claims={"gpu": "normal"})
    assert world.devices("normal") == ["gpu-0", "gpu-1"]
    more = opaque(driver, {"PRIVILEGES": "monitoring"})
    world.claim("admin", request(name, "all", every=True, admin_access=True), configs=[more])
    world.pod("admin", claims={"gpu": "admin"})
    world.phase("admin")
    results = world.results("admin")
    assert [(result["device"], result["adminAccess"]) for result in results] == [
        ("gpu-0", True),
        ("gpu-1", True),
    ]
    # Whether a container gets further permissions is up to the driver: it sees the field, and parameters.
    assert json.loads(world.logged("admin", "\n"))["environment"]["user_PRIVILEGES"] == "monitoring"
    world.claim("third", request(name))
    world.pod("third", claims={"gpu": "third"})
    assert "3 cannot allocate all claims" in world.unschedulable("third")["message"]


@pytest.mark.seed("S002-36", "S004-09")
def test_a_report_goes_with_the_allocation(world: World) -> None:
    """Differs (004): no policy decides; a named claim is deallocated after its last Pod."""
    driver = "small.example.com"
    world.driver(driver)
    world.slice_of(driver, "dev", pool="p")
    world.claim("one", request(world.device_class("class", driver)))
    world.pod("user", claims={"gpu": "one"})
    world.phase("user")
    report = {"driver": driver, "pool": "p", "device": "dev", "conditions": []}
    world.patch("ResourceClaim", "one", {"status": {"devices": [report]}}, "status")
    world.delete("Pod", "user")
    eventually(lambda: world.state("one") == "pending", "the claim is free", lambda: world.state("one"))
    assert world.get("ResourceClaim", "one")["status"] == {}


@pytest.mark.seed("S002-42")
def test_the_default_scheduler_allocates_without_any_configuration(world: World) -> None:
    assert world.cluster.spec.scheduler_config == ""
    world.slice_of("small.example.com", "dev")
    world.claim("one", request(world.device_class("class", "small.example.com")))
    pod = world.pod("user", claims={"gpu": "one"})
    assert pod["spec"]["schedulerName"] == "default-scheduler"
    assert world.devices("one") == ["dev"]
