"""Seed 002, DRA in 1.32: what the API says, and what became of gates and versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from seeds_api import DRA, NVIDIA, impersonate, only, refusal, request, send
from seeds_kit import World

from clusters import gates
from clusters.client import Client
from clusters.embedded.cluster import EmbeddedCluster
from clusters.gates import GateError
from clusters.interface import ClusterSpec
from conformance.cluster import manifests

CLASS = "resource.example.com"
UNKNOWN = 'ResourceClaim in version "v1" cannot be handled as a ResourceClaim: strict decoding error: '
VERSIONS = "/apis/resource.k8s.io"


def claim(**devices: Any) -> dict[str, Any]:
    """A claim with a name that the server gives."""
    made = manifests.claim("x", {"devices": devices})
    made["metadata"] = {"generateName": "claim-"}
    return made


def refused(client: Client, body: dict[str, Any]) -> tuple[int, str]:
    """Code and message of a refusal in the default namespace."""
    return refusal(lambda: send(client, body, namespace="default"))


def resources(client: Client, version: str = DRA) -> set[str]:
    """The resources of a version, without subresources."""
    found = client.request("GET", f"/apis/{version}")["resources"]
    return {entry["name"] for entry in found if "/" not in entry["name"]}


@pytest.mark.seed("S002-01", "S002-29", "S002-39", "S002-43", "S002-36")
@pytest.mark.parametrize(
    "gate", ["DynamicResourceAllocation", "DRAAdminAccess", "DRAResourceClaimDeviceStatus"]
)
def test_gates_of_the_seed_are_locked(gate: str) -> None:
    """Differs: nothing has to be switched on, and nothing can be switched off."""
    with pytest.raises(GateError) as caught:
        gates.effective({gate: False})
    refused = f"cannot set feature gate {gate} to false, feature is locked to true in Kubernetes 1.37; "
    assert str(caught.value).startswith(refused)
    assert gates.effective({})[gate] is True


@pytest.mark.seed("S002-02")
def test_classic_dra_is_gone(api: Client) -> None:
    assert resources(api).isdisjoint({"resourceclasses", "podschedulingcontexts"})
    classic = {**claim(), "spec": {"resourceClassName": CLASS}}
    assert refused(api, classic) == (
        400,
        UNKNOWN + 'unknown field "spec.resourceClassName"',
    )


@pytest.fixture(scope="module")
def every_version() -> Iterator[Client]:
    """An administrator of a server with the older versions, too."""
    wanted = (("resource.k8s.io/v1beta1", True), ("resource.k8s.io/v1beta2", True))
    with EmbeddedCluster(ClusterSpec(control_plane=False, runtime_config=wanted)) as made:
        yield made.client()


@pytest.mark.seed("S002-03", "S002-38")
def test_only_v1_is_served_unless_asked_for(api: Client, every_version: Client) -> None:
    """Differs: v1beta1 was the version of the seed."""

    def served(client: Client) -> list[str]:
        return [entry["version"] for entry in client.request("GET", VERSIONS)["versions"]]

    assert served(api) == ["v1"]
    assert served(every_version) == ["v1", "v1beta2", "v1beta1"]
    assert resources(every_version, "resource.k8s.io/v1beta1") == {
        "deviceclasses",
        "resourceclaims",
        "resourceclaimtemplates",
        "resourceslices",
    }


@pytest.mark.seed("S002-06")
def test_each_request_and_each_alternative_names_a_class(api: Client) -> None:
    """Differs in part: a request with alternatives may name up to eight."""
    code, text = refused(api, claim(requests=[{"name": "r", "exactly": {}}]))
    assert code == 422
    assert text.endswith("spec.devices.requests[0].exactly.deviceClassName: Required value")

    def alternatives(count: int) -> dict[str, Any]:
        entries = [{"name": f"s{number}", "deviceClassName": f"class-{number}"} for number in range(count)]
        return claim(requests=[{"name": "r", "firstAvailable": entries}])

    assert send(api, alternatives(8), namespace="default")["spec"]["devices"]["requests"]
    code, text = refused(api, alternatives(9))
    assert code == 422
    assert "spec.devices.requests[0].firstAvailable: Too many: 9: must have at most 8 items" in text
    missing = {"name": "r", "firstAvailable": [{"name": "s"}]}
    code, text = refused(api, claim(requests=[missing]))
    assert code == 422
    assert text.endswith("spec.devices.requests[0].firstAvailable[0].deviceClassName: Required value")


@pytest.mark.seed("S002-09")
def test_the_api_server_only_looks_at_the_form_of_parameters(api: Client) -> None:
    def configured(parameters: Any) -> dict[str, Any]:
        config = {"opaque": {"driver": NVIDIA, "parameters": parameters}}
        return claim(requests=[manifests.request(CLASS)], config=[config])

    path = "spec.devices.config[0].opaque.parameters"
    anything = {"anything": {"goes": [1, 2]}}
    stored = send(api, configured(anything), namespace="default")
    assert stored["spec"]["devices"]["config"][0]["opaque"]["parameters"] == anything
    for wrong in ("text", [1]):
        code, text = refused(api, configured(wrong))
        assert code == 422
        assert f'{path}: Invalid value: "<value omitted>": must be a valid JSON object' in text
    # {"k":"..."} has 8 characters beside the value: 10240 are the limit.
    assert send(api, configured({"k": "x" * 10232}), namespace="default")
    code, text = refused(api, configured({"k": "x" * 10233}))
    assert code == 422
    assert f"{path}: Too long: may not be more than 10240 bytes" in text


@pytest.mark.seed("S002-18")
def test_devices_are_the_only_kind_of_resource(api: Client) -> None:
    schemas = api.request("GET", f"/openapi/v3/apis/{DRA}")["components"]["schemas"]
    assert set(schemas["io.k8s.api.resource.v1.ResourceClaimSpec"]["properties"]) == {"devices"}
    code, text = refused(api, {**claim(), "spec": {"volumes": {}}})
    assert (code, text.rsplit(": ", 1)[1]) == (400, 'unknown field "spec.volumes"')


@pytest.mark.seed("S002-26")
def test_alternatives_have_no_admin_access(api: Client) -> None:
    """Differs in part: admin access belongs to `exactly` alone."""
    entry = {"name": "s", "deviceClassName": CLASS, "adminAccess": True}
    assert refused(api, claim(requests=[{"name": "r", "firstAvailable": [entry]}])) == (
        400,
        UNKNOWN + 'unknown field "spec.devices.requests[0].firstAvailable[0].adminAccess"',
    )


@pytest.mark.seed("S002-35")
def test_a_driver_reports_about_allocated_devices_only(world: World) -> None:
    name = world.device_class("class", "small.example.com")
    world.slice_of("small.example.com", "dev")
    world.claim("one", manifests.request(name))
    world.pod("user", claims={"device": "one"})
    assert world.devices("one") == ["dev"]
    pool = world.results("one")[0]["pool"]
    report = {"driver": "small.example.com", "pool": pool, "device": "other", "conditions": []}
    code, text = refusal(
        lambda: world.patch("ResourceClaim", "one", {"status": {"devices": [report]}}, "status")
    )
    assert code == 422
    assert text == (
        'ResourceClaim.resource.k8s.io "one" is invalid: status.devices[0]: Invalid value: '
        f'{{"Driver":"small.example.com","Pool":"{pool}","Device":"other","ShareID":""}}: must be an allocated '
        "device in the claim"
    )


@pytest.mark.seed("S002-37")
def test_what_a_driver_needs_to_report(world: World) -> None:
    """Differs in part: beside claims/status, a verb on `resourceclaims/driver` with the name of the driver."""
    driver, space = "small.example.com", world.namespace
    name = world.device_class("class", driver)
    world.slice_of(driver, "dev")
    world.claim("one", manifests.request(name))
    world.pod("user", claims={"device": "one"})
    assert world.devices("one") == ["dev"]
    report = {"driver": driver, "pool": world.results("one")[0]["pool"], "device": "dev", "conditions": []}
    bob = impersonate(world.client, "bob")
    path = f"/apis/{DRA}/namespaces/{space}/resourceclaims/one/status"

    def report_as_bob() -> Any:
        body = {"status": {"devices": [report]}}
        return request(bob, "PATCH", path, body, content_type="application/merge-patch+json")

    def grant(role: str, rule: dict[str, Any]) -> None:
        rbac = "rbac.authorization.k8s.io"
        world.create(_rbac("Role", role, rules=[rule]))
        subject = {"kind": "User", "apiGroup": rbac, "name": "bob"}
        reference = {"apiGroup": rbac, "kind": "Role", "name": role}
        world.create(_rbac("RoleBinding", role, subjects=[subject], roleRef=reference))

    code, text = refusal(report_as_bob)
    assert code == 403
    assert text == (
        'resourceclaims.resource.k8s.io "one" is forbidden: User "bob" cannot patch resource '
        f'"resourceclaims/status" in API group "resource.k8s.io" in the namespace "{space}"'
    )
    groups = {"apiGroups": ["resource.k8s.io"]}
    grant("status", {**groups, "resources": ["resourceclaims/status"], "verbs": ["patch"]})
    code, text = refusal(report_as_bob)
    assert code == 422
    assert (
        'status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver"' in text
    )
    verb = {
        "resources": ["resourceclaims/driver"],
        "resourceNames": [driver],
        "verbs": ["arbitrary-node:patch"],
    }
    grant("driver", {**groups, **verb})
    assert report_as_bob()["status"]["devices"][0]["device"] == "dev"


def _rbac(kind: str, name: str, **content: Any) -> dict[str, Any]:
    version = "rbac.authorization.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **content}


@pytest.mark.seed("S002-40", "S002-41")
def test_device_classes_are_a_probe_for_dra(api: Client) -> None:
    """kubectl's words are tested with kubectl."""
    nothing = {"fieldSelector": "metadata.name=nobody-has-made-this"}
    listed = api.request("GET", f"/apis/{DRA}/deviceclasses", query=nothing)
    assert (listed["kind"], listed["items"]) == ("DeviceClassList", [])
    spec = ClusterSpec(control_plane=False, runtime_config=(("resource.k8s.io/v1", False),))
    with EmbeddedCluster(spec) as without:
        assert refusal(lambda: without.client().request("GET", f"/apis/{DRA}/deviceclasses"))[0] == 404
        groups = without.client().request("GET", "/apis")["groups"]
        assert "resource.k8s.io" not in [group["name"] for group in groups]


@pytest.mark.seed("S002-38", "S002-39")
def test_a_default_server_keeps_what_the_seed_needs_gates_for(api: Client) -> None:
    """Outdated: there is nothing to do."""
    stored = send(api, only("cats-claim-template"), namespace="default")
    assert stored["spec"]["spec"]["devices"]["requests"][0]["exactly"]["selectors"]
    assert "resourceclaims/status" in {
        entry["name"] for entry in api.request("GET", f"/apis/{DRA}")["resources"]
    }
