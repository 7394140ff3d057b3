"""Consumable capacity: what a share takes, and what is left."""

from __future__ import annotations

from typing import Any

import pytest
from allocator_objects import DRIVER, allocate, claim, device, every, exact, in_use, picked, resource_slice

from allocator import AllocatedState, AllocationError, DeviceID, SharedDeviceID
from dra_api.quantity import Quantity

IS_A = 'device.attributes["gpu.example.com"].?a.orValue(false)'
RANGE = "capacity request cannot be represented in the device's range arithmetic: "


def shared(name: str, **capacity: Any) -> dict[str, Any]:
    return device(name, allowMultipleAllocations=True, capacity=entries(capacity))


def entries(capacity: dict[str, Any]) -> dict[str, Any]:
    return {key: value if isinstance(value, dict) else {"value": value} for key, value in capacity.items()}


def asks(name: str = "r", count: int = 1, **amounts: str) -> dict[str, Any]:
    return exact(name, count, capacity={"requests": amounts})


def ranged(value: str, least: str, step: str = "", most: str = "", default: str = "1") -> dict[str, Any]:
    limits = {"min": least, **({"step": step} if step else {}), **({"max": most} if most else {})}
    return {"value": value, "requestPolicy": {"default": default, "validRange": limits}}


def listed(value: str, *values: str, default: str = "1") -> dict[str, Any]:
    return {"value": value, "requestPolicy": {"default": default, "validValues": list(values)}}


def consumed(devices: list[dict[str, Any]], request: dict[str, Any], **options: Any) -> list[Any]:
    """What the shares of one claim consume; empty when there is no solution."""
    results = allocate([resource_slice("s", devices)], claim(request), **options)
    return [entry.get("consumedCapacity") for result in results for entry in result["devices"]["results"]]


def used(**amounts: str) -> AllocatedState:
    """A share of device `a` that consumes these amounts."""
    identity = DeviceID(DRIVER, "pool", "a")
    capacity = {identity: {name: Quantity.parse(text) for name, text in amounts.items()}}
    return AllocatedState(shares=frozenset({SharedDeviceID(identity, "other")}), capacity=capacity)


def test_shares_of_one_device_go_to_several_requests_and_claims() -> None:
    slices = [resource_slice("s", [shared("a", memory="10")])]
    results = allocate(
        slices, claim(asks("x", memory="4"), asks("y", memory="4")), claim(asks(memory="2"), name="d")
    )
    assert picked(results) == [["x: pool/a", "y: pool/a"], ["r: pool/a"]]
    shares = [entry["shareID"] for result in results for entry in result["devices"]["results"]]
    assert shares == ["share-1", "share-2", "share-3"]
    # 4 + 4 + 3 > 10
    assert allocate(slices, claim(asks("x", memory="4"), asks("y", memory="4"), asks("z", memory="3"))) == []


def test_a_request_gets_a_device_once() -> None:
    assert consumed([shared("a", memory="10")], asks(count=2, memory="1")) == []
    assert len(consumed([shared("a", memory="10"), shared("b", memory="10")], asks(count=2, memory="1"))) == 2


def test_every_capacity_is_consumed_at_least_by_default_or_whole() -> None:
    policy = {"value": "8", "requestPolicy": {"default": "2"}}
    assert consumed([shared("a", memory="10", engines="4", bandwidth=policy)], asks(memory="3")) == [
        {"bandwidth": "2", "engines": "4", "memory": "3"}
    ]


def test_a_device_of_one_claim_has_no_share_but_must_be_large_enough() -> None:
    slices = [resource_slice("s", [device("a", capacity={"memory": {"value": "4"}}), device("b")])]
    [result] = allocate(slices, claim(asks(memory="4")))
    assert result["devices"]["results"] == [{"request": "r", "driver": DRIVER, "pool": "pool", "device": "a"}]
    assert allocate(slices, claim(asks(memory="5"))) == []


def test_a_shareable_device_without_capacity_is_shared_without_limit() -> None:
    slices = [resource_slice("s", [device("a", allowMultipleAllocations=True)])]
    [result] = allocate(slices, claim(*(exact(f"r{index}") for index in range(32))))
    assert {entry["device"] for entry in result["devices"]["results"]} == {"a"}
    assert all("consumedCapacity" not in entry and entry["shareID"] for entry in result["devices"]["results"])


FRACTIONS = {"DRAFractionalCapacityRange": True}


def test_capacity_names_are_literal() -> None:
    assert consumed([shared("a", memory="4")], exact(capacity={"requests": {f"{DRIVER}/memory": "1"}})) == []


def test_what_other_claims_consume_is_not_there() -> None:
    assert consumed([shared("a", memory="10")], asks(memory="4"), state=used(memory="6")) == [{"memory": "4"}]
    assert consumed([shared("a", memory="10")], asks(memory="5"), state=used(memory="6")) == []
    assert consumed([shared("a", memory="10")], asks(memory="1"), state=in_use("a")) == []


@pytest.mark.parametrize(
    ("request_", "limits", "need"),
    [
        ("3", ranged("100", "1", "2"), "3"),  # 1, 3, 5, ...
        ("4", ranged("100", "1", "2"), "5"),
        ("500m", ranged("100", "1", "2"), "1"),
        ("-3", ranged("100", "1", "2"), "1"),
        ("7500m", ranged("100", "1"), "7500m"),
        ("5", ranged("100", "1", "2", "4"), None),  # above max
        ("4", ranged("100", "1", "2", "4"), None),  # the next step, 5, is above max
        ("1100m", ranged("100", "500m", "250m"), "1250m"),
        ("1300m", ranged("100", "500m", "250m"), "1500m"),
        ("1600m", ranged("100", "500m", "500m"), "2"),
        ("3Gi", ranged("100Gi", "1Gi", "2Gi"), "3Gi"),
        ("4Gi", ranged("100Gi", "1Gi", "2Gi"), "5Gi"),
        ("1", listed("100", "1", "2", "8"), "1"),
        ("3", listed("100", "1", "2", "8"), "8"),
        ("9", listed("100", "1", "2", "8"), None),
        ("1500m", listed("100", "1", "2"), "2"),
    ],
)
def test_requests_are_rounded_up_to_what_the_policy_allows(
    request_: str, limits: dict[str, Any], need: str | None
) -> None:
    expected = [] if need is None else [{"memory": need}]
    assert consumed([shared("a", memory=limits)], asks(memory=request_), gates=FRACTIONS) == expected


def test_steps_are_whole_numbers_without_the_gate_for_fractions() -> None:
    # Read as whole numbers: least 1 (500m), step 1 (250m), so 1100m (2) becomes 2.
    assert consumed([shared("a", memory=ranged("100", "500m", "250m"))], asks(memory="1100m")) == [
        {"memory": "2"}
    ]


@pytest.mark.parametrize(
    ("request_", "limits", "text"),
    [
        ("-1", {"value": "4"}, "capacity value is negative"),
        (
            "8E",
            ranged("9E", "1", "5E"),
            RANGE + "rounding request 8E up to the next step passes MaxInt64",
        ),
        (
            "10E",
            ranged("9E", "1", "1E"),
            RANGE + "request 10E exceeds MaxInt64",
        ),
        (
            "1100u",
            ranged("9", "1m", "1m"),
            RANGE + "request 1100u is not a representable milli value",
        ),
    ],
)
@pytest.mark.parametrize("mode", ["exact", "all"])
def test_requests_that_no_arithmetic_can_serve_are_errors(
    request_: str, limits: dict[str, Any], text: str, mode: str
) -> None:
    request = asks(memory=request_) if mode == "exact" else every(capacity={"requests": {"memory": request_}})
    where = f"{DRIVER}/pool/a" if mode == "exact" else "a"
    with pytest.raises(AllocationError) as caught:
        allocate([resource_slice("s", [shared("a", memory=limits)])], claim(request), gates=FRACTIONS)
    assert (caught.value.scope, str(caught.value)) == (
        "pod",
        f'claim ns/c, request r: checking capacity for device {where}: capacity "memory": {text}',
    )


def test_all_leaves_out_devices_that_are_too_small_but_not_those_that_are_full() -> None:
    slices = [resource_slice("s", [shared("a", memory="10"), shared("b", memory="2")])]
    request = every(capacity={"requests": {"memory": "4"}})
    assert picked(allocate(slices, claim(request))) == [["r: pool/a"]]
    assert allocate(slices, claim(request), state=used(memory="8")) == []


def test_sharing_is_off_without_the_gate() -> None:
    slices = [resource_slice("s", [shared("a", memory="10")])]
    gates = {"DRAConsumableCapacity": False}
    [result] = allocate(slices, claim(exact()), gates=gates)
    assert result["devices"]["results"] == [{"request": "r", "driver": DRIVER, "pool": "pool", "device": "a"}]
    assert allocate(slices, claim(exact("x"), exact("y")), gates=gates) == []


def test_a_share_that_is_given_up_gives_back_its_capacity() -> None:
    slices = [resource_slice("s", [shared("a", memory="4"), shared("b", memory="4")])]
    amount = {"requests": {"memory": "4"}}
    only_a = exact("y", capacity=amount, selectors=[{"cel": {"expression": IS_A}}])
    slices[0]["spec"]["devices"][0]["attributes"] = {"a": {"bool": True}}
    # x begins with a, which leaves nothing for y.
    assert picked(allocate(slices, claim(asks("x", memory="4"), only_a))) == [["x: pool/b", "y: pool/a"]]
