"""Requests with alternatives, and searches that go back: what was tried first must not matter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.allocation.fixtures import await_slices, device_names, scheduled_devices
from conformance.catalogue import requirement
from conformance.cluster.bench import ClusterBench
from conformance.cluster.manifests import Object, device, opaque, request
from conformance.model import check

_MOST_ALTERNATIVES = 8


def _request(name: str, *choices: Mapping[str, Any]) -> Object:
    return {"name": name, "firstAvailable": [dict(choice) for choice in choices]}


def _choice(device_class: str, name: str, **fields: Any) -> Object:
    return {"name": name, "deviceClassName": device_class, **fields}


def _kind(bench: ClusterBench, kind: str) -> list[Object]:
    expression = f'device.attributes["{bench.driver_name}"].?kind.orValue("") == "{kind}"'
    return [{"cel": {"expression": expression}}]


@requirement("ALC-ALT-01")
def first_alternative(bench: ClusterBench) -> None:
    bench.publish("dev-0", "dev-1")
    name = bench.make_class()
    choices = [_choice(name, word, count=count) for word, count in (("three", 3), ("two", 2), ("one", 1))]
    bench.make_claim("claim", _request("gpus", *choices))
    scheduled_devices(bench)
    results = (bench.allocation("claim") or {})["devices"]["results"]
    found = [(result["request"], result["device"]) for result in results]
    expected = [("gpus/two", "dev-0"), ("gpus/two", "dev-1")]
    check(found == expected, "two devices for gpus/two, since there are no three", found)


@requirement("ALC-ALT-02")
def best_node(bench: ClusterBench) -> None:
    worse, better = bench.nodes[:2]
    # Whoever does not look at alternatives takes either node; two claims, each of which has its say.
    bench.publish(device("old-0", {"kind": "old"}), device("old-1", {"kind": "old"}), node=worse)
    bench.publish(device("new-0", {"kind": "new"}), device("new-1", {"kind": "new"}), node=better)
    await_slices(bench)
    name = bench.make_class()
    late = [
        _choice(name, f"none-{number}", selectors=_kind(bench, "none"))
        for number in range(_MOST_ALTERNATIVES - 2)
    ]
    for claim in ("one", "two"):
        choices = [
            _choice(name, "new", selectors=_kind(bench, "new")),
            *late,
            _choice(name, "old", selectors=_kind(bench, "old")),
        ]
        bench.make_claim(claim, _request("gpu", *choices))
    bench.make_pod("pod", claims={"one": "one", "two": "two"})
    node = bench.wait_scheduled("pod")
    check(node == better.name, f"{better.name}, where both requests get their first alternative", node)
    found = sorted(device_names(bench, "one") + device_names(bench, "two"))
    check(found == ["new-0", "new-1"], "the devices new-0 and new-1", found)


@requirement("ALC-ALT-03")
def configuration_of_alternatives(bench: ClusterBench) -> None:
    bench.publish("dev-0", "dev-1")
    name = bench.make_class()
    names = ["req0/s0", "req0/s1"]
    bench.make_claim(
        "claim",
        _request("req0", _choice(name, "s0"), _choice(name, "s1")),
        request(name, "req1"),
        configs=[opaque(bench.driver_name, {"for": "req0"}, names)],
    )
    scheduled_devices(bench)
    config = (bench.allocation("claim") or {})["devices"].get("config") or []
    found = [entry.get("requests") for entry in config if entry["source"] == "FromClaim"]
    check(found == [names], f"one configuration, for {' and '.join(names)} alone", found)


@requirement("ALC-ALT-04")
def shared_values(bench: ClusterBench) -> None:
    numa = {"d1": [1, 2], "d2": [1], "d3": [2], "d4": [2]}
    bench.publish(*(device(name, {"numa": {"ints": values}}) for name, values in numa.items()))
    constraint = {"matchAttribute": f"{bench.driver_name}/numa"}
    bench.make_claim("claim", request(bench.make_class(), count=3), constraints=[constraint])
    # d1 with d2 have 1 in common, which nobody else has: the search has to go back to d1 alone.
    found = scheduled_devices(bench)
    check(found == ["d1", "d3", "d4"], "d1, d3 and d4, which have 2 in common", found)
