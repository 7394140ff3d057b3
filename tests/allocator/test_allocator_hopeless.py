"""The search leaves out what is hopeless: it still finds the first solution in upstream's order, and none only where
there is none. Compared with trying everything, with no rule applied before all devices are chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest

from allocator.lines import allocation_answer
from benchmarks import puzzles

SMALL = {
    "match": 3,
    "distinct": 3,
    "counters": 3,
    "requests": 6,
    "alternatives": 4,
    "second claim": 6,
    "late": 8,
}
PASSES = {
    puzzles.SELECTORS[0]: lambda device: value(device, "old"),
    puzzles.SELECTORS[1]: lambda device: not value(device, "old"),
    puzzles.SELECTORS[2]: lambda device: value(device, "numa") != 1,
    puzzles.SELECTORS[3]: lambda device: value(device, "switch") < 2,
    f'device.attributes["{puzzles.DRIVER}"].model == "other"': lambda device: False,
    f'device.attributes["{puzzles.DRIVER}"].first': lambda device: value(device, "first"),
}
Device = Mapping[str, Any]
Chosen = tuple[int, str, str, Mapping[str, Any], Sequence[Device]]
"""Claim, request, alternative, what was wanted, and the devices."""


def value(device: Device, name: str) -> Any:
    return next(iter(device["attributes"][name].values()))


def solutions(line: Mapping[str, Any]) -> Iterator[list[Chosen]]:
    """All combinations in upstream's order that keep every rule."""
    slices = sorted(line["resourceSlices"], key=lambda entry: entry["metadata"]["name"])
    devices = [device for entry in slices for device in entry["spec"].get("devices", ())]
    taken = {name.rpartition("/")[2] for name in line.get("allocated", {}).get("devices", ())}
    requests = [
        (index, request)
        for index, claim in enumerate(line["claims"])
        for request in claim["spec"]["devices"]["requests"]
    ]
    for chosen in choices(requests, [device for device in devices if device["name"] not in taken]):
        if keeps_constraints(line, chosen) and keeps_counters(line, devices, taken, chosen):
            yield chosen


def choices(requests: Sequence[Any], free: Sequence[Device]) -> Iterator[list[Chosen]]:
    if not requests:
        yield []
        return
    (claim, request), *others = requests
    for wanted in request.get("firstAvailable") or (request["exactly"],):
        fitting = [device for device in free if selected(wanted, device)]
        for devices in combinations(fitting, wanted["count"]):
            names = {device["name"] for device in devices}
            for rest in choices(others, [device for device in free if device["name"] not in names]):
                yield [(claim, request["name"], wanted.get("name", ""), wanted, devices), *rest]


def selected(wanted: Mapping[str, Any], device: Device) -> bool:
    return all(PASSES[entry["cel"]["expression"]](device) for entry in wanted.get("selectors", ()))


def keeps_constraints(line: Mapping[str, Any], chosen: Sequence[Chosen]) -> bool:
    for index, claim in enumerate(line["claims"]):
        for constraint in claim["spec"]["devices"].get("constraints", ()):
            named = constraint.get("requests")
            kind = "matchAttribute" if "matchAttribute" in constraint else "distinctAttribute"
            values = [
                value(device, constraint[kind].rpartition("/")[2])
                for owner, request, _, _, devices in chosen
                if owner == index and (not named or request in named)
                for device in devices
            ]
            if len(set(values)) > 1 if kind == "matchAttribute" else len(set(values)) < len(values):
                return False
    return True


def keeps_counters(
    line: Mapping[str, Any], devices: Sequence[Device], taken: set[str], chosen: Sequence[Chosen]
) -> bool:
    left = {
        entry["name"]: Fraction(entry["counters"]["memory"]["value"])
        for slice_ in line["resourceSlices"]
        for entry in slice_["spec"].get("sharedCounters", ())
    }

    def take(device: Device) -> None:
        for entry in device.get("consumesCounters", ()):
            left[entry["counterSet"]] -= Fraction(entry["counters"]["memory"]["value"])

    for device in devices:
        if device["name"] in taken:
            take(device)
    for *_, picked in chosen:
        for device in picked:
            take(device)
            if device.get("consumesCounters") and min(left.values()) < 0:
                return False
    return True


def named(chosen: Sequence[Chosen]) -> list[tuple[int, str, str]]:
    return [
        (claim, f"{request}/{alternative}" if alternative else request, device["name"])
        for claim, request, alternative, _, devices in chosen
        for device in devices
    ]


def answered(line: Mapping[str, Any]) -> list[tuple[int, str, str]]:
    return [
        (claim, result["request"], result["device"])
        for claim, allocation in enumerate(allocation_answer(line)["results"])
        for result in allocation["devices"]["results"]
    ]


def expected(line: Mapping[str, Any]) -> list[tuple[int, str, str]]:
    first = next(solutions(line), None)
    return [] if first is None else named(first)


@pytest.mark.parametrize("seed", range(300))
def test_the_first_solution_is_found_and_none_only_where_there_is_none(seed: int) -> None:
    line = puzzles.mixed(seed, 6)
    assert answered(line) == expected(line)


def test_random_puzzles_are_of_both_kinds() -> None:
    solvable = [bool(answered(puzzles.mixed(seed, 6))) for seed in range(300)]
    assert 60 < sum(solvable) < 240


@pytest.mark.parametrize("family", SMALL)
def test_families_of_the_benchmark_have_the_answer_of_trying_everything(family: str) -> None:
    line = puzzles.FAMILIES[family](SMALL[family])
    assert answered(line) == expected(line)
    assert bool(answered(line)) == (family == "late")
