"""Field management by rule: entries, times, conflicts, versions, checks (api-machinery section 8)."""

from __future__ import annotations

import json
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from clusters.embedded.apiserver.patching import PatchError, apply, reset_fields, restore_times, update_fields
from clusters.embedded.apiserver.patching.fields import FieldSet
from dra_api.conversion import convert
from dra_api.decode import decode_object
from dra_api.schema import GVK

CONFIG_MAP = GVK("", "v1", "ConfigMap")
POD = GVK("", "v1", "Pod")
CLAIM = GVK("resource.k8s.io", "v1", "ResourceClaim")
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


def stored(obj: dict[str, Any]) -> dict[str, Any]:
    """The object in canonical form, with a uid."""
    found = {**obj, "metadata": {**obj["metadata"], "uid": "u"}}
    return decode_object(found, GVK.of(obj["apiVersion"], obj["kind"])).object


def created(obj: dict[str, Any], manager: str = "upd", gvk: GVK = CONFIG_MAP) -> dict[str, Any]:
    return stored(update_fields(None, obj, gvk=gvk, manager=manager, now=NOW))


def applied(live: dict[str, Any] | None, config: dict[str, Any], manager: str, **more: Any) -> dict[str, Any]:
    return stored(apply(live, config, gvk=more.pop("gvk", CONFIG_MAP), manager=manager, now=LATER, **more))


def entries(obj: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])}


def times(obj: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry.get("time") for entry in obj["metadata"]["managedFields"]}


def test_create_of_a_pod_owns_what_was_sent_less_identity() -> None:
    """The example of api-machinery section 8, shortened."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "labels": {"a": "b"},
            "finalizers": ["a.b/c"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u1"}],
        },
        "spec": {
            "containers": [
                {"name": "a", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}}}
            ],
            "nodeSelector": {"x": "y"},
        },
    }
    (entry,) = created(pod, gvk=POD)["metadata"]["managedFields"]
    assert {key: value for key, value in entry.items() if key != "fieldsV1"} == {
        "manager": "upd",
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-02T03:04:05Z",
        "fieldsType": "FieldsV1",
    }
    port = 'k:{"containerPort":80,"protocol":"TCP"}'
    assert entry["fieldsV1"] == {
        "f:metadata": {
            "f:finalizers": {".": {}, 'v:"a.b/c"': {}},
            "f:labels": {".": {}, "f:a": {}},
            "f:ownerReferences": {".": {}, 'k:{"uid":"u1"}': {}},
        },
        "f:spec": {
            "f:containers": {
                'k:{"name":"a"}': {
                    ".": {},
                    "f:name": {},
                    "f:ports": {".": {}, port: {".": {}, "f:containerPort": {}}},
                    "f:resources": {".": {}, "f:limits": {".": {}, "f:cpu": {}}},
                }
            },
            "f:nodeSelector": {},
        },
    }


def test_object_with_nothing_but_a_name_has_no_entries() -> None:
    assert (
        "managedFields"
        not in created({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})["metadata"]
    )


def test_device_status_items_are_selected_by_the_keys_that_they_have() -> None:
    claim = {
        "apiVersion": CLAIM.api_version,
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "uid": "u"},
        "spec": {"devices": {}},
        "status": {
            "devices": [
                {"driver": "d.x", "pool": "p", "device": "dev", "data": {"a": 1}},
                {"driver": "d.x", "pool": "p", "device": "dev", "shareID": "s"},
            ]
        },
    }
    reset = reset_fields("resource.k8s.io", "resourceclaims", "status", has_status=True)
    result = apply(claim, claim | {"metadata": {"name": "c"}}, gvk=CLAIM, manager="m", now=NOW,
                   subresource="status", reset=reset)  # fmt: skip
    (entry,) = [e for e in result["metadata"]["managedFields"] if e["manager"] == "m"]
    assert entry["subresource"] == "status"
    assert entry["fieldsV1"] == {
        "f:status": {
            "f:devices": {
                'k:{"device":"dev","driver":"d.x","pool":"p"}': {
                    ".": {}, "f:data": {}, "f:device": {}, "f:driver": {}, "f:pool": {},
                },
                'k:{"device":"dev","driver":"d.x","pool":"p","shareID":"s"}': {
                    ".": {}, "f:device": {}, "f:driver": {}, "f:pool": {}, "f:shareID": {},
                },
            }
        }
    }  # fmt: skip


def test_update_takes_changed_and_removed_fields_from_everybody() -> None:
    live = created(config_map(a="1", b="1", c="1"), "one")
    new = update_fields(live, stored(config_map(a="2", b="1")), gvk=CONFIG_MAP, manager="two", now=LATER)
    assert entries(new) == {"one": {"f:data": {".": {}, "f:b": {}}}, "two": {"f:data": {"f:a": {}}}}
    assert times(new) == {"one": "2026-01-02T03:04:05Z", "two": "2026-01-02T03:05:05Z"}


def test_update_without_a_change_leaves_the_time() -> None:
    live = created(config_map(a="1"), "one")
    new = update_fields(live, stored(config_map(a="1")), gvk=CONFIG_MAP, manager="two", now=LATER)
    assert new == live


@pytest.mark.parametrize("sent", [[], [{}]])
def test_an_empty_list_wipes_all_entries_and_tracking_starts_with_the_next_apply(sent: list[Any]) -> None:
    live = created(config_map(a="1"))
    wipe = stored(config_map(a="1"))
    wipe["metadata"]["managedFields"] = sent
    bare = update_fields(live, wipe, gvk=CONFIG_MAP, manager="m", now=NOW)
    assert "managedFields" not in bare["metadata"]
    changed = update_fields(bare, stored(config_map(a="2")), gvk=CONFIG_MAP, manager="m", now=NOW)
    assert "managedFields" not in changed["metadata"]
    result = applied(changed, config_map(b="1"), "app")
    assert entries(result) == {
        "app": {"f:data": {"f:b": {}}},
        "before-first-apply": {"f:data": {".": {}, "f:a": {}}},
    }


def test_entries_in_the_body_count_on_the_main_endpoint_only() -> None:
    live = created(config_map(a="1"), "one")
    new = stored(config_map(a="1"))
    new["metadata"]["managedFields"] = created(config_map(a="1"), "other")["metadata"]["managedFields"]
    taken = update_fields(live, new, gvk=CONFIG_MAP, manager="m", now=NOW)
    kept = update_fields(live, new, gvk=CONFIG_MAP, manager="m", now=NOW, subresource="status")
    assert (list(entries(taken)), list(entries(kept))) == (["other"], ["one"])


def test_unreadable_entries_in_the_body_keep_the_stored_ones() -> None:
    live = created(config_map(a="1"), "one")
    new = stored(config_map(a="1"))
    new["metadata"]["managedFields"] = [{"manager": "x", "operation": "Guess"}]
    assert list(entries(update_fields(live, new, gvk=CONFIG_MAP, manager="m", now=NOW))) == ["one"]


def test_more_than_ten_updaters_are_merged_oldest_first() -> None:
    live = created(config_map(m00="1"), "m00")
    for index in range(1, 12):
        data = {f"m{key:02}": "1" for key in range(index + 1)}
        moment = NOW + timedelta(seconds=index)
        new = update_fields(
            live, stored(config_map(**data)), gvk=CONFIG_MAP, manager=f"m{index:02}", now=moment
        )
        live = stored(new)
    found = entries(live)
    # Twelve updaters: the two oldest become one at the eleventh, a third joins them at the twelfth.
    assert found["ancient-changes"] == {"f:data": {".": {}, "f:m00": {}, "f:m01": {}, "f:m02": {}}}
    assert (len(found), times(live)["ancient-changes"]) == (10, "2026-01-02T03:04:07Z")


def test_conflict_of_one_field_is_worded_as_upstream() -> None:
    live = created(config_map(a="1"))
    with pytest.raises(PatchError) as caught:
        applied(live, config_map(a="2"), "app")
    assert caught.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Apply failed with 1 conflict: conflict with "upd" using v1: .data.a',
        "reason": "Conflict",
        "details": {
            "causes": [
                {
                    "reason": "FieldManagerConflict",
                    "message": 'conflict with "upd" using v1',
                    "field": ".data.a",
                }
            ]
        },
        "code": 409,
    }


def test_conflicts_with_several_managers_are_grouped() -> None:
    live = applied(None, config_map(a="1", **{"b.c": "1"}), "m1")
    live = applied(live, config_map(a="1"), "m2")
    live = stored(
        update_fields(
            live, {**live, "data": {**live["data"], "z": "1"}}, gvk=CONFIG_MAP, manager="upd", now=NOW
        )
    )
    with pytest.raises(PatchError) as caught:
        applied(live, config_map(a="2", z="2", **{"b.c": "2"}), "app")
    assert caught.value.message == (
        'Apply failed with 4 conflicts: conflicts with "m1":\n- .data.a\n- .data.b.c\n'
        'conflicts with "m2":\n- .data.a\nconflicts with "upd" using v1:\n- .data.z'
    )


def test_conflict_names_the_subresource() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}
    live = created(pod, gvk=POD)
    running = {**live, "status": {"phase": "Running"}}
    live = stored(update_fields(live, running, gvk=POD, manager="k", now=NOW, subresource="status"))
    config = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Failed"}}
    with pytest.raises(
        PatchError, match=r'conflict with "k" with subresource "status" using v1: \.status\.phase'
    ):
        applied(live, config, "app", gvk=POD, subresource="status")


def test_equal_values_are_shared_and_a_first_apply_that_changes_nothing_has_no_time() -> None:
    live = created(config_map(a="1"))
    result = applied(live, config_map(a="1"), "app")
    assert result["data"] == {"a": "1"}
    assert times(result) == {"app": None, "upd": "2026-01-02T03:04:05Z"}


def test_force_takes_the_field_away() -> None:
    result = applied(created(config_map(a="1", b="1")), config_map(a="2"), "app", force=True)
    assert entries(result) == {"app": {"f:data": {"f:a": {}}}, "upd": {"f:data": {".": {}, "f:b": {}}}}
    assert times(result)["app"] == "2026-01-02T03:05:05Z"


def test_fields_given_up_are_removed_unless_somebody_else_owns_them() -> None:
    live = applied(None, config_map(a="1", b="1", c="1"), "m1")
    live = applied(live, config_map(b="1"), "m2")
    result = applied(live, config_map(a="1"), "m1")
    assert result["data"] == {"a": "1", "b": "1"}


def pod_with(*names: str, **more: Any) -> dict[str, Any]:
    containers = [{"name": name, **more} for name in names]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}


@pytest.mark.parametrize(
    ("live", "config", "order"),
    [
        ("ABC", "CXA", "BCXA"),
        ("ABC", "XY", "ABCXY"),
        ("ABC", "BD", "ABCD"),
        ("AB", "BA", "BA"),
        ("", "AB", "AB"),
    ],
)
def test_applied_items_take_the_applied_order(live: str, config: str, order: str) -> None:
    """A B C and C X A give B C X A (observed); items of the live object alone keep their neighbours."""
    result = applied(created(pod_with(*live), gvk=POD), pod_with(*config), "app", gvk=POD)
    assert "".join(item["name"] for item in result["spec"]["containers"]) == order


def test_item_stays_while_another_manager_owns_its_key() -> None:
    live = applied(None, pod_with("a", "b", image="i"), "m1", gvk=POD)
    live = applied(live, pod_with("b"), "m2", gvk=POD)
    result = applied(live, pod_with("a", image="i"), "m1", gvk=POD)
    left = [(item["name"], item.get("image")) for item in result["spec"]["containers"]]
    assert left == [("a", "i"), ("b", None)]


def test_apply_in_another_version_takes_the_entry_over() -> None:
    """Applying through v1beta1 what was applied through v1 keeps one entry."""
    config = {
        "apiVersion": CLAIM.api_version,
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "labels": {"a": "1"}},
    }
    live = applied(None, config, "m", gvk=CLAIM, convert=convert)
    old = CLAIM._replace(version="v1beta1")
    again = {**config, "apiVersion": old.api_version, "metadata": {"name": "c", "labels": {"b": "1"}}}
    result = applied(convert(live, old.api_version), again, "m", gvk=old, convert=convert)
    assert result["metadata"]["labels"] == {"b": "1"}
    (entry,) = result["metadata"]["managedFields"]
    assert (entry["apiVersion"], entry["fieldsV1"]) == (
        old.api_version,
        {"f:metadata": {"f:labels": {"f:b": {}}}},
    )


@pytest.mark.parametrize(("spelled", "conflict"), [("1Gi", False), ("1024Mi", True)])
def test_apply_in_another_version_conflicts_over_what_it_respells(spelled: str, conflict: bool) -> None:
    """As observed: 1024Mi changes a list with 1Gi that somebody else owns through another version."""

    def claim(version: str, memory: str) -> dict[str, Any]:
        exact = {"deviceClassName": "gpu.example.com", "capacity": {"requests": {"memory": memory}}}
        request = {"name": "r", **(exact if version == "v1beta1" else {"exactly": exact})}
        return {
            "apiVersion": CLAIM._replace(version=version).api_version,
            "kind": "ResourceClaim",
            "metadata": {"name": "c"},
            "spec": {"devices": {"requests": [request]}},
        }

    old = CLAIM._replace(version="v1beta1")
    live = convert(applied(None, claim("v1", "1Gi"), "m1", gvk=CLAIM, convert=convert), old.api_version)
    expected: Any = pytest.raises(PatchError, match=r"spec\.devices\.requests") if conflict else nullcontext()
    with expected:
        applied(live, claim("v1beta1", spelled), "m2", gvk=old, convert=convert)


def test_entries_of_a_version_that_is_gone_are_dropped() -> None:
    live = created(config_map(a="1"), "one")
    live["metadata"]["managedFields"][0]["apiVersion"] = "v0"
    new = update_fields(live, stored(config_map(a="2")), gvk=CONFIG_MAP, manager="two", now=NOW)
    assert list(entries(new)) == ["two"]


def test_reset_fields_are_not_owned() -> None:
    pod = {**pod_with("a"), "status": {"phase": "Running"}}
    reset = reset_fields("", "pods", "", has_status=True)
    result = update_fields(None, pod, gvk=POD, manager="m", now=NOW, reset=reset)
    assert "f:status" not in entries(result)["m"]
    assert reset_fields("", "configmaps", "", has_status=False) == FieldSet()


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"apiVersion": "v2"}, 400, "invalid object type: /v2, Kind=ConfigMap"),
        ({"kind": None}, 400, "invalid object type: /v1, Kind="),
        (
            {"metadata": {"name": "c", "managedFields": []}},
            400,
            "metadata.managedFields must be nil",
        ),
        (
            {"foo": 1, "metadata": {}},
            500,
            "failed to create typed patch object (/; /v1, Kind=ConfigMap): .foo: field not declared in schema",
        ),
    ],
)
def test_configurations_that_cannot_be_applied(change: dict[str, Any], code: int, message: str) -> None:
    with pytest.raises(PatchError) as caught:
        applied(None, {**config_map(), **change}, "m")
    assert (caught.value.code, caught.value.message) == (code, message)


def test_repeated_items_are_refused() -> None:
    with pytest.raises(PatchError) as caught:
        applied(None, pod_with("a", "a"), "m", gvk=POD)
    assert (caught.value.code, caught.value.message) == (
        500,
        (
            "failed to create typed patch object (/p; /v1, Kind=Pod): "
            '.spec.containers: duplicate entries for key [name="a"]'
        ),
    )


def test_kubectl_takes_over_from_client_side_apply_and_keeps_the_annotation() -> None:
    before = config_map(a="1", b="1")
    live = {**before, "metadata": {"name": "c", "annotations": {LAST_APPLIED: json.dumps(before)}}}
    live = created(live, "kubectl-client-side-apply")
    result = applied(live, config_map(a="<2>"), "kubectl")
    assert result["data"] == {"a": "<2>", "b": "1"}
    assert result["metadata"]["annotations"][LAST_APPLIED] == (
        '{"apiVersion":"v1","data":{"a":"\\u003c2\\u003e"},"kind":"ConfigMap","metadata":{"name":"c"}}\n'
    )
    with pytest.raises(PatchError, match=r"\.data\.b"):
        applied(live, config_map(b="2"), "other")


def test_times_alone_make_no_write() -> None:
    live = created(config_map(a="1"))
    again = json.loads(json.dumps(live).replace("03:04:05Z", "03:09:09Z"))
    assert restore_times(live, again) == live
    changed = {**again, "data": {"a": "2"}}
    assert restore_times(live, changed) == changed
