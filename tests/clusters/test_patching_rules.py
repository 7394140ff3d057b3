"""JSON patch, merge patch and strategic merge patch by the rules of api-machinery section 8."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.embedded.apiserver.patching import (
    PatchError,
    json_patch,
    merge_patch,
    shape_of,
    strategic_merge,
)
from clusters.embedded.apiserver.patching.bodies import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    read_patch,
    unfit,
)
from dra_api.schema import GVK, load

REJECTED = "the server rejected our request due to an error in our request"


def strategic(kind: str, obj: dict[str, Any], patch: Any, group: str = "") -> dict[str, Any]:
    message = load().kind(GVK(group, "v1", kind))
    assert message is not None
    return strategic_merge(shape_of(message), obj, patch)


def test_replace_of_a_missing_key_adds_it_but_a_missing_parent_fails() -> None:
    assert json_patch({}, [{"op": "replace", "path": "/a", "value": 1}]) == {"a": 1}
    with pytest.raises(PatchError):
        json_patch({}, [{"op": "replace", "path": "/a/b", "value": 1}])


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": "2"},
        {"op": "test", "path": "/a", "value": 1},
        {"op": "remove", "path": "/z"},
        {"op": "jump", "path": "/a"},
        {"op": "add", "path": "/l/3", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "add", "value": 1},
    ],
)
def test_operations_that_do_not_apply_are_one_and_the_same_422(operation: dict[str, Any]) -> None:
    with pytest.raises(PatchError) as caught:
        json_patch({"a": "1", "l": [1, 2]}, [operation])
    status = caught.value.status()
    assert (status["code"], status["reason"], status["details"], status["message"]) == (
        422,
        "Invalid",
        {},
        REJECTED,
    )


def test_ten_thousand_operations_are_the_most() -> None:
    step = {"op": "test", "path": "/a", "value": 1}
    assert json_patch({"a": 1}, [step] * 10_000) == {"a": 1}
    with pytest.raises(PatchError) as caught:
        json_patch({"a": 1}, [step] * 10_001)
    assert caught.value.code == 413
    assert caught.value.message == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


def test_pointer_steps_are_unescaped_and_dash_appends() -> None:
    operations = [
        {"op": "add", "path": "/m/a~1b~0", "value": 1},
        {"op": "add", "path": "/l/-", "value": 3},
        {"op": "move", "from": "/l/0", "path": "/l/-1"},
    ]
    # The list is 1 2 3, without its first item 2 3; minus one of its three places is the end.
    assert json_patch({"m": {}, "l": [1, 2]}, operations) == {"m": {"a/b~": 1}, "l": [2, 3, 1]}


def test_merge_patch_removes_by_null_and_replaces_lists() -> None:
    live = {"a": {"b": 1, "c": 2}, "l": [1, 2], "s": "x"}
    patch = {"a": {"b": None, "d": {"e": None}}, "l": [3], "s": {"t": 1, "u": None}}
    assert merge_patch(live, patch) == {"a": {"c": 2, "d": {}}, "l": [3], "s": {"t": 1}}


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (None, "Invalid JSON Patch"),
        (
            [],
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
    ],
)
def test_merge_patch_must_be_an_object(patch: Any, message: str) -> None:
    with pytest.raises(PatchError) as caught:
        merge_patch({}, patch)
    assert (caught.value.code, caught.value.message) == (400, message)


def claim(*uids: str) -> dict[str, Any]:
    devices = [{"driver": "d", "pool": "p", "device": "a"}, {"driver": "d", "pool": "p", "device": "b"}]
    return {"status": {"reservedFor": [{"uid": uid, "name": uid} for uid in uids], "devices": devices}}


def reserved(obj: dict[str, Any]) -> str:
    return "".join(entry["uid"] for entry in obj["status"]["reservedFor"])


@pytest.mark.parametrize(
    ("entries", "left"),
    [
        ([{"uid": "c"}], "cab"),
        ([{"uid": "b", "name": "x"}], "ab"),
        ([{"uid": "a", "$patch": "delete"}], "b"),
        ([{"uid": "c"}, {"$patch": "replace"}], "c"),
        ([], "ab"),
    ],
)
def test_reserved_for_merges_by_uid_with_new_entries_in_front(entries: list[Any], left: str) -> None:
    patch = {"status": {"reservedFor": entries}}
    assert reserved(strategic("ResourceClaim", claim("a", "b"), patch, "resource.k8s.io")) == left


def test_device_status_is_replaced_as_a_whole() -> None:
    """Without a patch strategy a list is one value."""
    patch = {"status": {"devices": [{"driver": "d", "pool": "p", "device": "c"}]}}
    result = strategic("ResourceClaim", claim("a"), patch, "resource.k8s.io")
    assert [entry["device"] for entry in result["status"]["devices"]] == ["c"]


def env(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "value": "1"} for name in names]


def pod(*names: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "a", "env": env(*names)}]}}


@pytest.mark.parametrize(
    ("live", "patch", "order", "result"),
    [
        ("AB", "C", None, "CAB"),
        ("ABC", "", "CA", "BCA"),
        ("ABC", "D", "DB", "DABC"),
        ("ABC", "C", "CBA", "CBA"),
    ],
)
def test_set_element_order_puts_listed_items_in_order(
    live: str, patch: str, order: str | None, result: str
) -> None:
    container: dict[str, Any] = {"name": "a", "env": env(*patch)}
    if order is not None:
        container["$setElementOrder/env"] = [{"name": name} for name in order]
    merged = strategic("Pod", pod(*live), {"spec": {"containers": [container]}})
    assert "".join(entry["name"] for entry in merged["spec"]["containers"][0]["env"]) == result


def test_primitive_lists_merge_and_delete_by_value() -> None:
    live = {"metadata": {"finalizers": ["a/b", "c/d"]}}
    added = strategic("ConfigMap", live, {"metadata": {"finalizers": ["e/f"]}})
    assert added["metadata"]["finalizers"] == ["e/f", "a/b", "c/d"]
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b"]}}
    assert strategic("ConfigMap", added, patch)["metadata"]["finalizers"] == ["e/f", "c/d"]


def test_retain_keys_drops_the_others() -> None:
    live = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}
    volume = {"name": "v", "hostPath": {"path": "/x"}, "$retainKeys": ["name", "hostPath"]}
    result = strategic("Pod", live, {"spec": {"volumes": [volume]}})
    assert result["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/x"}}]


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ({"metadata": {"$patch": "merge"}}, 500, "unknown patch type: merge in map: map[$patch:merge]"),
        (
            {"spec": {"containers": [{"image": "i"}]}},
            500,
            "map: map[image:i] does not contain declared merge key: name",
        ),
        ({"spec": {"$retainKeys": "x"}}, 400, "invalid patch format of retainKeys"),
        ({"spec": {"$retainKeys": [], "hostname": "h"}}, 400, "invalid patch format of retainKeys"),
        (
            {"spec": {"containers": [{"name": "b"}], "$setElementOrder/containers": [{"name": "a"}]}},
            500,
            (
                "The order in patch list:\n[map[name:b]]\n"
                " doesn't match $setElementOrder list:\n[map[name:a]]\n"
            ),
        ),
        ([1], 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ],
)
def test_strategic_patches_that_cannot_be_merged(patch: Any, code: int, message: str) -> None:
    with pytest.raises(PatchError) as caught:
        strategic("Pod", {"metadata": {"name": "p"}, **pod("A")}, patch)
    assert (caught.value.code, caught.value.message) == (code, message)


@pytest.mark.parametrize(
    ("media_type", "body", "message"),
    [
        (JSON_PATCH, b"{", "invalid JSON patch"),
        (MERGE_PATCH, b"", "invalid JSON patch"),
        (
            JSON_PATCH,
            b"{}",
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            JSON_PATCH,
            b'[{"op": 1}]',
            (
                "error decoding patch: json: cannot unmarshal number into Go struct field "
                "jsonPatchOp.op of type string"
            ),
        ),
    ],
)
def test_unreadable_bodies_are_400(media_type: str, body: bytes, message: str) -> None:
    with pytest.raises(PatchError) as caught:
        read_patch(media_type, body)
    assert (caught.value.code, caught.value.message) == (400, message)


def test_bodies_are_read_with_what_strict_decoding_objects_to() -> None:
    body = read_patch(JSON_PATCH, b'[{"op": "add", "path": "/a", "foo": 1}]')
    assert body.findings == ['json patch unknown field "[0].foo"']
    assert read_patch(MERGE_PATCH, b'{"a": 1, "a": 2}').findings == ['duplicate field "a"']
    assert read_patch(APPLY_PATCH, b"a: yes\n").value == {"a": True}


def test_results_that_the_kind_cannot_hold_are_quoted() -> None:
    error = unfit(MERGE_PATCH, {}, {"b": 1, "a": "x"}, "why")
    assert error.message == r' "" is invalid: patch: Invalid value: "{\"a\":\"x\",\"b\":1}": why'
    assert error.details is not None
    assert error.details["causes"][0]["field"] == "patch"
    quoted = unfit(STRATEGIC_PATCH, {"b": [1]}, {}, "why")
    assert quoted.message == ' "" is invalid: patch: Invalid value: "map[b:[1]]": why'
