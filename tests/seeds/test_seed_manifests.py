"""Manifests of the seeds as they are written, and the answers of the API server; the corrected forms run."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from seeds_kit import (
    CATS,
    CATS_NODE,
    DRA,
    GPU_NODE,
    GPUS,
    PLAIN_NODE,
    World,
    eventually,
    load,
    only,
    refusal,
    request,
    send,
    text_of,
)

from clusters.client import Client
from clusters.embedded.cluster import EmbeddedCluster
from clusters.embedded.scheduler.config import ConfigError, check_standalone, load_config
from clusters.interface import ClusterSpec

CATS_TEMPLATE = "large-black-cat-claim-template"


def make_namespace(client: Client, name: str, **labels: str) -> str:
    """A namespace on a server without controllers."""
    meta = {"name": name, "labels": {key.replace("__", "/"): value for key, value in labels.items()}}
    send(client, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    return name


def message(refused: tuple[int, str], code: int) -> str:
    """The message of a refusal with this code."""
    assert refused[0] == code, refused
    return refused[1]


# Seed 000


@pytest.mark.seed("M01")
def test_pinned_pod_as_written_is_no_yaml_and_the_corrected_one_runs_on_its_node(world: World) -> None:
    with pytest.raises(yaml.YAMLError):
        load("cats-pinned-pod.as-written")
    world.driver(CATS, CATS_NODE)
    world.submit("cats-slice", "cats-device-class", "cats-claim-template", "cats-pinned-pod")
    pod = world.phase("pod-with-cats")
    assert pod["spec"]["nodeName"] == CATS_NODE
    assert world.devices(world.generated("pod-with-cats", "cat-0")) == ["cat-a"]


@pytest.mark.seed("M01")
def test_a_pod_without_containers_is_invalid(api: Client) -> None:
    text = text_of("cats-pinned-pod.as-written").replace("  ...\n", "")
    refused = refusal(lambda: send(api, yaml.safe_load(text), namespace="default"))
    assert refused == (
        422,
        'Pod "pod-with-cats" is invalid: spec.containers: Required value',
    )


@pytest.mark.seed("M02")
def test_scheduler_configuration_as_written_has_the_right_arguments_but_no_connection() -> None:
    written = text_of("scheduler-binding-timeout.as-written")
    with pytest.raises(ConfigError) as caught:
        check_standalone(written)
    assert str(caught.value) == (
        "invalid configuration: no configuration has been provided, "
        "try setting KUBERNETES_MASTER environment variable"
    )
    check_standalone(written, in_cluster=True)
    check_standalone(text_of("scheduler-binding-timeout"))
    for text in (written, text_of("scheduler-binding-timeout")):
        (profile,) = load_config(text).profiles
        assert (profile.binding_timeout, profile.filter_timeout) == (60.0, 10.0)


@pytest.mark.seed("M02")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("500ms", '{at}: Invalid value: "500ms": must be at least 1 second'),
        ("0s", '{at}: Invalid value: "0s": must be at least 1 second'),
        ("-5s", '{at}: Invalid value: "-5s": must be at least 1 second'),
        ("abc", 'decoding args for plugin DynamicResources: time: invalid duration "abc"'),
    ],
)
def test_binding_timeouts_that_cannot_be(value: str, text: str) -> None:
    written = text_of("scheduler-binding-timeout").replace("60s", value)
    with pytest.raises(ConfigError) as caught:
        load_config(written)
    assert text.format(at="profiles[0].pluginConfig[0].args.bindingTimeout") in str(caught.value)


@pytest.mark.seed("M02")
def test_binding_timeout_needs_binding_conditions() -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(text_of("scheduler-binding-timeout"), {"DRADeviceBindingConditions": False})
    assert str(caught.value) == (
        "profiles[0].pluginConfig[0].args.bindingTimeout: Forbidden: DRADeviceBindingConditions or "
        "DRAResourceClaimDeviceStatus feature gate is disabled"
    )


# Seed 001


@pytest.mark.seed("M06", "S001-12")
def test_device_class_as_written_has_a_version_that_is_not_served_by_default(
    api: Client, beta: Client
) -> None:
    """Differs: v1beta1 was right for the version of the seed."""
    written = only("gpu-device-class.as-written")
    code, _ = refusal(lambda: send(api, written))
    assert code == 404
    sent = send(beta, written)
    assert sent.warnings == (
        "resource.k8s.io/v1beta1 DeviceClass is deprecated in v1.35+, unavailable in v1.38+",
    )
    stored = beta.get(DRA, "deviceclasses", GPUS)
    assert stored["apiVersion"] == DRA
    assert stored["spec"] == only("gpu-device-class")["spec"] == written["spec"]


@pytest.mark.seed("M06")
def test_device_class_corrected(world: World) -> None:
    (stored,) = world.submit("gpu-device-class")
    assert (stored["metadata"]["name"], stored.warnings) == (GPUS, ())


@pytest.mark.seed("M07", "S001-15", "S001-16", "S001-17")
def test_gpu_slice_as_written_and_what_comes_next_when_one_mistake_is_repaired(api: Client) -> None:
    """Differs: integers are numbers, a pool counts its slices, capacity is part of a device."""
    slice_ = only("gpu-slice.as-written")
    assert message(refusal(lambda: send(api, slice_)), 400) == (
        'ResourceSlice in version "v1" cannot be handled as a ResourceSlice: json: cannot unmarshal string into Go '
        "struct field DeviceAttribute.spec.devices.attributes.int of type int64"
    )
    for device in slice_["spec"]["devices"]:
        for name in ("index", "topo"):
            device["attributes"][name]["int"] = int(device["attributes"][name]["int"])
    assert message(refusal(lambda: send(api, slice_)), 400) == (
        'ResourceSlice in version "v1" cannot be handled as a ResourceSlice: strict decoding error: '
        'unknown field "spec.capacity"'
    )
    # With --validate=warn the field is a warning, and validation has the word.
    no_count = (
        'ResourceSlice.resource.k8s.io "gpu-slice" is invalid: spec.pool.resourceSliceCount: Invalid value: 0: '
        "must be greater than zero"
    )
    assert message(refusal(lambda: send(api, slice_, validate="Warn")), 422) == no_count
    capacity = slice_["spec"].pop("capacity")
    assert message(refusal(lambda: send(api, slice_)), 422) == no_count
    slice_["spec"]["pool"]["resourceSliceCount"] = 1
    for device in slice_["spec"]["devices"]:
        device["capacity"] = copy.deepcopy(capacity)
    assert slice_ == only("gpu-slice")
    stored = send(api, slice_)
    assert stored["spec"]["pool"] == {"name": "gpu-pool", "generation": 0, "resourceSliceCount": 1}


@pytest.mark.seed("M07")
def test_an_unknown_field_is_a_warning_when_kubectl_only_warns(api: Client) -> None:
    slice_ = only("gpu-slice")
    slice_["metadata"]["name"] = "gpu-slice-2"
    slice_["spec"]["capacity"] = {"memory": {"value": "80Gi"}}
    assert send(api, slice_, validate="Warn").warnings == ('unknown field "spec.capacity"',)


_TOPO = (
    "spec.devices.requests[{index}].exactly.selectors[0].cel.expression: Invalid value: "
    '"device.attributes[\\"topo\\"] == \\"0\\"": compilation failed: ERROR: <input>:1:27: found no matching overload '
    "for '_==_' applied to '(map(string, {value}), string)'\n | device.attributes[\"topo\"] == \"0\"\n"
    " | ..........................^"
)


def _topo_refusal(value: str) -> str:
    """Both requests are refused; `value` is the type of an attribute."""
    texts = [_TOPO.format(index=index, value=value) for index in (0, 1)]
    return f'ResourceClaim.resource.k8s.io "gpu-claim" is invalid: [{texts[0]}, {texts[1]}]'


@pytest.mark.seed("M08", "S001-20")
def test_the_refusal_of_the_topology_claim_names_another_type_with_attributes_of_lists() -> None:
    spec = ClusterSpec(control_plane=False, gates=(("DRAListTypeAttributes", True),))
    with EmbeddedCluster(spec) as cluster:
        make_namespace(cluster.client(), "gpu-claim")
        refused = refusal(lambda: send(cluster.client(), only("topo-gpu-claim.as-written")))
    assert refused == (422, _topo_refusal("dyn"))


@pytest.mark.seed("M08", "S001-20")
def test_topology_claim_as_written_needs_its_namespace_and_another_selector(world: World) -> None:
    """Differs: an attribute is looked up in its domain, and an integer is compared with a number."""
    claim = only("topo-gpu-claim.as-written")
    assert world.refused(claim) == (404, 'namespaces "gpu-claim" not found')
    world.make_namespace("gpu-claim")
    assert world.refused(claim) == (422, _topo_refusal("any"))
    # The right domain, and still a text instead of a number: it compiles and never matches.
    for entry in claim["spec"]["devices"]["requests"]:
        entry["exactly"]["selectors"][0]["cel"]["expression"] = (
            'device.attributes["gpu.example.com"].topo == "0"'
        )
    world.create(claim)
    world.submit("gpu-device-class", "gpu-slice", "topo-gpu-pod")
    condition = world.unschedulable("pod0", "gpu-claim")
    assert condition["reason"] == "Unschedulable"
    assert "3 cannot allocate all claims." in condition["message"]


@pytest.mark.seed("M08", "M09", "S001-22", "S001-24")
def test_topology_claim_corrected_gives_its_pod_two_gpus(world: World) -> None:
    world.driver(GPUS)
    world.submit("gpu-device-class", "gpu-slice", "topo-gpu-claim", "topo-gpu-pod")
    assert world.phase("pod0", namespace="gpu-claim")["spec"]["nodeName"] == PLAIN_NODE
    results = world.results("gpu-claim", "gpu-claim")
    assert [(result["request"], result["device"]) for result in results] == [
        ("primary-gpu", "gpu-0"),
        ("secondary-gpu", "gpu-1"),
    ]
    # `export` of the container prints what the driver's CDI edits put into its environment.
    world.logged("pod0", 'declare -x claim_gpu_claim_primary_gpu="true"', namespace="gpu-claim")


@pytest.mark.seed("M09")
def test_topology_pod_as_written_is_accepted_once_its_namespace_is_there(world: World) -> None:
    """Differs in part: the Pod is right, its namespace is missing."""
    pod = only("topo-gpu-pod")
    assert world.refused(pod) == (404, 'namespaces "gpu-claim" not found')
    world.make_namespace("gpu-claim")
    assert world.create(pod)["status"]["phase"] == "Pending"


# Seed 002


@pytest.mark.seed("M10", "S002-16")
def test_the_cats_block_as_written_breaks_at_its_second_separator(api: Client, beta: Client) -> None:
    """Differs: the separator starts with an en dash, so template and Pod are never read."""
    text = text_of("cats-all.as-written")
    first, rest = text.split("\n---\n")
    assert refusal(lambda: send(api, yaml.safe_load(first)))[0] == 404
    assert refusal(lambda: send(beta, yaml.safe_load(first)))[0] == 400
    with pytest.raises(yaml.YAMLError):
        list(yaml.safe_load_all(rest))


@pytest.mark.seed("M10", "M13", "S002-13", "S002-14")
def test_the_cats_block_corrected_gives_a_pod_two_cats(world: World) -> None:
    world.driver(CATS, CATS_NODE)
    world.submit("cats-slice", "cats-all")
    assert world.phase("pod-with-cats")["spec"]["nodeName"] == CATS_NODE
    claims = [world.generated("pod-with-cats", name) for name in ("cat-0", "cat-1")]
    for claim, name in zip(claims, ("cat-0", "cat-1"), strict=True):
        assert claim.startswith(f"pod-with-cats-{name}-") and len(claim) == len(f"pod-with-cats-{name}-") + 5
    assert sorted(device for claim in claims for device in world.devices(claim)) == ["cat-a", "cat-c"]


@pytest.mark.seed("M11", "S002-16")
def test_cats_class_as_written_has_its_name_in_the_wrong_place(api: Client, beta: Client) -> None:
    """Differs: the name belongs to metadata; v1beta1 is not served by default."""
    written = only("cats-device-class.as-written")
    assert refusal(lambda: send(api, written))[0] == 404
    assert message(refusal(lambda: send(beta, written)), 400) == (
        'DeviceClass in version "v1beta1" cannot be handled as a DeviceClass: strict decoding error: '
        'unknown field "name"'
    )
    assert message(refusal(lambda: send(beta, written, validate="Ignore")), 422) == (
        'DeviceClass.resource.k8s.io "" is invalid: metadata.name: Required value: name or generateName is required'
    )


@pytest.mark.seed("M11")
def test_cats_class_corrected(world: World) -> None:
    (stored,) = world.submit("cats-device-class")
    assert stored["metadata"]["name"] == "resource.example.com"


@pytest.mark.seed("M12", "S002-15")
def test_cats_template_as_written_is_converted_where_v1beta1_is_served(api: Client, beta: Client) -> None:
    """Differs: v1 wants what a request says below `exactly`; the server converts the older form."""
    written = only("cats-claim-template.as-written")
    assert refusal(lambda: send(api, written, namespace="default"))[0] == 404
    sent = send(beta, written, namespace="default")
    assert sent.warnings == (
        "resource.k8s.io/v1beta1 ResourceClaimTemplate is deprecated in v1.35+, unavailable in v1.38+",
    )
    assert "exactly" not in sent["spec"]["spec"]["devices"]["requests"][0]
    (entry,) = beta.get(DRA, "resourceclaimtemplates", CATS_TEMPLATE, "default")["spec"]["spec"]["devices"][
        "requests"
    ]
    (wanted,) = only("cats-claim-template")["spec"]["spec"]["devices"]["requests"]
    # The seed has blanks at the end of its expression.
    cel = entry["exactly"]["selectors"][0]["cel"]
    cel["expression"] = cel["expression"].rstrip()
    assert entry == {
        "name": "req-0",
        "exactly": {**wanted["exactly"], "allocationMode": "ExactCount", "count": 1},
    }


@pytest.mark.seed("M12")
def test_cats_template_in_the_flat_form_is_refused_as_v1(api: Client) -> None:
    flat = {**only("cats-claim-template.as-written"), "apiVersion": DRA}
    text = message(refusal(lambda: send(api, flat, namespace="default")), 400)
    assert text == (
        'ResourceClaimTemplate in version "v1" cannot be handled as a ResourceClaimTemplate: strict decoding error: '
        'unknown field "spec.spec.devices.requests[0].deviceClassName", '
        'unknown field "spec.spec.devices.requests[0].selectors"'
    )


@pytest.mark.seed("M13")
def test_cats_pod_is_accepted_as_written(api: Client, world: World) -> None:
    (stored,) = world.submit("cats-pod")
    assert stored["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


_ADMIN = (
    "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the "
    "`resource.kubernetes.io/admin-access: true` label on the containing namespace"
)


@pytest.mark.seed("M14", "S002-29", "S002-30")
@pytest.mark.parametrize("value", ["", "yes", "true"])
def test_admin_access_template_needs_a_label_of_its_namespace(beta: Client, value: str) -> None:
    """Differs: the gate is locked, and no policy is needed; the label is built in and must be `true`."""
    labels = {"resource.kubernetes.io__admin-access": value} if value else {}
    namespace = make_namespace(beta, f"admins-{value or 'none'}", **labels)
    old = only("admin-access-claim-template.as-written")
    new = load("admin-access-claim-template")[1]
    del new["metadata"]["namespace"]
    for number, document in enumerate((old, new)):
        document["metadata"]["name"] = f"t{number}"
        if value == "true":
            send(beta, document, namespace=namespace)
        else:
            text = f'ResourceClaimTemplate.resource.k8s.io "t{number}" is invalid: {_ADMIN}'
            assert refusal(lambda: send(beta, document, namespace=namespace)) == (422, text)  # noqa: B023


@pytest.mark.seed("M14", "S002-38")
def test_admin_access_template_corrected_runs_with_default_settings(world: World) -> None:
    stored = world.submit("admin-access-claim-template")[1]
    (entry,) = stored["spec"]["spec"]["devices"]["requests"]
    assert entry["exactly"]["adminAccess"] is True


# Seed 004


@pytest.mark.seed("M19")
def test_nvidia_slice_as_listed_has_a_masked_name(api: Client) -> None:
    """Differs: the listing is masked, and a name must be a DNS subdomain."""
    (item,) = only("nvidia-gpu-slice.as-written")["items"]
    del item["metadata"]["resourceVersion"]  # kubectl create does so
    text = message(refusal(lambda: send(api, item)), 422)
    assert text.startswith(
        'ResourceSlice.resource.k8s.io "192.168.2.8-gpu.nvidia.com-t***" is invalid: metadata.name: Invalid value: '
        '"192.168.2.8-gpu.nvidia.com-t***": a lowercase RFC 1123 subdomain must consist of '
    )


@pytest.mark.seed("M19")
def test_an_object_to_create_has_no_resource_version(api: Client) -> None:
    (item,) = only("nvidia-gpu-slice.as-written")["items"]
    item["metadata"]["name"] = "192.168.2.8-gpu.nvidia.com-t1234"
    assert refusal(lambda: send(api, item)) == (
        500,
        "resourceVersion should not be set on objects to be created",
    )


@pytest.mark.seed("M19", "S004-16")
def test_nvidia_slice_with_the_uid_of_another_node_is_collected(world: World) -> None:
    (item,) = only("nvidia-gpu-slice.as-written")["items"]
    meta = item["metadata"]
    name = meta["name"] = "192.168.2.8-gpu.nvidia.com-t1234"
    meta["ownerReferences"][0]["uid"] = "e62793a4-d8fe-4a11-bd56-60e000000000"
    uid = meta["uid"] = "db0ea1ae-9f6d-43d5-8ee7-7f23f0000000"
    meta["generation"] = 7
    del meta["resourceVersion"]
    stored = world.create(item)
    # The server counts generations and gives UIDs.
    assert stored["metadata"]["generation"] == 1
    assert stored["metadata"]["uid"] != uid
    world.gone("ResourceSlice", name)


@pytest.mark.seed("M19")
def test_nvidia_slice_corrected_stays_and_its_device_is_allocated(world: World) -> None:
    (stored,) = world.submit("nvidia-gpu-slice")
    assert stored["metadata"]["name"].startswith("192.168.2.8-gpu.nvidia.com-")
    listed = only("nvidia-gpu-slice.as-written")["items"][0]["spec"]
    listed["devices"][0]["attributes"]["uuid"]["string"] = "GPU-c8133a35-9d03-a6b2-31dd-260000000000"
    assert stored["spec"] == listed
    world.submit("nvidia-device-classes", "single-gpu-claim-template")
    world.pod("user", templates={"gpu": "single-gpu"})
    result = world.results(world.generated("user", "gpu"))[0]
    assert (result["pool"], result["device"]) == (GPU_NODE, "gpu-0")


@pytest.mark.seed("M20", "M21")
def test_template_and_deployment_of_seed_004_are_accepted_as_written(world: World) -> None:
    template, deployment = world.submit("single-gpu-claim-template", "single-gpu-deployment")
    assert template["spec"]["spec"] == only("single-gpu-claim-template")["spec"]["spec"]
    assert template.warnings == deployment.warnings == ()

    def pod() -> Any:
        return [found for found in world.all_of("Pod") if found["metadata"].get("labels") == _labels(found)]

    (made,) = eventually(pod, "the Deployment has a Pod")
    assert made["spec"]["containers"][0]["resources"] == {"claims": [{"name": "gpu"}]}
    assert made["spec"]["terminationGracePeriodSeconds"] == 3


def _labels(pod: dict[str, Any]) -> dict[str, str]:
    """The labels of the Deployment's Pods; its ReplicaSet adds a hash."""
    return {"app": "gpu-test", "pod-template-hash": pod["metadata"]["labels"]["pod-template-hash"]}


@pytest.mark.seed("M20", "S004-23")
def test_a_template_does_not_change(world: World) -> None:
    world.submit("single-gpu-claim-template")
    code, text = refusal(
        lambda: request(
            world.client,
            "PATCH",
            f"/apis/{DRA}/namespaces/{world.namespace}/resourceclaimtemplates/single-gpu",
            {"spec": {"spec": {"devices": {"requests": None}}}},
            content_type="application/merge-patch+json",
        )
    )
    assert code == 422
    assert text.startswith(
        'ResourceClaimTemplate.resource.k8s.io "single-gpu" is invalid: spec: Invalid value: {'
    )
    assert text.endswith(": field is immutable")
