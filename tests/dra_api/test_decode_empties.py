from __future__ import annotations

from typing import Any

from dra_api.decode import as_json, as_stored, decode_object
from dra_api.schema import GVK

SLICE = GVK("resource.k8s.io", "v1", "ResourceSlice")


def decoded(body: dict[str, Any], gvk: GVK) -> dict[str, Any]:
    return decode_object(body, gvk).object


def test_decoding_keeps_what_is_empty_on_purpose() -> None:
    device = {"name": "d", "attributes": {"a": {"ints": []}}, "taints": None}
    spec = decoded({"spec": {"devices": [device], "sharedCounters": []}}, SLICE)["spec"]
    assert spec["sharedCounters"] == []
    assert spec["devices"] == [{"name": "d", "attributes": {"a": {"ints": []}}}]


def test_json_leaves_out_optional_empty_lists_and_maps_at_every_depth() -> None:
    device = {"name": "d", "attributes": {"a": {"ints": []}}, "capacity": {}}
    obj = decoded({"metadata": {"labels": {}}, "spec": {"devices": [device], "sharedCounters": []}}, SLICE)
    shown = as_json(obj)
    assert shown["metadata"] == {}
    # The attribute stays: Go's maps have no omitempty for their values.
    assert shown["spec"]["devices"] == [{"name": "d", "attributes": {"a": {}}}]
    assert "sharedCounters" not in shown["spec"]
    assert obj["metadata"] == {"labels": {}}, "the argument is left alone"


def test_required_lists_are_empty_in_json_and_null_from_storage() -> None:
    role = decoded({"rules": []}, GVK("rbac.authorization.k8s.io", "v1", "Role"))
    assert as_json(role)["rules"] == []
    assert as_stored(role)["rules"] is None


def test_empty_structs_and_opaque_values_stay() -> None:
    volume = {"name": "v", "emptyDir": {}}
    pod = decoded({"spec": {"containers": [{"name": "c"}], "volumes": [volume]}}, GVK("", "v1", "Pod"))
    assert as_stored(pod) is pod
    parameters = {"list": [], "map": {}}
    config = {"opaque": {"driver": "d.example.com", "parameters": parameters}}
    claim = decoded({"spec": {"devices": {"config": [config]}}}, SLICE._replace(kind="ResourceClaim"))
    assert as_stored(claim)["spec"]["devices"]["config"][0]["opaque"]["parameters"] == parameters


def test_an_object_without_anything_empty_is_returned_itself() -> None:
    obj = decoded({"metadata": {"name": "n", "labels": {"a": "b"}}}, GVK("", "v1", "ConfigMap"))
    assert as_json(obj) is obj


def test_kinds_without_a_schema_are_left_alone() -> None:
    obj = {"apiVersion": "example.com/v1", "kind": "Thing", "spec": []}
    assert as_stored(obj) is obj
