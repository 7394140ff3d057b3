"""Random allocation cases: lines of `drakit allocate --jsonl` that combine the features of DRA.

A case first draws which features it plays with, so that every pair of them meets soon; `features_of` tells afterwards
what a case really has. Clusters are small: the search of upstream is exponential.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from case_parts import (
    CLASSES,
    DERIVED,
    DRIVERS,
    FAILING_SELECTORS,
    LIST_SELECTORS,
    NODES,
    POOLS,
    SELECTORS,
    SHARES,
    Dice,
    attributes,
    capacity,
    node_selector,
    opaque,
    taint,
    toleration,
    wanted_capacity,
)

GATES = (
    "DRAAdminAccess",
    "DRAConsumableCapacity",
    "DRADerivedAttributes",
    "DRADeviceBindingConditions",
    "DRADeviceCompatibilityGroups",
    "DRADeviceTaints",
    "DRAFractionalCapacityRange",
    "DRAListTypeAttributes",
    "DRAOptionalNodeOperations",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
    "DRAResourceClaimDeviceStatus",
)
PLAYED = (
    "admin",
    "all",
    "alternatives",
    "binding",
    "binds",
    "capacity",
    "class",
    "configs",
    "counters",
    "derived",
    "distinct",
    "errors",
    "generations",
    "groups",
    "hosts",
    "in-use",
    "limit",
    "lists",
    "match",
    "nodes",
    "odd",
    "per-device",
    "selectors",
    "shared",
    "skip",
    "taints",
)


def cases(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """The cases of a seed."""
    for number in range(count):
        yield case(seed, number)


def case(seed: int, number: int) -> dict[str, Any]:
    """One case of a seed."""
    return _Case(Dice(f"allocation {seed} {number}")).line()


class _Case:
    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.playing = set(dice.random.sample(PLAYED, dice.number(2, 7)))
        if "errors" in self.playing and dice.chance(55):
            self.playing.discard("errors")
        if "odd" in self.playing and dice.chance(40):
            self.playing.discard("odd")
        if "limit" in self.playing and dice.chance(60):
            self.playing.discard("limit")
        if "limit" in self.playing:
            # Alternatives are what makes the limit a matter of the search, shares what lets it get that far.
            self.playing |= set(dice.some(("alternatives", "all", "shared"), 3))
            self.playing -= {"match", "distinct"} if dice.chance(80) else set()
        if "groups" in self.playing or "hosts" in self.playing:
            self.playing.add("counters")
        self.devices: list[tuple[str, dict[str, Any]]] = []

    def plays(self, *names: str) -> bool:
        return any(name in self.playing for name in names)

    def line(self) -> dict[str, Any]:
        dice = self.dice
        node: dict[str, Any] = {
            "metadata": {"name": "n0", "labels": {"zone": "east", "rack": "7"}},
            "status": {"declaredFeatures": ["DRAOptionalNodeOperations"] if dice.chance(60) else ["Other"]},
        }
        slices = list(chain.from_iterable(self.pools()))
        dice.random.shuffle(slices)
        return {
            "node": node,
            "claims": [self.claim(index) for index in range(dice.weighted({1: 6, 2: 3, 3: 1}))],
            "deviceClasses": [self.device_class(name) for name in CLASSES],
            "resourceSlices": slices,
            "allocated": self.in_use(),
            "featureGates": self.gates(),
        }

    def gates(self) -> dict[str, bool]:
        dice = self.dice
        style = dice.weighted({"all": 10, "toggled": 3, "default": 3, "random": 2})
        if style == "default":
            return {}
        if style == "random":
            return {name: dice.chance(50) for name in GATES}
        gates = dict.fromkeys(GATES, True)
        if style == "toggled":
            for name in dice.random.sample(GATES, dice.number(1, 2)):
                gates[name] = False
        return gates

    def pools(self) -> Iterator[list[dict[str, Any]]]:
        dice = self.dice
        places = [(driver, pool) for driver in DRIVERS for pool in POOLS]
        for driver, pool in dice.random.sample(places, dice.weighted({1: 2, 2: 5, 3: 3})):
            yield self.pool(driver, pool)

    def pool(self, driver: str, pool: str) -> list[dict[str, Any]]:
        dice = self.dice
        counted = self.plays("counters") and dice.chance(80)
        sets = dice.number(1, 2) if counted else 0
        bodies: list[dict[str, Any]] = []
        for part in range(dice.weighted({1: 5, 2: 3, 3: 1})):
            bodies.append({"devices": self.slice_devices(part, sets)})
        if counted:
            bodies.insert(dice.number(0, len(bodies)), {"sharedCounters": self.counter_sets(sets)})
        scope = self.scope()
        for index, body in enumerate(bodies):
            body.update(scope)
            if "devices" in body and self.plays("per-device") and dice.chance(70):
                self.unplace(body)
                body["perDeviceNodeSelection"] = True
                for device in body["devices"]:
                    device.update(self.scope())
            elif self.plays("hosts", "nodes") and dice.chance(25):
                self.unplace(body)
                body["nodeName"] = dice.pick(NODES)
            if self.plays("skip") and dice.chance(60):
                body["skipNodeOperations"] = ["NodePrepareResources", "NodeUnprepareResources"][
                    : dice.number(1, 2)
                ]
            for device in body.get("devices", ()):
                self.devices.append((f"{driver}/{pool}", device))
            name = f"{'zyx'[index % 3]}-{driver[0]}-{pool.replace('/', '.')}-{index}"
            generation = 2
            if self.plays("generations") and dice.chance(15):
                generation = dice.number(1, 3)
            if self.plays("generations") and dice.chance(8):
                self.unplace(body)
                body["nodeName"] = "n1"
            count = len(bodies) + (1 if self.plays("generations") and dice.chance(8) else 0)
            bodies[index] = {
                "metadata": {"name": name},
                "spec": {
                    "driver": driver,
                    "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
                    **body,
                },
            }
        return bodies

    def unplace(self, body: dict[str, Any]) -> None:
        for name in ("nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection"):
            body.pop(name, None)

    def scope(self) -> dict[str, Any]:
        dice = self.dice
        odd = self.plays("odd")
        if odd and dice.chance(2):
            return {}
        kind = dice.weighted({"nodeName": 4, "allNodes": 4, "nodeSelector": 4 if self.plays("nodes") else 1})
        if kind == "nodeName":
            return {"nodeName": dice.weighted({"n0": 9, "n1": 2 if self.plays("nodes", "hosts") else 0})}
        if kind == "allNodes":
            return {"allNodes": True}
        return {"nodeSelector": node_selector(dice, odd)}

    def counter_sets(self, count: int) -> list[dict[str, Any]]:
        dice = self.dice
        return [
            {
                "name": f"s{index}",
                "counters": {
                    "mem": {"value": dice.pick(("4", "8", "6", "4000m"))},
                    **({"slots": {"value": "3"}} if dice.chance(40) or self.plays("groups") else {}),
                },
            }
            for index in range(count)
        ]

    def slice_devices(self, part: int, sets: int) -> list[dict[str, Any]]:
        dice = self.dice
        count = dice.number(2, 5)
        if self.plays("limit") and dice.chance(60):
            count = dice.number(10, 20)
        devices = [self.device(f"d{part}{index}", sets) for index in range(count)]
        if self.plays("odd") and dice.chance(12):
            devices[-1]["name"] = dice.pick(("d00", devices[0]["name"]))
        return devices

    def device(self, name: str, sets: int) -> dict[str, Any]:
        dice = self.dice
        device: dict[str, Any] = {"name": name}
        found = attributes(dice, dice.pick(DRIVERS), self.plays("lists"))
        if self.plays("odd") and dice.chance(3):
            found = {"broken": dice.pick(({}, {"version": "1.x"}, {"versions": ["1"]}))}
        if found:
            device["attributes"] = found
        if self.plays("capacity", "shared"):
            found = capacity(dice, self.plays("capacity"))
            if found:
                device["capacity"] = found
        if self.plays("shared") and dice.chance(95 if self.plays("limit") else 60):
            device["allowMultipleAllocations"] = dice.chance(90)
        if self.plays("taints") and dice.chance(50):
            device["taints"] = [taint(dice) for _ in range(dice.number(1, 2))]
        if self.plays("binding") and dice.chance(40):
            device["bindingConditions"] = ["ready"]
            device["bindingFailureConditions"] = ["broken", "late"]
        if self.plays("binds") and dice.chance(40):
            device["bindsToNode"] = True
        if sets and dice.chance(85):
            device["consumesCounters"] = self.consumption(sets)
        return device

    def consumption(self, sets: int) -> list[dict[str, Any]]:
        dice = self.dice
        entries = []
        for index in dice.random.sample(range(sets), dice.number(1, sets)):
            entry: dict[str, Any] = {
                "counterSet": f"s{index}",
                "counters": {"mem": {"value": dice.weighted({"1": 3, "2": 4, "4": 2, "1500m": 1, "9": 1})}},
            }
            if self.plays("groups") and dice.chance(70):
                groups = dice.some(("g0", "g1", "g2"), 2)
                if groups:
                    entry["compatibilityGroups"] = groups
            if self.plays("odd") and dice.chance(3):
                entry["counterSet"] = "absent"
            if self.plays("odd") and dice.chance(3):
                entry["counters"]["unknown"] = {"value": "1"}
            entries.append(entry)
        return entries

    def device_class(self, name: str) -> dict[str, Any]:
        dice = self.dice
        spec: dict[str, Any] = {}
        if name == "picky":
            options = SELECTORS + (LIST_SELECTORS if self.plays("lists") else ())
            if self.plays("errors") and dice.chance(40):
                options = FAILING_SELECTORS
            spec["selectors"] = [{"cel": {"expression": dice.pick(options)}}]
        if name == "wide":
            spec["selectors"] = [
                {"cel": {"expression": "true"}},
                {"cel": {"expression": dice.pick(SELECTORS[:3])}},
            ]
        if name in ("tuned", "picky") and self.plays("configs"):
            spec["config"] = [opaque(dice) for _ in range(dice.number(1, 2))]
        return {"metadata": {"name": name}, "spec": spec}

    def claim(self, index: int) -> dict[str, Any]:
        dice = self.dice
        requests = [self.request(f"r{number}") for number in range(dice.weighted({1: 8, 2: 4, 3: 1, 0: 0.2}))]
        devices: dict[str, Any] = {"requests": requests}
        names = [*(entry["name"] for entry in requests), *self.full_names(requests)]
        constraints = []
        for kind in ("match", "distinct"):
            if self.plays(kind):
                constraints += [self.constraint(kind, names, requests) for _ in range(dice.number(1, 2))]
        if self.plays("errors") and dice.chance(3):
            constraints.append({"requests": []})
        if constraints:
            devices["constraints"] = constraints
        if self.plays("configs"):
            devices["config"] = [
                {**opaque(dice), **({"requests": named} if (named := dice.some(names, 3)) else {})}
                for _ in range(dice.number(1, 3))
            ]
        metadata = {"name": f"c{index}", "namespace": "ns"}
        return {"metadata": metadata, "spec": {"devices": devices if requests else {}}}

    def full_names(self, requests: list[dict[str, Any]]) -> Iterator[str]:
        for entry in requests:
            for alternative in entry.get("firstAvailable", ()):
                yield f"{entry['name']}/{alternative['name']}"

    def constraint(self, kind: str, names: list[str], requests: list[dict[str, Any]]) -> dict[str, Any]:
        dice = self.dice
        derived = [
            entry["name"]
            for request in requests
            for wanted in (request.get("exactly") or {}, *request.get("firstAvailable", ()))
            for entry in wanted.get("derivedAttributes", ())
        ]
        name = dice.pick(
            [
                *("a.example.com/model", "a.example.com/numa", "b.example.com/model", "a.example.com/ok"),
                *("a.example.com/ver", "zone.example.com/zone"),
                *(("a.example.com/links",) * 3 if self.plays("lists") else ()),
                *derived * 4,
            ]
        )
        if self.plays("odd") and dice.chance(4):
            name = dice.pick(("model", "absent.example.com/x"))
        result: dict[str, Any] = {"matchAttribute" if kind == "match" else "distinctAttribute": name}
        if dice.chance(50):
            named = dice.some(names, 2)
            if named:
                result["requests"] = named
        if dice.chance(3):
            result["matchAttribute"] = result["distinctAttribute"] = name
        return result

    def request(self, name: str) -> dict[str, Any]:
        dice = self.dice
        if self.plays("alternatives") and dice.chance(65):
            return {
                "name": name,
                "firstAvailable": [
                    {"name": f"s{index}", **self.wanted(alternative=True)}
                    for index in range(dice.number(1, 3))
                ],
            }
        return {"name": name, "exactly": self.wanted(alternative=False)}

    def wanted(self, alternative: bool) -> dict[str, Any]:
        dice = self.dice
        choices = {"any": 5, "wide": 1, "tuned": 3 if self.plays("configs") else 1}
        choices["picky"] = 5 if self.plays("class") else 1
        wanted: dict[str, Any] = {"deviceClassName": dice.weighted(choices), "allocationMode": "ExactCount"}
        if self.plays("all") and dice.chance(45):
            wanted["allocationMode"] = "All"
        else:
            wanted["count"] = dice.weighted({1: 14, 2: 4, 3: 1})
            if self.plays("limit") and dice.chance(50):
                wanted["count"] = dice.pick((6, 8, 10, 12, 16, 20, 28, 32, 33))
        if self.plays("selectors") and dice.chance(60):
            options = SELECTORS + (LIST_SELECTORS if self.plays("lists") else ())
            wanted["selectors"] = [
                {"cel": {"expression": dice.pick(options)}} for _ in range(dice.weighted({1: 4, 2: 1}))
            ]
        if self.plays("taints") and dice.chance(55):
            wanted["tolerations"] = [toleration(dice) for _ in range(dice.number(1, 2))]
        if self.plays("capacity") and dice.chance(60):
            wanted["capacity"] = wanted_capacity(dice, self.plays("odd", "errors"))
        if self.plays("admin") and not alternative and dice.chance(50):
            wanted["adminAccess"] = dice.chance(85)
        if self.plays("derived") and dice.chance(70):
            options = DERIVED if self.plays("errors") else DERIVED[:5]
            names = dice.some(("v.example.com/a", "v.example.com/b", "a.example.com/model"), 2)
            if names:
                wanted["derivedAttributes"] = [
                    {"name": found, "expression": dice.pick(options)} for found in names
                ]
        if self.plays("errors") and dice.chance(22):
            self.spoil(wanted)
        return wanted

    def spoil(self, wanted: dict[str, Any]) -> None:
        dice = self.dice
        spoilers: tuple[Callable[[], Any], ...] = (
            lambda: wanted.update(deviceClassName=dice.pick(("absent", ""))),
            lambda: wanted.update(allocationMode=dice.pick(("Odd", ""))),
            lambda: wanted.update(selectors=[{}]),
            lambda: wanted.update(selectors=[{"cel": {"expression": dice.pick(FAILING_SELECTORS)}}]),
            lambda: wanted.update(count=33),
        )
        dice.pick(spoilers)()

    def in_use(self) -> dict[str, Any]:
        dice = self.dice
        result: dict[str, Any] = {}
        if not self.plays("in-use", "counters", "shared") or dice.chance(30):
            return result
        for place, device in self.devices:
            if not dice.chance(30 if self.plays("in-use") else 12):
                continue
            name = f"{place}/{device['name']}"
            if device.get("allowMultipleAllocations") and dice.chance(80):
                result.setdefault("shared", []).append(f"{name}/{dice.pick(SHARES)}")
                amounts = {key: dice.pick(("1", "2", "500m", "1Gi")) for key in device.get("capacity", {})}
                if amounts and dice.chance(85):
                    result.setdefault("capacity", {})[name] = amounts
            else:
                result.setdefault("devices", []).append(name)
        if dice.chance(10):
            result.setdefault("devices", []).append("a.example.com/p0/gone")
        return result


_SIGNS: Mapping[str, str] = {
    "admin access": '"adminAccess": true',
    "all devices": '"allocationMode": "All"',
    "alternatives": '"firstAvailable"',
    "binding conditions": '"bindingConditions"',
    "binds to node": '"bindsToNode"',
    "capacity of requests": '"capacity": {"requests"',
    "compatibility groups": '"compatibilityGroups"',
    "configs": '"opaque"',
    "derived attributes": '"derivedAttributes"',
    "devices in use": '"allocated": {"devices"',
    "distinct": '"distinctAttribute"',
    "list attributes": '"strings"',
    "match": '"matchAttribute"',
    "node selectors": '"nodeSelector"',
    "per-device nodes": '"perDeviceNodeSelection"',
    "request policies": '"requestPolicy"',
    "several claims": '"name": "c1"',
    "shared counters": '"consumesCounters"',
    "shared devices": '"allowMultipleAllocations": true',
    "skipped operations": '"skipNodeOperations"',
    "taints": '"taints"',
    "tolerations": '"tolerations"',
}


def features_of(line: Mapping[str, Any]) -> set[str]:
    """The features that a case has."""
    text = json.dumps(line)
    return {name for name, sign in _SIGNS.items() if sign in text}


FEATURES = frozenset(_SIGNS)
