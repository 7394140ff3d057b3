from __future__ import annotations

import copy
from typing import Any

import pytest

from dra_api import features
from dra_api.features import ENABLED_1_37
from dra_api.fields import drop_deallocated_devices, drop_disabled

ALL = frozenset(features.DEFAULTS_1_37)


def slice_of(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": spec}


def claim_of(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"kind": "ResourceClaim", "spec": {"devices": spec}, "status": status or {}}


FULL_DEVICE: dict[str, Any] = {
    "name": "d",
    "attributes": {"links": {"ints": [1]}},
    "capacity": {"m": {"value": "1", "requestPolicy": {"default": "1"}}},
    "consumesCounters": [
        {"counterSet": "s", "counters": {"c": {"value": "1"}}, "compatibilityGroups": ["g"]}
    ],
    "allNodes": True,
    "taints": [{"key": "k", "effect": "None"}],
    "bindsToNode": True,
    "bindingConditions": ["a"],
    "bindingFailureConditions": ["b"],
    "allowMultipleAllocations": True,
    "nodeAllocatableResources": {"cpu": {"overhead": {"perPod": "1"}}},
}
RESULT: dict[str, Any] = {
    "request": "r",
    "driver": "d",
    "pool": "p",
    "device": "x",
    "adminAccess": True,
    "shareID": "s",
    "consumedCapacity": {"m": "1"},
    "bindingConditions": ["a"],
    "bindingFailureConditions": ["b"],
    "skipNodeOperations": ["*"],
}


@pytest.mark.parametrize(
    ("gate", "gone"),
    [
        (features.DEVICE_TAINTS, {"taints"}),
        (features.PARTITIONABLE_DEVICES, {"consumesCounters", "allNodes"}),
        (features.BINDING_CONDITIONS, {"bindsToNode", "bindingConditions", "bindingFailureConditions"}),
        (features.DEVICE_STATUS, {"bindsToNode", "bindingConditions", "bindingFailureConditions"}),
        (features.CONSUMABLE_CAPACITY, {"allowMultipleAllocations"}),
        (features.NODE_ALLOCATABLE_RESOURCES, {"nodeAllocatableResources"}),
    ],
)
def test_fields_of_a_device_go_with_their_gate_and_stay_when_the_stored_slice_has_them(
    gate: str, gone: set[str]
) -> None:
    stored = slice_of(devices=[copy.deepcopy(FULL_DEVICE)])
    created = copy.deepcopy(stored)
    drop_disabled(created, None, ALL - {gate})
    assert FULL_DEVICE.keys() - created["spec"]["devices"][0].keys() == gone

    updated = copy.deepcopy(stored)
    drop_disabled(updated, stored, ALL - {gate})
    assert updated == stored


def test_nested_fields_of_a_device_go_with_their_gates() -> None:
    created = slice_of(devices=[copy.deepcopy(FULL_DEVICE)])
    off = {features.CONSUMABLE_CAPACITY, features.COMPATIBILITY_GROUPS, features.LIST_TYPE_ATTRIBUTES}
    drop_disabled(created, None, ALL - off)
    device = created["spec"]["devices"][0]
    assert device["capacity"] == {"m": {"value": "1"}}
    assert device["consumesCounters"] == [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]
    assert device["attributes"] == {"links": {}}


def test_fields_of_the_slice_go_with_their_gates() -> None:
    spec = {
        "driver": "d",
        "perDeviceNodeSelection": True,
        "sharedCounters": [],
        "partitionTypeAttribute": "d/t",
        "skipNodeOperations": ["*"],
    }
    created = slice_of(**copy.deepcopy(spec))
    drop_disabled(created, None, frozenset())
    assert created["spec"] == {"driver": "d"}
    kept = slice_of(**copy.deepcopy(spec))
    drop_disabled(kept, None, ALL)
    assert kept["spec"] == spec


def test_fields_of_a_claim_spec_go_with_their_gates() -> None:
    exactly = {
        "deviceClassName": "c",
        "adminAccess": False,
        "tolerations": [{}],
        "capacity": {},
        "derivedAttributes": [{}],
    }
    created = claim_of(
        {
            "requests": [
                {"name": "r", "exactly": dict(exactly)},
                {"name": "s", "firstAvailable": [{"name": "t"}]},
            ],
            "constraints": [{"distinctAttribute": "a/b"}],
        }
    )
    drop_disabled(created, None, frozenset())
    assert created["spec"]["devices"] == {
        "requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}, {"name": "s"}],
        "constraints": [{}],
    }


def test_a_template_is_treated_like_its_claim() -> None:
    template: dict[str, Any] = {
        "kind": "ResourceClaimTemplate",
        "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"tolerations": [{}]}}]}}},
    }
    drop_disabled(template, None, ALL - {features.DEVICE_TAINTS})
    assert template["spec"]["spec"]["devices"]["requests"] == [{"name": "r", "exactly": {}}]


def test_status_fields_go_with_their_gates_but_the_timestamp_stays() -> None:
    allocation = {"devices": {"results": [dict(RESULT)]}, "allocationTimestamp": "2026-01-01T00:00:00Z"}
    status = {"allocation": allocation, "devices": [{"driver": "d", "shareID": "s"}]}
    new = claim_of({}, copy.deepcopy(status))
    drop_disabled(new, claim_of({}), frozenset())
    base = {"request": "r", "driver": "d", "pool": "p", "device": "x"}
    assert new["status"] == {"allocation": {**allocation, "devices": {"results": [base]}}}


def test_admin_access_of_a_result_stays_when_the_spec_asks_for_it() -> None:
    spec = {"requests": [{"name": "r", "exactly": {"adminAccess": True}}]}
    new = claim_of(spec, {"allocation": {"devices": {"results": [dict(RESULT)]}}})
    drop_disabled(new, claim_of(spec), ALL - {features.ADMIN_ACCESS})
    assert new["status"]["allocation"]["devices"]["results"] == [RESULT]


def test_the_extended_resource_name_of_a_class_goes_with_its_gate() -> None:
    new: dict[str, Any] = {"kind": "DeviceClass", "spec": {"extendedResourceName": "a/b"}}
    drop_disabled(new, None, frozenset())
    assert new["spec"] == {}


def test_statuses_of_deallocated_devices_are_removed() -> None:
    old = claim_of({}, {"allocation": {"devices": {"results": [dict(RESULT), {**RESULT, "device": "y"}]}}})
    key = {"driver": "d", "pool": "p", "shareID": "s"}
    statuses = [{**key, "device": name} for name in ("x", "y", "foreign")]
    new = claim_of({}, {"allocation": {"devices": {"results": [dict(RESULT)]}}, "devices": statuses})
    drop_deallocated_devices(new, old, ENABLED_1_37)
    assert [device["device"] for device in new["status"]["devices"]] == ["x", "foreign"]


def test_clearing_the_allocation_clears_all_statuses() -> None:
    old = claim_of({}, {"allocation": {"devices": {"results": [dict(RESULT)]}}})
    new = claim_of({}, {"devices": [{"driver": "d", "pool": "p", "device": "x", "shareID": "s"}]})
    drop_deallocated_devices(new, old, ENABLED_1_37)
    assert new["status"] == {}
