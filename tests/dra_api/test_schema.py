from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from dra_api.schema import GVK, Field, Message, load

ROOT = Path(__file__).parents[2]


def message(api_version: str, kind: str) -> Message:
    found = load().kind(GVK.of(api_version, kind))
    assert found is not None
    return found


def field(start: str, path: str) -> Field:
    """The field at a dotted path below a message name."""
    current = load().message(start)
    *outer, last = path.split(".")
    for name in outer:
        current = current.fields[name].message
    return current.fields[last]


def test_gvk_is_split_and_joined() -> None:
    assert GVK.of("v1", "Pod") == ("", "v1", "Pod")
    assert GVK.of("resource.k8s.io/v1", "ResourceSlice") == ("resource.k8s.io", "v1", "ResourceSlice")
    assert GVK("", "v1", "Pod").api_version == "v1"
    assert GVK("apps", "v1", "Deployment").api_version == "apps/v1"
    assert str(GVK("apps", "v1", "Deployment")) == "apps/v1, Kind=Deployment"


def test_object_meta_has_the_wire_numbers_of_the_protocol() -> None:
    numbers = {name: item.number for name, item in load().message("meta/v1.ObjectMeta").fields.items()}
    assert numbers == {
        "name": 1,
        "generateName": 2,
        "namespace": 3,
        "selfLink": 4,
        "uid": 5,
        "resourceVersion": 6,
        "generation": 7,
        "creationTimestamp": 8,
        "deletionTimestamp": 9,
        "deletionGracePeriodSeconds": 10,
        "labels": 11,
        "annotations": 12,
        "ownerReferences": 13,
        "finalizers": 14,
        "managedFields": 17,
    }


def test_every_kind_and_everything_below_it_is_described() -> None:
    seen: set[str] = set()

    def visit(current: Message) -> None:
        if current.name in seen:
            return
        seen.add(current.name)
        assert len(current.by_number) == len([member for member in current.members if member.number])
        for item in current.fields.values():
            if item.type == "message":
                visit(item.message)

    kinds = list(load().kinds())
    for gvk in kinds:
        visit(message(gvk.api_version, gvk.kind))
    assert {"ResourceSlice", "ResourceClaim", "Pod", "Lease", "TokenReview", "Deployment"} <= {
        gvk.kind for gvk in kinds
    }


@pytest.mark.parametrize(
    ("version", "kinds"),
    [
        ("v1", {"DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"}),
        (
            "v1beta2",
            {"DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"},
        ),
        ("v1beta1", {"DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"}),
        ("v1alpha3", {"DeviceTaintRule", "ResourcePoolStatusRequest"}),
    ],
)
def test_resource_group_has_its_kinds_per_version(version: str, kinds: set[str]) -> None:
    found = {gvk.kind for gvk in load().kinds("resource.k8s.io") if gvk.version == version}
    assert found == kinds


def test_kind_of_another_version_is_unknown() -> None:
    assert load().kind(GVK("resource.k8s.io", "v1alpha3", "ResourceClaim")) is None
    assert load().kind(GVK("nowhere.example.com", "v1", "Pod")) is None


def test_list_kind_is_derived_from_its_item() -> None:
    found = message("resource.k8s.io/v1", "ResourceSliceList")
    assert {name: item.number for name, item in found.fields.items()} == {
        "kind": 0,
        "apiVersion": 0,
        "metadata": 1,
        "items": 2,
    }
    assert found.fields["items"].message.name == "resource/v1.ResourceSlice"
    assert found.fields["items"].repeated


def test_options_are_known_in_every_group_and_status_only_in_core() -> None:
    options = message("v1", "DeleteOptions")
    assert message("resource.k8s.io/v1", "DeleteOptions") is options
    assert {name: item.number for name, item in options.fields.items() if item.number} == {
        "gracePeriodSeconds": 1,
        "preconditions": 2,
        "orphanDependents": 3,
        "propagationPolicy": 4,
        "dryRun": 5,
        "ignoreStoreReadErrorWithClusterBreakingPotential": 6,
    }
    assert message("v1", "Status").fields["code"].number == 6
    assert load().kind(GVK("apps", "v1", "Status")) is None


def test_inlined_struct_is_flat_in_json_and_nested_on_the_wire() -> None:
    volume = load().message("core/v1.Volume")
    assert {"name", "emptyDir", "hostPath"} <= set(volume.fields)
    assert [(member.name, member.number, member.inline) for member in volume.members] == [
        ("name", 1, False),
        ("VolumeSource", 2, True),
    ]


@pytest.mark.parametrize(
    ("start", "path", "list_type", "keys"),
    [
        ("core/v1.PodSpec", "containers", "map", ("name",)),
        ("core/v1.PodSpec", "containers.ports", "map", ("containerPort", "protocol")),
        ("core/v1.PodSpec", "topologySpreadConstraints", "map", ("topologyKey", "whenUnsatisfiable")),
        ("core/v1.PodSpec", "tolerations", "atomic", ()),
        ("core/v1.PodStatus", "hostIPs", "atomic", ()),
        ("core/v1.PodStatus", "podIPs", "map", ("ip",)),
        ("core/v1.PodStatus", "containerStatuses", "atomic", ()),
        ("meta/v1.ObjectMeta", "finalizers", "set", ()),
        ("meta/v1.ObjectMeta", "ownerReferences", "map", ("uid",)),
        ("resource/v1.ResourceClaimStatus", "devices", "map", ("driver", "device", "pool", "shareID")),
        ("resource/v1.ResourceClaimStatus", "devices.conditions", "map", ("type",)),
        ("resource/v1.ResourceClaimStatus", "reservedFor", "map", ("uid",)),
        ("resource/v1.ResourceSliceSpec", "devices", "atomic", ()),
        ("batch/v1.JobStatus", "conditions", "atomic", ()),
    ],
)
def test_lists_merge_by_the_keys_of_server_side_apply(
    start: str, path: str, list_type: str, keys: tuple[str, ...]
) -> None:
    found = field(start, path)
    assert (found.list_type, found.list_keys) == (list_type, keys)


@pytest.mark.parametrize(
    ("start", "path", "strategy", "key"),
    [
        ("core/v1.PodSpec", "volumes", ("merge", "retainKeys"), "name"),
        ("core/v1.PodSpec", "resourceClaims", ("merge", "retainKeys"), "name"),
        ("core/v1.PodSpec", "containers.ports", ("merge",), "containerPort"),
        ("core/v1.PodStatus", "hostIPs", ("merge",), "ip"),
        ("meta/v1.ObjectMeta", "finalizers", ("merge",), ""),
        ("apps/v1.DeploymentSpec", "strategy", ("retainKeys",), ""),
        ("resource/v1.ResourceClaimStatus", "reservedFor", ("merge",), "uid"),
        ("resource/v1.ResourceClaimStatus", "devices", (), ""),
    ],
)
def test_strategic_merge_rules(start: str, path: str, strategy: tuple[str, ...], key: str) -> None:
    found = field(start, path)
    assert (found.patch_strategy, found.patch_merge_key) == (strategy, key)


def test_maps_and_structs_that_are_owned_as_a_whole() -> None:
    assert field("core/v1.PodSpec", "nodeSelector").map_type == "atomic"
    assert field("core/v1.PodSpec", "containers.resources.limits").map_type == "granular"
    assert load().message("meta/v1.LabelSelector").atomic
    assert load().message("core/v1.ObjectReference").atomic
    assert not load().message("core/v1.PodSpec").atomic


def test_default_of_a_list_key_is_known() -> None:
    assert field("core/v1.Container", "ports.protocol").default == "TCP"
    assert field("resource/v1.ResourceClaimStatus", "devices.driver").default == ""
    assert field("resource/v1.ResourceClaimStatus", "devices.shareID").default is None


@pytest.mark.go
def test_data_files_are_what_the_generator_writes(tmp_path: Path) -> None:
    go = shutil.which("go")
    assert go is not None, "this test needs the Go toolchain"
    subprocess.run([go, "run", ".", str(tmp_path)], cwd=ROOT / "tools" / "schemagen", check=True)
    written = {path.name: path.read_text() for path in tmp_path.glob("*.json")}
    kept = {path.name: path.read_text() for path in (ROOT / "dra_api" / "schema").glob("*.json")}
    assert written == kept
