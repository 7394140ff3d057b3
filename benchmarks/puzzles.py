"""Claims that need long searches: lines for one node, made from a name and a size.

Families are decided by a thought: what is wanted is more than there is, by one, or fits in one late way. The search of
upstream tries all combinations before it knows. `mixed` puzzles are drawn at random.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Object = dict[str, Any]

DRIVER = "gpu.example.com"
SELECTORS = (
    f'device.attributes["{DRIVER}"].old',
    f'!device.attributes["{DRIVER}"].old',
    f'device.attributes["{DRIVER}"].numa != 1',
    f'device.attributes["{DRIVER}"].switch < 2',
)


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
    ones = (size + 3) // 2
    fitting = 2 * (ones + (size - ones) // 2)
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


def mixed(seed: int, devices: int) -> Object:
    """Random claims for devices of few kinds, with selectors, constraints, counters and alternatives."""
    dice = random.Random(seed)
    memory = dice.choice((None, 2, 3, 5))
    found = []
    for index in range(devices):
        device = _device(index, numa=dice.randrange(3), switch=dice.randrange(4), old=dice.random() < 0.3)
        if memory and dice.random() < 0.7:
            consumed = {"memory": {"value": str(dice.randint(1, 2))}}
            device["consumesCounters"] = [{"counterSet": f"s{dice.randrange(2)}", "counters": consumed}]
        found.append(device)
    sets = [{"name": f"s{index}", "counters": {"memory": {"value": str(memory)}}} for index in range(2)]
    claims = []
    for claim in range(dice.randint(1, 2)):
        requests = []
        for index in range(dice.randint(1, 3)):
            if dice.random() < 0.3:
                choices = [{"name": f"c{choice}", **_drawn(dice)} for choice in range(2)]
                requests.append({"name": f"r{index}", "firstAvailable": choices})
            else:
                requests.append({"name": f"r{index}", "exactly": _drawn(dice)})
        constraints = []
        for kind in ("matchAttribute", "distinctAttribute"):
            if dice.random() < 0.35:
                constraint: Object = {kind: f"{DRIVER}/{dice.choice(('numa', 'switch'))}"}
                if dice.random() < 0.4:
                    constraint["requests"] = [dice.choice(requests)["name"]]
                constraints.append(constraint)
        claims.append(_claim(requests, constraints, f"claim-{claim}"))
    line = _line(found, claims, sets if memory else None)
    taken = [device["name"] for device in found if dice.random() < 0.1]
    return {**line, "allocated": {"devices": [f"{DRIVER}/node/{name}" for name in taken]}}


def _drawn(dice: random.Random) -> Object:
    wanted: Object = {"deviceClassName": "gpu", "allocationMode": "ExactCount"}
    wanted["count"] = dice.choices((1, 2, 3), (5, 3, 1))[0]
    if dice.random() < 0.4:
        wanted["selectors"] = [{"cel": {"expression": dice.choice(SELECTORS)}}]
    return wanted


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
