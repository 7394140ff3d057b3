"""Claims that need long searches: lines for one node, made from a name and a size.

Every puzzle is decided by a thought: what is wanted is more than there is, by one, or fits in one late way. The search of
upstream tries all combinations before it knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Object = dict[str, Any]

DRIVER = "gpu.example.com"


def match(size: int) -> Object:
    """More devices of one NUMA node than any has: three with `size` devices each, one after the other in the list."""
    devices = [_device(index, numa=index % 3) for index in range(3 * size)]
    return _line(devices, [_claim([_exactly("gpus", size + 1)], [{"matchAttribute": f"{DRIVER}/numa"}])])


def distinct(size: int) -> Object:
    """One more device on switches of their own than there are switches, each with three devices."""
    devices = [_device(index, switch=index % size) for index in range(3 * size)]
    return _line(devices, [_claim([_exactly("gpus", size + 1)], [{"distinctAttribute": f"{DRIVER}/switch"}])])


def counters(size: int) -> Object:
    """One partition more than the memory of two GPUs gives, each with `size` places and partitions of one or two."""
    devices, sets = [], []
    for gpu in range(2):
        sets.append({"name": f"gpu-{gpu}", "counters": {"memory": {"value": str(size)}}})
        for index in range(size + 2):
            consumed = [{"counterSet": f"gpu-{gpu}", "counters": {"memory": {"value": str(1 + index % 2)}}}]
            devices.append({**_device(100 * gpu + index, numa=gpu), "consumesCounters": consumed})
    ones, rest = size // 2 + 1, size - (size // 2 + 1)
    fitting = 2 * (ones + rest // 2)
    return _line(devices, [_claim([_exactly("parts", fitting + 1)])], sets)


def requests(size: int) -> Object:
    """`size` requests for one device each, and one device less."""
    devices = [_device(index) for index in range(size - 1)]
    return _line(devices, [_claim([_exactly(f"gpu-{index}") for index in range(size)])])


def alternatives(size: int) -> Object:
    """`size` requests, each for two devices or, failing that, one; there is one device less than requests."""
    devices = [_device(index) for index in range(size - 1)]
    wanted = [
        {"name": f"r{index}", "firstAvailable": [_wanted("two", 2), _wanted("one", 1)]}
        for index in range(size)
    ]
    return _line(devices, [_claim(wanted)])


def second_claim(size: int) -> Object:
    """Half of the devices of a model, then a claim for a device of another model, which does not exist."""
    devices = [_device(index) for index in range(size)]
    absent = [{"cel": {"expression": f'device.attributes["{DRIVER}"].model == "other"'}}]
    return _line(
        devices,
        [
            _claim([_exactly("gpus", size // 2)]),
            _claim([_exactly("other", 1, selectors=absent)], name="second"),
        ],
    )


def late(size: int) -> Object:
    """Solvable: half of the devices for the first request, then two of the first three devices for the second."""
    devices = [_device(index, first=index < 3) for index in range(size)]
    first = [{"cel": {"expression": f'device.attributes["{DRIVER}"].first'}}]
    return _line(devices, [_claim([_exactly("any", size // 2), _exactly("first", 2, selectors=first)])])


FAMILIES: dict[str, Callable[[int], Object]] = {
    "match": match,
    "distinct": distinct,
    "counters": counters,
    "requests": requests,
    "alternatives": alternatives,
    "second claim": second_claim,
    "late": late,
}


def _device(index: int, **attributes: int) -> Object:
    found: Object = {"model": {"string": "H200"}, "index": {"int": index}}
    for name, value in attributes.items():
        found[name] = {"bool": value} if isinstance(value, bool) else {"int": value}
    return {"name": f"gpu-{index:03}", "attributes": found}


def _wanted(name: str, count: int) -> Object:
    return {"name": name, "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}


def _exactly(name: str, count: int = 1, **parts: Any) -> Object:
    wanted = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count, **parts}
    return {"name": name, "exactly": wanted}


def _claim(requests: list[Object], constraints: list[Object] | None = None, name: str = "first") -> Object:
    devices: Object = {"requests": requests}
    if constraints:
        devices["constraints"] = constraints
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": devices}}


def _line(devices: list[Object], claims: list[Object], sets: list[Object] | None = None) -> Object:
    pool = {"name": "node", "generation": 1, "resourceSliceCount": 2 if sets else 1}
    common = {"driver": DRIVER, "nodeName": "node", "pool": pool}
    slices = [{"metadata": {"name": "devices"}, "spec": {**common, "devices": devices}}]
    if sets:
        slices.append({"metadata": {"name": "sets"}, "spec": {**common, "sharedCounters": sets}})
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    return {
        "node": {"metadata": {"name": "node"}},
        "claims": claims,
        "deviceClasses": [{"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}],
        "resourceSlices": slices,
    }
