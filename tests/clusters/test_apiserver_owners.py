"""Whose fields are after applies in several versions, as a real kube-apiserver 1.37.2 has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from apiserver_harness import CLAIMS, JSON_PATCH, SLICES, STRATEGIC, Http, claim, connected, resource_slice

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
GROUP = "/apis/resource.k8s.io"
DRIVER = "gpu.example.com"


@pytest.fixture
def http() -> Iterator[Http]:
    with connected(runtime_config={"api/all": True}) as client:
        yield client


def applied(http: Http, path: str, manager: str, body: dict[str, Any]) -> dict[str, Any]:
    """The object after a forced apply, in the version of the path."""
    version = path.split("/")[3]
    kinds = {
        "resourceclaims": "ResourceClaim",
        "devicetaintrules": "DeviceTaintRule",
        "deviceclasses": "DeviceClass",
    }
    kind = next(kind for plural, kind in kinds.items() if f"/{plural}/" in path)
    config = {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": {"name": "a"}, **body}
    answer = http.patch(f"{path}?fieldManager={manager}&force=true", config, APPLY)
    assert answer.code in (200, 201), answer.json
    result: dict[str, Any] = answer.json
    return result


def owners(obj: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])}


def test_what_an_apply_empties_is_given_up_by_all_where_another_version_is_owned_too(http: Http) -> None:
    rules = f"{GROUP}/v1/devicetaintrules/a"
    taint = {"key": "example.com/t", "effect": "NoExecute"}
    applied(http, rules, "m2", {"spec": {"deviceSelector": {}, "taint": taint}})
    status = {"conditions": []}
    other = f"{GROUP}/v1beta2/devicetaintrules/a"
    labels = {"metadata": {"name": "a", "labels": {"app": "b"}}, "status": status}
    assert http.patch(f"{other}?fieldManager=tester", labels, MERGE).code == 200
    applied(http, rules, "m1", {"spec": {"deviceSelector": {"driver": DRIVER}, "taint": taint}})
    last = applied(http, rules, "m1", {"spec": {"taint": taint}})
    assert "deviceSelector" not in last["spec"]
    assert "f:deviceSelector" not in owners(last)["m2"]["f:spec"]


def test_a_map_that_is_emptied_by_an_apply_in_another_version_has_no_owner(http: Http) -> None:
    body = {"metadata": {"name": "a", "labels": {"app": "b"}}, "spec": {}}
    http.created(f"{GROUP}/v1beta2/deviceclasses?fieldManager=m2", body)
    labelled = {"metadata": {"name": "a", "labels": {"app": "a"}}, "spec": {}}
    applied(http, f"{GROUP}/v1/deviceclasses/a", "m1", labelled)
    last = applied(
        http, f"{GROUP}/v1beta2/deviceclasses/a", "m1", {"spec": {"extendedResourceName": "example.com/gpu"}}
    )
    assert "labels" not in last["metadata"]
    assert "f:labels" not in owners(last).get("m2", {}).get("f:metadata", {})


def test_fields_that_are_always_written_outlive_an_apply_in_another_version(http: Http) -> None:
    def status(condition: dict[str, str] | None) -> dict[str, Any]:
        result = {"request": "r", "driver": DRIVER, "pool": "p", "device": "d"}
        device = {key: result[key] for key in ("driver", "pool", "device")}
        devices = [{**device, "conditions": [condition]}] if condition else None
        return {
            "status": {
                "allocation": {"devices": {"results": [result]}},
                **({"devices": devices} if devices else {}),
            }
        }

    def condition(status: str, message: str) -> dict[str, str]:
        return {
            "type": "Ready", "status": status, "reason": "Because", "message": message,
            "lastTransitionTime": "2024-05-01T10:00:00Z",
        }  # fmt: skip

    http.created(CLAIMS, claim("a"))
    path = "{}/{}/namespaces/default/resourceclaims/a/status"
    applied(http, path.format(GROUP, "v1beta2"), "m2", status(condition("False", "")))
    applied(http, path.format(GROUP, "v1"), "m1", status(condition("True", "text")))
    last = applied(http, path.format(GROUP, "v1beta1"), "m1", status(None))
    assert last["status"]["devices"][0]["conditions"] == [condition("True", "text")]


def with_policy(name: str, default: str) -> dict[str, Any]:
    policy = {"default": default, "validValues": [default]}
    device = {"name": "d", "allowMultipleAllocations": True}
    capacity = {"memory": {"value": "64Gi", "requestPolicy": policy}}
    return resource_slice(name, devices=[{**device, "capacity": capacity}])


LABELS = {"metadata": {"labels": {"a": "b"}}}


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (LABELS, MERGE),
        (LABELS, STRATEGIC),
        ([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}], JSON_PATCH),
    ],
)
@pytest.mark.parametrize(
    ("default", "taken"), [("1Gi", False), ("7Gi", False), ("8Gi", True), ("16Gi", True)]
)
def test_a_patch_takes_lists_of_policies_whose_quantities_lose_their_text(
    http: Http, default: str, taken: bool, body: Any, media_type: str
) -> None:
    http.created(f"{SLICES}?fieldManager=one", with_policy("a", default))
    dry = http.patch(f"{SLICES}/a?fieldManager=two&dryRun=All", body, media_type).json
    assert "f:devices" in owners(dry)["one"]["f:spec"]
    seen = http.patch(f"{SLICES}/a?fieldManager=two", body, media_type).json
    assert [name for name, owned in owners(seen).items() if "f:devices" in owned.get("f:spec", {})] == [
        "two" if taken else "one"
    ]


def test_a_value_that_stands_in_a_map_keeps_its_owner(http: Http) -> None:
    devices = [{"name": "d", "capacity": {"memory": {"value": "16Gi"}}}]
    http.created(f"{SLICES}?fieldManager=one", resource_slice("a", devices=devices))
    seen = http.patch(f"{SLICES}/a?fieldManager=two", LABELS, MERGE).json
    assert "f:devices" in owners(seen)["one"]["f:spec"]
