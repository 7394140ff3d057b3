"""JSON documents in, JSON documents out: `drakit allocate --jsonl`."""

from __future__ import annotations

from typing import Any

import pytest
from allocator_objects import DRIVER, NODE, claim, device, device_class, exact, resource_slice

from allocator.lines import LineError, allocation_answer

SHARE = "11111111-1111-1111-1111-111111111111"


def line(*devices: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {
        "node": NODE,
        "claims": [claim(exact())],
        "deviceClasses": [device_class("any")],
        "resourceSlices": [resource_slice("s", devices, pool="rack/p")],
        **parts,
    }


def devices_of(answer: dict[str, Any]) -> list[str]:
    return [entry["device"] for result in answer["results"] for entry in result["devices"]["results"]]


def test_results_are_those_of_the_scheduler() -> None:
    result = {"request": "r", "driver": DRIVER, "pool": "rack/p", "device": "d0"}
    assert allocation_answer(line(device("d0"))) == {"results": [{"devices": {"results": [result]}}]}


def test_no_results_mean_that_the_node_cannot_serve_the_claims() -> None:
    assert allocation_answer(line()) == {"results": []}


def test_devices_in_use_are_named_by_driver_pool_and_device() -> None:
    allocated = {"devices": [f"{DRIVER}/rack/p/d0"]}
    assert devices_of(allocation_answer(line(device("d0"), device("d1"), allocated=allocated))) == ["d1"]


def test_what_shares_consume_counts() -> None:
    shared = device("d0", allowMultipleAllocations=True, capacity={"m": {"value": "4"}})
    request = claim(exact(capacity={"requests": {"m": "2"}}))
    name = f"{DRIVER}/rack/p/d0"
    for consumed, expected in (("2", ["d0"]), ("3", [])):
        allocated = {"shared": [f"{name}/{SHARE}"], "capacity": {name: {"m": consumed}}}
        answer = allocation_answer(line(shared, claims=[request], allocated=allocated))
        assert devices_of(answer) == expected, consumed


def test_an_error_of_the_claims_concerns_the_pod() -> None:
    assert allocation_answer(line(device("d0"), deviceClasses=[])) == {
        "error": "claim ns/c, request r: could not retrieve device class any:"
        ' deviceclass.resource.k8s.io "any" not found',
        "scope": "pod",
    }


def test_an_invalid_pool_concerns_the_node() -> None:
    answer = allocation_answer(line(device("d0"), device("d0")))
    assert answer == {"error": "invalid resource pools were encountered", "scope": "node"}


def test_gates_that_are_not_named_have_the_defaults_of_1_37() -> None:
    tainted = device("d0", taints=[{"key": "k", "effect": "NoSchedule"}])
    assert allocation_answer(line(tainted)) == {"results": []}
    assert devices_of(allocation_answer(line(tainted, featureGates={"DRADeviceTaints": False}))) == ["d0"]


def test_the_experimental_allocator_answers_whatever_the_gates() -> None:
    document = line(device("d0"))
    document["resourceSlices"][0]["spec"]["skipNodeOperations"] = ["NodePrepareResources"]
    assert allocation_answer(document) == {"results": []}
    # With these gates a scheduler runs the incubating one, which does not know the field.
    assert devices_of(allocation_answer(document, implementation=None)) == ["d0"]


def test_a_list_that_is_null_is_empty() -> None:
    assert allocation_answer({"node": NODE, "claims": None, "resourceSlices": None}) == {"results": []}


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ({"node": None}, "node: must be an object"),
        ({"node": {"metadata": {}}}, "node: metadata.name is needed"),
        ({"claims": [{"metadata": {"name": "c"}}]}, "claims[0].spec: must be an object"),
        ({"featureGates": {"DRAAdminAccess": "on"}}, "featureGates.DRAAdminAccess: must be true or false"),
        ({"allocated": {"devices": ["d0"]}}, 'allocated.devices: "d0" is not DRIVER/POOL/DEVICE'),
        (
            {"allocated": {"capacity": {"a/b/c": {"m": "x"}}}},
            'allocated.capacity["a/b/c"]: quantities must match',
        ),
    ],
)
def test_a_document_that_cannot_be_read_is_refused_with_the_place(
    broken: dict[str, Any], problem: str
) -> None:
    with pytest.raises(LineError) as caught:
        allocation_answer(line(device("d0"), **broken))
    assert problem in str(caught.value)
