"""The cluster of a random allocation case: pools with their slices, classes, and what is in use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from case_parts import (
    DRIVERS,
    FAILING_SELECTORS,
    LIST_SELECTORS,
    NODES,
    POOLS,
    SELECTORS,
    SHARES,
    Dice,
    Game,
    attributes,
    capacity,
    node_selector,
    opaque,
    taint,
)


class Cluster(Game):
    """What a claim finds. `in_use` speaks of the pools that were made before."""

    def __init__(self, dice: Dice, playing: set[str]) -> None:
        super().__init__(dice, playing)
        self.devices: list[tuple[str, dict[str, Any]]] = []
        """Each with `driver/pool`."""

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
