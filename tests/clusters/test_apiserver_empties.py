"""Empty lists and maps in bodies: judged as given, stored as absent (as a Go server with protobuf storage does)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from apiserver_harness import (
    APPLY,
    CLAIMS,
    CONFIG_MAPS,
    JSON_PATCH,
    MERGE,
    PODS,
    PROTOBUF,
    SLICES,
    STRATEGIC,
    Http,
    claim,
    config_map,
    connected,
    pod,
    resource_slice,
)

from dra_api import wire

BOTH = "only one of `sharedCounters` or `devices` is allowed"
COUNTERS = [{"name": "set", "counters": {"c": {"value": "1"}}}]


@pytest.fixture(scope="module")
def http() -> Iterator[Http]:
    with connected(feature_gates={"DRAPartitionableDevices": True, "DRAListTypeAttributes": True}) as client:
        yield client


def causes(answer: Any) -> list[tuple[str, str]]:
    assert answer.code == 422, answer.body
    return [(cause["field"], cause["message"]) for cause in answer.json["details"]["causes"]]


def test_an_empty_list_counts_where_only_one_of_two_is_allowed(http: Http) -> None:
    body = resource_slice("both", devices=[], sharedCounters=COUNTERS)
    assert causes(http.post(SLICES, body)) == [("spec", f'Invalid value: "": {BOTH}')]
    del body["spec"]["devices"]
    http.created(SLICES, body)
    change = {"spec": {"devices": []}}
    assert causes(http.patch(f"{SLICES}/both", change, MERGE)) == [("spec", f'Invalid value: "": {BOTH}')]
    operation = [{"op": "add", "path": "/spec/devices", "value": []}]
    assert causes(http.patch(f"{SLICES}/both", operation, JSON_PATCH)) == [
        ("spec", f'Invalid value: "": {BOTH}')
    ]
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "both"}}
    applied = http.patch(f"{SLICES}/both?fieldManager=m", {**kind, **change}, APPLY)
    assert causes(applied) == [("spec", f'Invalid value: "": {BOTH}')]


def test_protobuf_cannot_tell_an_empty_list_from_none(http: Http) -> None:
    body = resource_slice("proto", devices=[], sharedCounters=COUNTERS)
    data = wire.encode_object({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", **body})
    answer = http.request("POST", SLICES, data, PROTOBUF)
    assert answer.code == 201, answer.body


def test_list_attributes_must_not_be_empty(http: Http) -> None:
    device = {"name": "d", "attributes": {"a": {"ints": []}}}
    assert causes(http.post(SLICES, resource_slice("ints", devices=[device]))) == [
        ("spec.devices[0].attributes[a].ints", "Invalid value: []: must not be empty if specified"),
        (
            "spec.devices[0].attributes[a]",
            (
                'Invalid value: "": must specify one of: `int`, `bool`, `string`, `version`, '
                "`ints`, `bools`, `strings`, `versions`"
            ),
        ),
    ]


def test_an_empty_list_is_stored_as_absent(http: Http) -> None:
    body = resource_slice("alone", devices=[])
    dry = http.post(f"{SLICES}?dryRun=All", body)
    assert "devices" not in dry.json["spec"]
    stored = http.created(SLICES, body)
    assert "devices" not in stored["spec"]
    assert http.get(f"{SLICES}/alone").json == stored
    role = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
    assert http.created(role, {"metadata": {"name": "none"}, "rules": []})["rules"] is None


def test_a_write_that_only_adds_empty_things_is_no_write(http: Http) -> None:
    stored = http.created(SLICES, resource_slice("same"))
    changed = {**stored, "spec": {**stored["spec"], "skipNodeOperations": []}}
    changed["metadata"] = {**stored["metadata"], "labels": {}, "finalizers": []}
    assert http.put(f"{SLICES}/same", changed).json == stored
    labelled = {**changed, "metadata": {**changed["metadata"], "labels": {"a": "b"}}}
    assert http.put(f"{SLICES}/same", labelled).json["metadata"]["generation"] == 1


def test_a_claim_stays_the_same_with_empty_lists_in_its_spec(http: Http) -> None:
    stored = http.created(CLAIMS, claim("spec"))
    devices = {**stored["spec"]["devices"], "constraints": [], "config": []}
    assert http.put(f"{CLAIMS}/spec", {**stored, "spec": {"devices": devices}}).json == stored


def test_nobody_owns_what_is_empty(http: Http) -> None:
    body = {"metadata": {"name": "empty", "labels": {}}, "data": {}, "binaryData": {}}
    assert "managedFields" not in http.created(CONFIG_MAPS, body)["metadata"]


def test_an_empty_list_of_managed_fields_wipes_them(http: Http) -> None:
    stored = http.created(CONFIG_MAPS, config_map("wiped", a="b"))
    stored["metadata"]["managedFields"] = []
    answer = http.put(f"{CONFIG_MAPS}/wiped", stored)
    assert answer.code == 200
    assert "managedFields" not in answer.json["metadata"]


def test_an_immutable_object_takes_no_empty_data_but_where_that_is_the_default(http: Http) -> None:
    stored = http.created(CONFIG_MAPS, {"metadata": {"name": "fixed"}, "immutable": True})
    path = f"{CONFIG_MAPS}/fixed"
    assert http.put(path, stored).json == stored
    assert http.put(path, {**stored, "data": {}}).json == stored
    assert http.patch(path, {"data": {}}, MERGE).json == stored
    text = "Forbidden: field is immutable when `immutable` is set"
    assert causes(http.put(path, {**stored, "binaryData": {}})) == [("binaryData", text)]
    secrets = CONFIG_MAPS.replace("configmaps", "secrets")
    secret = http.created(secrets, {"metadata": {"name": "fixed"}, "immutable": True})
    assert causes(http.put(f"{secrets}/fixed", {**secret, "data": {}})) == [("data", text)]


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC])
def test_claim_statuses_of_a_pod_stay_when_absent_and_go_when_empty(http: Http, kind: str) -> None:
    name = "statuses-" + kind.partition("/")[2].partition("-")[0]
    http.created(PODS, pod(name, resourceClaims=[{"name": "c", "resourceClaimName": "x"}]))
    path = f"{PODS}/{name}/status"
    entry = {"name": "c", "resourceClaimName": "x"}
    http.patch(path, {"status": {"resourceClaimStatuses": [entry]}}, kind)
    current = http.get(path).json
    assert current["status"]["resourceClaimStatuses"] == [entry]
    without = {key: value for key, value in current["status"].items() if key != "resourceClaimStatuses"}
    kept = http.put(path, {**current, "status": without}).json
    assert kept["status"] == current["status"]
    emptied = http.put(path, {**kept, "status": {**without, "resourceClaimStatuses": []}}).json
    assert "resourceClaimStatuses" not in emptied["status"]
