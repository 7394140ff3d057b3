"""Requests: counts, alternatives, selectors, several claims, and what is refused outright."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from allocator_objects import (
    NODE,
    allocate,
    cel,
    claim,
    device,
    device_class,
    every,
    exact,
    first_of,
    in_use,
    make,
    picked,
    resource_slice,
    wanted,
)

from allocator import AllocationCancelledError, AllocationError


def gpus(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [resource_slice("s", [device(f"g{index:02d}", **fields) for index in range(count)])]


def test_exact_count_takes_the_first_free_devices() -> None:
    assert picked(allocate(gpus(4), claim(exact(count=2)), state=in_use("g00", "g02"))) == [
        ["r: pool/g01", "r: pool/g03"]
    ]
    assert allocate(gpus(4), claim(exact(count=3)), state=in_use("g00", "g02")) == []


def test_all_takes_every_matching_device_and_fails_when_one_is_taken() -> None:
    slices = [resource_slice("s", [device("a", index=1), device("b", index=2), device("c", index=3)])]
    above = every(selectors=cel('device.attributes["gpu.example.com"].index > 1'))
    assert picked(allocate(slices, claim(above), state=in_use("a"))) == [["r: pool/b", "r: pool/c"]]
    assert allocate(slices, claim(above), state=in_use("c")) == []
    assert allocate(slices, claim(every(selectors=cel("false")))) == []


def test_all_is_never_more_than_a_claim_can_hold() -> None:
    assert len(picked(allocate(gpus(32), claim(every())))[0]) == 32
    with pytest.raises(AllocationError) as caught:
        allocate(gpus(33), claim(every()))
    assert str(caught.value) == (
        "claim ns/c, request r: adding 33 devices exceeds the claim limit of 32, with 0 already accounted for"
    )


def test_the_limit_counts_all_requests_of_a_claim_and_each_claim_alone() -> None:
    assert len(allocate(gpus(40), claim(exact(count=20)), claim(exact(count=20), name="d"))) == 2
    with pytest.raises(AllocationError) as caught:
        allocate(gpus(40), claim(exact("a", 20), exact("b", 13)))
    assert str(caught.value) == (
        "claim ns/c, request b: adding 13 devices exceeds the claim limit of 32, with 20 already accounted for"
    )


def test_an_alternative_beyond_the_limit_is_passed_over() -> None:
    list_ = first_of("b", wanted(count=20), wanted(count=2))
    results = allocate(gpus(40), claim(exact("a", 20), list_))
    assert picked(results)[0][20:] == ["b/s1: pool/g20", "b/s1: pool/g21"]
    # 16 + 16 fit, so the first list stays with its first choice and only the second gives way.
    both = claim(
        first_of("a", wanted(count=16), wanted(count=1)), first_of("b", wanted(count=17), wanted(count=16))
    )
    assert {entry.split(":")[0] for entry in picked(allocate(gpus(40), both))[0]} == {"a/s0", "b/s1"}


def test_when_no_later_alternative_fits_an_earlier_list_gives_way() -> None:
    both = claim(first_of("a", wanted(count=16), wanted(count=12)), exact("b", 20))
    assert {entry.split(":")[0] for entry in picked(allocate(gpus(40), both))[0]} == {"a/s1", "b"}


def test_alternatives_are_tried_in_order() -> None:
    slices = [resource_slice("s", [device("small", size=1), device("large", size=8)])]
    large = wanted(selectors=cel('device.attributes["gpu.example.com"].size == 8'))
    assert picked(allocate(slices, claim(first_of("r", large, wanted())))) == [["r/s0: pool/large"]]
    assert picked(allocate(slices, claim(first_of("r", large, wanted())), state=in_use("large"))) == [
        ["r/s1: pool/small"]
    ]
    assert allocate(slices, claim(first_of("r", large, large)), state=in_use("large")) == []


def test_earlier_choices_are_given_up_for_later_requests_and_claims() -> None:
    slices = [resource_slice("s", [device("a", nvlink=True), device("b", nvlink=False)])]
    choosy = exact("choosy", selectors=cel('device.attributes["gpu.example.com"].nvlink'))
    assert picked(allocate(slices, claim(exact("any"), choosy))) == [["any: pool/b", "choosy: pool/a"]]
    assert picked(allocate(slices, claim(exact("any")), claim(choosy, name="d"))) == [
        ["any: pool/b"],
        ["choosy: pool/a"],
    ]
    assert allocate(slices, claim(exact("any", 2)), claim(choosy, name="d")) == []


def test_an_impossible_list_makes_earlier_requests_choose_again() -> None:
    slices = [resource_slice("s", [device("a", x=1), device("b", x=2), device("c", x=2), device("d", x=2)])]
    first = wanted(selectors=cel('device.attributes["gpu.example.com"].x == 1'))
    lists = (first_of("y", first), first_of("y", wanted(count=32), first))
    for entry in lists:
        chosen = f"y/s{len(entry['firstAvailable']) - 1}: pool/a"
        assert picked(allocate(slices, claim(exact("x"), entry))) == [["x: pool/b", chosen]]
        assert picked(allocate(slices, claim(exact("x", 3), entry))) == [
            ["x: pool/b", "x: pool/c", "x: pool/d", chosen]
        ]


def test_the_number_of_devices_counts_even_when_the_same_devices_are_shared() -> None:
    shared = [device(f"g{index:02d}", allowMultipleAllocations=True, i=index) for index in range(40)]
    second = cel('device.attributes["gpu.example.com"].i == 1')
    requests = (first_of("x", wanted(count=2), wanted()), exact("y", selectors=second), exact("z", 30))
    # 2 + 1 + 30 > 32, 1 + 1 + 30 = 32; in both cases g00 and g01 have shares before z.
    results = picked(allocate([resource_slice("s", shared)], claim(*requests)))[0]
    assert results[:3] == ["x/s1: pool/g00", "y: pool/g01", "z: pool/g00"]


def test_class_and_request_selectors_must_all_be_true() -> None:
    slices = [resource_slice("s", [device("a", x=1, y=1), device("b", x=1, y=2), device("c", x=2, y=2)])]
    class_ = device_class("gpu", selectors=cel('device.driver == "gpu.example.com"', "int(1) == 1"))
    both = exact(
        deviceClassName="gpu",
        selectors=cel(
            'device.attributes["gpu.example.com"].x == 1', 'device.attributes["gpu.example.com"].y == 2'
        ),
    )
    assert picked(allocate(slices, claim(both), classes=[class_])) == [["r: pool/b"]]
    other = device_class("gpu", selectors=cel('device.driver == "nic.example.com"'))
    assert allocate(slices, claim(both), classes=[other]) == []


def test_an_expression_that_fails_ends_the_attempt_unless_it_is_not_reached() -> None:
    slices = [resource_slice("s", [device("bare"), device("full", x=1)])]
    request = exact(selectors=cel("true", 'device.attributes["gpu.example.com"].x == 1'))
    hint = (
        "no such key: x. consider using CEL optional chaining (.? followed by orValue()) or guarding the check with"
        " has() for optional fields"
    )
    with pytest.raises(AllocationError) as caught:
        allocate(slices, claim(request))
    assert caught.value.scope == "pod"
    assert str(caught.value) == (
        f"claim ns/c: selector #1 on device gpu.example.com/pool/bare: CEL runtime error: {hint}"
    )
    with pytest.raises(AllocationError) as caught:
        class_ = device_class("gpu", selectors=request["exactly"]["selectors"])
        allocate(slices, claim(exact(deviceClassName="gpu")), classes=[class_])
    assert str(caught.value) == (
        f"class gpu: selector #1 on device gpu.example.com/pool/bare: CEL runtime error: {hint}"
    )
    # Devices in use are not asked, nor are those behind the last one that is needed.
    assert picked(allocate(slices, claim(request), state=in_use("bare"))) == [["r: pool/full"]]
    turned = [resource_slice("s", [device("full", x=1), device("bare")])]
    assert picked(allocate(turned, claim(request))) == [["r: pool/full"]]
    with pytest.raises(AllocationError):
        allocate(slices, claim(every(selectors=request["exactly"]["selectors"])), state=in_use("bare"))


def test_an_expression_that_does_not_compile_names_its_owner() -> None:
    with pytest.raises(
        AllocationError, match=r"^claim ns/c: selector #0: CEL compile error: compilation failed: "
    ):
        allocate(gpus(1), claim(exact(selectors=cel("device.nothing"))))
    class_ = device_class("gpu", selectors=cel("1"))
    text = "class gpu: selector #0: CEL compile error: must evaluate to bool or the unknown type, not int"
    with pytest.raises(AllocationError) as caught:
        allocate(gpus(1), claim(exact(deviceClassName="gpu")), classes=[class_])
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("request_", "gates", "text"),
    [
        (
            exact(deviceClassName="nope"),
            {},
            'request r: could not retrieve device class nope: deviceclass.resource.k8s.io "nope" not found',
        ),
        (exact(deviceClassName=""), {}, "request r: missing device class name (unsupported request type?)"),
        (exact(allocationMode="Most"), {}, "request r: unsupported count mode Most"),
        (
            exact(selectors=[{}]),
            {},
            "request r, selector #0: CEL expression empty (unsupported selector type?)",
        ),
        (
            exact(adminAccess=False),
            {"DRAAdminAccess": False},
            "request r: admin access is requested, but the feature is disabled",
        ),
        (
            first_of("r", wanted()),
            {"DRAPrioritizedList": False},
            "request r: has subrequests, but the DRAPrioritizedList feature is disabled",
        ),
        (
            exact(capacity={}),
            {"DRAConsumableCapacity": False},
            "request r: has capacity requests, but the DRAConsumableCapacity feature is disabled",
        ),
        (
            first_of("r", wanted(capacity={})),
            {"DRAConsumableCapacity": False},
            "subrequest s0: has capacity requests, but the DRAConsumableCapacity feature is disabled",
        ),
        (
            exact(derivedAttributes=[{"name": "a.b/c", "expression": "1"}]),
            {},
            "request r: cannot handle request with derived attributes, the feature is disabled",
        ),
        (
            exact(count=2**63 - 1),
            {},
            "request r: adding 9223372036854775807 devices exceeds the claim limit of 32, with 0 already accounted for",
        ),
    ],
)
def test_requests_that_no_node_can_serve_are_errors(
    request_: Mapping[str, Any], gates: dict[str, bool], text: str
) -> None:
    with pytest.raises(AllocationError) as caught:
        allocate([], claim(request_), gates=gates)
    assert (caught.value.scope, str(caught.value)) == ("pod", f"claim ns/c, {text}")


def test_capacity_requests_are_ignored_where_upstream_runs_its_stable_allocator() -> None:
    gates = dict.fromkeys(
        ("DRAConsumableCapacity", "DRAFractionalCapacityRange", "DRADeviceBindingConditions"), False
    )
    slices = [resource_slice("s", [device("a", capacity={"memory": {"value": "4"}})])]
    results = allocate(slices, claim(exact(capacity={"requests": {"memory": "9"}})), gates=gates)
    assert picked(results) == [["r: pool/a"]]


def test_a_claim_without_requests_gets_an_empty_result() -> None:
    assert allocate(gpus(1), claim(), claim(exact(), name="d"))[0] == {"devices": {}}


def test_claims_of_a_node_can_replace_those_of_the_pod() -> None:
    allocator = make(gpus(2), claim(exact(count=3)))
    assert allocator.allocate(NODE) == []
    assert picked(allocator.allocate(NODE, claims=[claim(exact(count=2))])) == [
        ["r: pool/g00", "r: pool/g01"]
    ]


def test_the_search_ends_when_told_to() -> None:
    steps = iter([False] * 5)
    with pytest.raises(AllocationCancelledError) as caught:
        make(gpus(20), claim(exact(count=20))).allocate(NODE, lambda: next(steps, True))
    assert str(caught.value) == "filter operation aborted: context deadline exceeded"


def test_large_claims_do_not_exceed_the_stack() -> None:
    claims = [claim(*(exact(f"r{index}") for index in range(32)), name=f"c{number}") for number in range(20)]
    results = allocate(gpus(640), *claims)
    assert picked(results)[19][31] == "r31: pool/g639"  # 20 claims of 32 devices: 640, the last one is 639


def test_hopeless_searches_end_soon() -> None:
    # 31 of 30 devices: 2**30 subsets. Then equal requests of which the last cannot be served: 12! orders.
    assert allocate(gpus(31), claim(exact(count=31)), state=in_use("g07")) == []
    requests = [exact(f"r{index}") for index in range(12)]
    assert allocate(gpus(12), claim(*requests, exact("more", selectors=cel("false")))) == []
