from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dra_api.defaults import apply_defaults

NOW = datetime(2026, 3, 1, 12, 30, 15, 987654, tzinfo=UTC)


def claim(request: dict[str, Any], version: str = "v1") -> dict[str, Any]:
    obj = {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "spec": {"devices": {"requests": [request]}},
    }
    apply_defaults(obj)
    requests = obj["spec"]["devices"]["requests"]  # type: ignore[index]
    result: dict[str, Any] = requests[0]
    return result


def test_a_request_asks_for_one_device() -> None:
    expected = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    assert claim({"name": "r", "exactly": {"deviceClassName": "gpu"}})["exactly"] == expected
    assert claim({"name": "r", "exactly": {"deviceClassName": "gpu", "count": 0}})["exactly"] == expected
    assert claim({"name": "r", "firstAvailable": [{"deviceClassName": "gpu"}]})["firstAvailable"] == [
        expected
    ]


def test_all_devices_get_no_count() -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    assert "count" not in claim(request)["exactly"]


def test_a_count_stays() -> None:
    assert claim({"name": "r", "exactly": {"deviceClassName": "gpu", "count": -1}})["exactly"]["count"] == -1


def test_v1beta1_requests_are_defaulted_only_with_a_class() -> None:
    assert claim({"name": "r", "deviceClassName": "gpu"}, "v1beta1")["count"] == 1
    listed = claim(
        {"name": "r", "deviceClassName": "", "firstAvailable": [{"deviceClassName": "gpu"}]}, "v1beta1"
    )
    assert "count" not in listed
    assert listed["firstAvailable"][0]["allocationMode"] == "ExactCount"


def test_tolerations_compare_by_default() -> None:
    request = {
        "name": "r",
        "exactly": {"deviceClassName": "gpu", "tolerations": [{"key": "k"}, {"operator": "Exists"}]},
    }
    assert [each["operator"] for each in claim(request)["exactly"]["tolerations"]] == ["Equal", "Exists"]


def test_taints_get_the_time_in_whole_seconds_and_keep_a_given_one() -> None:
    given = "2020-01-01T00:00:00Z"
    obj = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "spec": {"devices": [{"taints": [{"key": "a"}, {"key": "b", "timeAdded": given}]}]},
    }
    apply_defaults(obj, NOW)
    taints = obj["spec"]["devices"][0]["taints"]  # type: ignore[index]
    assert [taint["timeAdded"] for taint in taints] == ["2026-03-01T12:30:15Z", given]


def test_taint_of_a_rule_without_a_clock_stays_without_time() -> None:
    obj: dict[str, Any] = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "spec": {"taint": {"key": "a"}},
    }
    apply_defaults(obj)
    assert obj["spec"]["taint"] == {"key": "a"}
    apply_defaults(obj, NOW)
    assert obj["spec"]["taint"]["timeAdded"] == "2026-03-01T12:30:15Z"


def test_pool_status_requests_report_a_hundred_pools() -> None:
    obj: dict[str, Any] = {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "ResourcePoolStatusRequest",
        "spec": {"driver": "d"},
    }
    apply_defaults(obj)
    assert obj["spec"]["limit"] == 100
