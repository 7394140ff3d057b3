"""What allocation results say: devices, configuration and node selector."""

from __future__ import annotations

from typing import Any

import pytest
from allocator_objects import (
    DRIVER,
    NODE,
    allocate,
    claim,
    device,
    device_class,
    exact,
    first_of,
    picked,
    resource_slice,
    wanted,
)

from allocator import AllocationError


def opaque(value: int) -> dict[str, Any]:
    return {"opaque": {"driver": DRIVER, "parameters": {"value": value}}}


def config(devices: dict[str, Any]) -> list[tuple[str, list[str], int]]:
    """(source, requests, value) of each configuration."""
    return [
        (entry["source"], entry.get("requests", []), entry["opaque"]["parameters"]["value"])
        for entry in devices.get("config", [])
    ]


def only(slices: list[dict[str, Any]], *arguments: Any, **options: Any) -> dict[str, Any]:
    [result] = allocate(slices, *arguments, **options)
    return result


TWO = [resource_slice("s", [device("a"), device("b"), device("c")])]


def test_results_carry_what_the_request_and_the_device_say() -> None:
    bound = device("a", bindingConditions=["ready"], bindingFailureConditions=["broken"])
    toleration = {"key": "k", "operator": "Exists"}
    result = only([resource_slice("s", [bound])], claim(first_of("r", wanted(tolerations=[toleration]))))
    assert result["devices"]["results"] == [
        {
            "request": "r/s0",
            "driver": DRIVER,
            "pool": "pool",
            "device": "a",
            "tolerations": [toleration],
            "bindingConditions": ["ready"],
            "bindingFailureConditions": ["broken"],
        }
    ]


def test_configuration_of_a_class_comes_first_and_once_for_all_its_requests() -> None:
    classes = [device_class("gpu", config=[opaque(1), opaque(2)]), device_class("nic", config=[opaque(3)])]
    requests = [
        exact("a", deviceClassName="gpu"),
        exact("b", deviceClassName="nic"),
        exact("c", deviceClassName="gpu"),
    ]
    result = only(TWO, claim(*requests, config=[{"requests": ["b"], **opaque(4)}]), classes=classes)
    assert config(result["devices"]) == [
        ("FromClass", ["a", "c"], 1),
        ("FromClass", ["a", "c"], 2),
        ("FromClass", ["b"], 3),
        ("FromClaim", ["b"], 4),
    ]


def test_configuration_for_all_requests_names_none() -> None:
    classes = [device_class("gpu", config=[opaque(1)])]
    requests = [exact("a", deviceClassName="gpu"), first_of("b", wanted(deviceClassName="gpu"))]
    settings = [{"requests": ["a", "b/s0"], **opaque(2)}, {"requests": ["b", "a"], **opaque(3)}, opaque(4)]
    result = only(TWO, claim(*requests, config=settings), classes=classes)
    assert [entry[1] for entry in config(result["devices"])] == [[], [], [], []]


def test_configuration_for_alternatives_that_were_not_chosen_is_dropped() -> None:
    never = wanted(count=9)
    settings = [
        {"requests": ["a/s0"], **opaque(1)},
        {"requests": ["a/s1"], **opaque(2)},
        {"requests": ["a"], **opaque(3)},
        {"requests": ["a/s0", "a/s1"], **opaque(4)},
    ]
    classes = [device_class("gpu", config=[opaque(0)])]
    chosen = wanted(deviceClassName="gpu")
    result = only(TWO, claim(first_of("a", never, chosen), exact("b"), config=settings), classes=classes)
    assert config(result["devices"]) == [
        ("FromClass", ["a/s1"], 0),
        ("FromClaim", ["a/s1"], 2),
        ("FromClaim", ["a"], 3),
        ("FromClaim", ["a/s0", "a/s1"], 4),
    ]


def test_inputs_are_not_changed() -> None:
    class_ = device_class("gpu", config=[opaque(1)])
    settings = [{"requests": ["a"], **opaque(2)}]
    given = claim(exact("a", deviceClassName="gpu"), config=settings)
    only(TWO, given, classes=[class_])
    assert class_["spec"]["config"] == [opaque(1)]
    assert settings == [{"requests": ["a"], **opaque(2)}]


def on(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def where(*expressions: dict[str, Any], fields: Any = ()) -> dict[str, Any]:
    term: dict[str, Any] = {"matchExpressions": list(expressions)} if expressions else {}
    if fields:
        term["matchFields"] = list(fields)
    return {"nodeSelector": {"nodeSelectorTerms": [term]}}


THIS_NODE = {"nodeSelectorTerms": [{"matchFields": [on("metadata.name", "worker")]}]}


def selector(*slices: dict[str, Any]) -> Any:
    return only(list(slices), claim(exact(count=len(slices)))).get("nodeSelector")


def test_devices_for_all_nodes_bind_to_none() -> None:
    assert selector(resource_slice("s", [device("a")])) is None


def test_one_local_device_binds_the_claim_to_the_node() -> None:
    local = resource_slice("l", [device("a")], pool="l", nodeName="worker")
    spread = resource_slice("s", [device("a")], pool="s", **where(on("zone", "east")))
    assert selector(local) == THIS_NODE
    assert selector(spread, local) == THIS_NODE


def test_a_device_can_bind_to_the_node_where_it_was_allocated() -> None:
    assert selector(resource_slice("s", [device("a", bindsToNode=True)])) == THIS_NODE


def test_requirements_of_all_devices_are_merged() -> None:
    first = resource_slice("a", [device("a")], pool="a", **where(on("zone", "east", "west"), on("rack", "7")))
    second = resource_slice(
        "b",
        [device("b")],
        pool="b",
        **where(on("zone", "west", "east"), fields=[on("metadata.name", "worker")]),
    )
    assert selector(first, second) == {
        "nodeSelectorTerms": [
            {
                "matchExpressions": [on("zone", "east", "west"), on("rack", "7")],
                "matchFields": [on("metadata.name", "worker")],
            }
        ]
    }


def test_devices_can_have_node_selectors_of_their_own() -> None:
    own = device("a", **where(on("zone", "east")))
    assert selector(resource_slice("s", [own], perDeviceNodeSelection=True)) == {
        "nodeSelectorTerms": [{"matchExpressions": [on("zone", "east")]}]
    }


def test_a_selector_of_several_terms_cannot_be_merged() -> None:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [on("zone", "east")]}] * 2}
    with pytest.raises(AllocationError) as caught:
        allocate([resource_slice("s", [device("a")], nodeSelector=terms)], claim(exact()))
    assert str(caught.value) == (
        "create NodeSelector for claim c: unsupported ResourceSlice.NodeSelector with 2 terms"
    )


def test_optional_node_operations_need_gate_and_node() -> None:
    skipping = resource_slice("s", [device("a")], allNodes=True, skipNodeOperations=["All"])
    gates = {"DRAOptionalNodeOperations": True}
    able = {**NODE, "status": {"declaredFeatures": ["DRAOptionalNodeOperations"]}}
    assert allocate([skipping], claim(exact()), gates=gates) == []
    [result] = allocate([skipping], claim(exact()), gates=gates, node=able)
    assert result["devices"]["results"][0]["skipNodeOperations"] == ["All"]
    # Without any alpha gate upstream runs an implementation that does not know the field.
    [plain] = allocate([skipping], claim(exact()))
    assert "skipNodeOperations" not in plain["devices"]["results"][0]
    assert allocate([skipping], claim(exact()), gates={"DRAListTypeAttributes": True}, node=able) == []


def test_equal_inputs_give_equal_results() -> None:
    slices = [resource_slice(f"s{index}", [device("a")], pool=f"p{index}") for index in range(5)]
    wanted_ = claim(exact(count=3))
    assert allocate(slices, wanted_) == allocate(slices[::-1], wanted_)
    assert picked(allocate(slices[::-1], wanted_)) == [["r: p0/a", "r: p1/a", "r: p2/a"]]
