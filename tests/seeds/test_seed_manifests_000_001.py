"""Manifests of seeds 000 and 001 as written, and the answers of the API server; the corrected forms run."""

from __future__ import annotations

import copy
import time

import pytest
import yaml
from seeds_api import (
    CATS,
    CATS_NODE,
    DRA,
    GPUS,
    PLAIN_NODE,
    load,
    only,
    refusal,
    send,
    text_of,
)
from seeds_kit import World

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
    # Its trap ends it long before the 30 seconds that a Pod has by default.
    began = time.monotonic()
    world.delete("Pod", "pod0", "gpu-claim", grace=None)
    world.gone("Pod", "pod0", "gpu-claim")
    assert time.monotonic() - began < 25


@pytest.mark.seed("M09")
def test_topology_pod_as_written_is_accepted_once_its_namespace_is_there(world: World) -> None:
    """Differs in part: the Pod is right, its namespace is missing."""
    pod = only("topo-gpu-pod")
    assert world.refused(pod) == (404, 'namespaces "gpu-claim" not found')
    world.make_namespace("gpu-claim")
    assert world.create(pod)["status"]["phase"] == "Pending"
