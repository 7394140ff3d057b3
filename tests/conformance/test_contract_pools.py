from __future__ import annotations

from typing import Any

from conformance.contract.claims import Device
from conformance.contract.pools import complete, content, devices, generations


def item(
    name: str, *names: str, pool: str = "p", generation: int = 1, count: int = 1, **more: Any
) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            "devices": [{"name": device, **more} for device in names],
        },
    }


def test_a_pool_is_complete_with_all_slices_of_its_newest_generation() -> None:
    assert not complete([])
    assert complete([item("a"), item("b", pool="q")])
    assert not complete([item("a", count=2)])
    old, new = item("b", generation=1, count=2), item("a", generation=2, count=1)
    assert complete([old, new]) and complete([new, old])
    assert not complete([item("a", count=2), item("b", count=3)])
    assert not complete([item("a"), item("b", pool="q", count=2)])


def test_devices_come_in_the_order_of_pools_and_slices() -> None:
    slices = [item("b", "d3"), item("a", "d2", "d1"), item("z", "d0", pool="a")]
    assert devices(slices) == [Device("a", "d0"), Device("p", "d2"), Device("p", "d1"), Device("p", "d3")]


def test_names_generations_and_times_of_taints_are_no_content() -> None:
    taint = {"key": "k", "effect": "NoSchedule"}
    before = [item("a", "d", taints=[{**taint, "timeAdded": "2026-01-02T03:04:05Z"}]), item("b", "e")]
    after = [
        item("x", "e", generation=4),
        item("y", "d", generation=4, taints=[{**taint, "timeAdded": "later"}]),
    ]
    assert content(before) == content(after)
    assert content(before) != content([item("a", "d"), item("b", "e")])
    assert content([item("a", "d")]) != content([item("a", "d", pool="q")])


def test_the_generation_of_a_pool_is_its_newest() -> None:
    assert generations([item("a", generation=3), item("b", generation=2), item("c", pool="q")]) == {
        "p": 3,
        "q": 1,
    }
