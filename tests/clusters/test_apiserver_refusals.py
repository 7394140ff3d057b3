"""What a real kube-apiserver 1.37.2 says of invalid objects where this one once said something else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from apiserver_harness import SLICES, Http, connected, resource_slice

TEMPLATES = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates"
POOL_REQUESTS = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests"
GATES = dict.fromkeys(("DRAListTypeAttributes", "DRAResourcePoolStatus", "DRADerivedAttributes"), True)


@pytest.fixture
def http() -> Iterator[Http]:
    with connected(runtime_config={"api/all": True}, feature_gates=GATES) as client:
        yield client


def causes(answer: Any) -> list[tuple[str, str]]:
    assert answer.code == 422, answer.body
    return sorted((cause["field"], cause["message"]) for cause in answer.json["details"]["causes"])


def template(metadata: Any, request: str = "r") -> dict[str, Any]:
    requests = [{"name": request, "exactly": {"deviceClassName": "c"}}]
    return {
        "metadata": {"name": "a"},
        "spec": {"metadata": metadata, "spec": {"devices": {"requests": requests}}},
    }


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"uid": "u"}, "uID"),
        ({"finalizers": []}, "finalizers"),
        ({"deletionGracePeriodSeconds": 0}, "deletionGracePeriodSeconds"),
    ],
)
def test_metadata_of_templates_that_go_does_not_take_for_none(http: Http, metadata: Any, field: str) -> None:
    assert causes(http.post(TEMPLATES, template(metadata))) == [
        (f"spec.metadata.{field}", "Forbidden: cannot be set")
    ]


def test_a_changed_template_is_judged_as_a_new_one_too(http: Http) -> None:
    http.created(TEMPLATES, template({"labels": {}}))
    found = causes(http.put(f"{TEMPLATES}/a", template({"labels": {}}, "R")))
    assert [field for field, _ in found] == ["spec", "spec.spec.devices.requests[0].name"]
    # Empty labels are not shown.
    assert found[0][1].startswith('Invalid value: {"Spec":{"Devices":{"Requests":[{"Name":"R",')


ONE_OF = "`int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
EMPTY = "Invalid value: []: must not be empty if specified"


@pytest.mark.parametrize(
    ("attribute", "messages"),
    [
        ({"strings": []}, [("", f'Invalid value: "": must specify one of: {ONE_OF}'), (".strings", EMPTY)]),
        (
            {"int": 1, "ints": []},
            [
                (
                    "",
                    (
                        'Invalid value: {"IntValue":1,"BoolValue":null,"StringValue":null,"VersionValue":null,'
                        '"IntValues":[],"BoolValues":null,"StringValues":null,"VersionValues":null}: '
                        "exactly one value must be specified"
                    ),
                ),
                (".ints", EMPTY),
            ],
        ),
    ],
)
def test_an_empty_list_of_values_is_one_for_some_rules_and_none_for_others(
    http: Http, attribute: Any, messages: list[tuple[str, str]]
) -> None:
    answer = http.post(SLICES, resource_slice("a", devices=[{"name": "d", "attributes": {"x": attribute}}]))
    path = "spec.devices[0].attributes[x]"
    assert causes(answer) == [(path + below, message) for below, message in messages]


@pytest.mark.parametrize(("selector", "shown"), [({}, "null"), ({"nodeSelectorTerms": []}, "[]")])
def test_missing_terms_are_null(http: Http, selector: Any, shown: str) -> None:
    body = resource_slice("a", devices=[])
    del body["spec"]["nodeName"]
    body["spec"]["nodeSelector"] = selector
    found = causes(http.post(SLICES, body))
    assert found[0][1] == f"Invalid value: {shown}: must have exactly one node selector term"


def test_a_refused_slice_gets_no_warnings(http: Http) -> None:
    body = resource_slice("a", devices=[])
    body["spec"]["driver"] = "GPU.example.com"
    body["spec"]["pool"]["generation"] = -1
    answer = http.post(SLICES, body)
    assert (answer.code, answer.headers.get("Warning")) == (422, None)
    body["spec"]["pool"]["generation"] = 0
    assert "driver names should be lowercase" in http.post(SLICES, body).headers["Warning"]


def test_the_status_of_a_pool_is_written_once(http: Http) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"driver": "d"}}
    body = http.created(POOL_REQUESTS, body)
    body["status"] = {"poolCount": 0}
    body = http.put(f"{POOL_REQUESTS}/a/status", body).json
    body["status"]["poolCount"] = 1
    text = 'Invalid value: {"PoolCount":1,"Pools":null,"Conditions":null}: field is immutable'
    assert causes(http.put(f"{POOL_REQUESTS}/a/status", body)) == [("status", text)]
    del body["status"]
    assert causes(http.put(f"{POOL_REQUESTS}/a/status", body)) == [
        ("status", "Invalid value: null: field is immutable")
    ]


CLAIMS = "/apis/resource.k8s.io/{}/namespaces/default/resourceclaims"


def test_a_request_that_comes_twice_is_shown_as_go_has_it(http: Http) -> None:
    request = {"name": "r0", "exactly": {"count": 4, "deviceClassName": "c", "capacity": {"requests": {}}}}
    body = {"metadata": {"name": "a"}, "spec": {"devices": {"requests": [request, request]}}}
    text = (
        'Duplicate value: {"name":"r0","exactly":{"deviceClassName":"c","allocationMode":"ExactCount","count":4,'
        '"capacity":{}}}'
    )
    assert causes(http.post(CLAIMS.format("v1"), body)) == [("spec.devices.requests[1]", text)]


def test_empty_tolerations_are_none_in_the_oldest_version(http: Http) -> None:
    request = {"name": "r0", "deviceClassName": "c", "tolerations": [], "selectors": []}
    path = TEMPLATES.replace("v1", "v1beta1")
    body = {"metadata": {"name": "a"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    http.created(path, body)
    request["count"] = 2
    message = dict(causes(http.put(f"{path}/a", body)))["spec"]
    assert (
        '"Selectors":[],"AllocationMode":"ExactCount","Count":2,"AdminAccess":null,"Tolerations":null,'
        in message
    )


def test_parameters_that_are_taken_away_change_an_allocation(http: Http) -> None:
    requests = [{"name": "r", "exactly": {"deviceClassName": "c"}}]
    path = CLAIMS.format("v1")
    body = http.created(path, {"metadata": {"name": "a"}, "spec": {"devices": {"requests": requests}}})
    config = {"source": "FromClass", "opaque": {"driver": "d", "parameters": {}}}
    result = {"request": "r", "driver": "d", "pool": "p", "device": "x"}
    body["status"] = {"allocation": {"devices": {"results": [result], "config": [config]}}}
    body = http.put(f"{path}/a/status", body).json
    del body["status"]["allocation"]["devices"]["config"][0]["opaque"]["parameters"]
    assert causes(http.put(f"{path}/a/status", body)) == [
        ("status.allocation", "Invalid value: null: field cannot be modified once set")
    ]


def test_items_of_a_list_that_is_too_long_are_judged_by_some_rules(http: Http) -> None:
    name = "gpu.example.com/model"
    attributes = [{"name": name, "expression": '"a"'} for _ in range(33)]
    del attributes[20]["name"]
    request = {"name": "r0", "exactly": {"deviceClassName": "c", "derivedAttributes": attributes}}
    constraints = [{"matchAttribute": name}]
    body = {
        "metadata": {"name": "a"},
        "spec": {"devices": {"requests": [request], "constraints": constraints}},
    }
    where = "spec.devices.requests[0].exactly.derivedAttributes"
    assert {field for field, _ in causes(http.post(CLAIMS.format("v1"), body))} == {
        where, *(f"{where}[{index}]" for index in range(1, 33) if index != 20)
    }  # fmt: skip
