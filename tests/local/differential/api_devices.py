"""Valid objects of resource.k8s.io/v1, drawn from a seeded source of chance; see api_values."""

from __future__ import annotations

import copy
import random
from typing import Final

from api_chance import STAMP, UIDS, Object, maybe, some, steady

DRIVERS: Final = ("gpu.example.com", "nic.example.com")
_SHARE: Final = "0a1b2c3d-0000-4000-8000-00000000000a"


def _selectors(chance: random.Random) -> list[Object]:
    texts = (
        'device.driver == "gpu.example.com"',
        "true",
        'device.attributes["gpu.example.com"].model == "a"',
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("1Gi")) >= 0',
    )
    return [{"cel": {"expression": text}} for text in chance.sample(texts, chance.randint(1, 2))]


def _tolerations(chance: random.Random) -> list[Object]:
    choices = (
        {"key": "example.com/t", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "example.com/t", "value": "v", "effect": "NoExecute", "tolerationSeconds": 30},
        {"operator": "Exists"},
    )
    return [dict(choice) for choice in chance.sample(choices, chance.randint(1, 2))]


def _exact(chance: random.Random, *, admin: bool, derived: list[Object] | None = None) -> Object:
    mode = chance.choice((None, "ExactCount", "All"))
    return some(
        deviceClassName="gpu.example.com",
        selectors=maybe(chance, 0.4, lambda: _selectors(chance)),
        allocationMode=mode,
        count=maybe(chance, 0.4, lambda: chance.randint(1, 3)) if mode != "All" else None,
        adminAccess=maybe(chance, 0.15, lambda: chance.random() < 0.7) if admin else None,
        tolerations=maybe(chance, 0.3, lambda: _tolerations(chance)),
        capacity=maybe(chance, 0.2, lambda: {"requests": {"memory": chance.choice(("1Gi", "2Gi"))}}),
        derivedAttributes=derived if chance.random() < 0.4 else None,
    )


def _opaque(chance: random.Random) -> Object:
    parameters = chance.choice(({"a": 1}, {"b": {"c": [1, 2.5, None], "d": "e"}}, {}))
    return {"opaque": {"driver": chance.choice(DRIVERS), "parameters": parameters}}


def _claim_spec(chance: random.Random) -> Object:
    derived = [{"name": "gpu.example.com/model", "expression": '"a"'}]
    constrained = chance.random() < 0.3
    first = _exact(chance, admin=True, derived=derived if constrained else None)
    requests: list[Object] = [{"name": "r0", "exactly": first}]
    if chance.random() < 0.4:
        names = ("a", "b")[: chance.randint(1, 2)]
        requests.append(
            {
                "name": "r1",
                "firstAvailable": [{"name": name, **_exact(chance, admin=False)} for name in names],
            }
        )
    attribute = {"matchAttribute": "gpu.example.com/model"}
    constraint = {**attribute, **some(requests=maybe(chance, 0.5, lambda: ["r0"]))}
    config = {**_opaque(chance), **some(requests=maybe(chance, 0.5, lambda: ["r0"]))}
    devices = some(
        requests=requests,
        constraints=[constraint] if constrained else None,
        config=maybe(chance, 0.3, lambda: [config]),
    )
    return {"devices": devices}


def claim(_: random.Random, name: str) -> Object:
    """A claim whose spec belongs to its name."""
    return {"spec": _claim_spec(steady(name))}


def template(_: random.Random, name: str) -> Object:
    """A template whose spec belongs to its name."""
    chance = steady(name)
    meta = maybe(chance, 0.5, lambda: {"labels": {"of": "template"}, "annotations": {"x/y": "z"}})
    return {"spec": some(metadata=meta, spec=_claim_spec(chance))}


def _conditions(chance: random.Random) -> list[Object]:
    return [
        some(
            type=kind,
            status=chance.choice(("True", "False", "Unknown")),
            reason="Because",
            message=chance.choice(("", "text")),
            lastTransitionTime=STAMP,
            observedGeneration=maybe(chance, 0.3, lambda: 1),
        )
        for kind in chance.sample(("Ready", "Healthy"), chance.randint(1, 2))
    ]


def _allocation(name: str) -> tuple[Object, list[Object]]:
    """The allocation that belongs to a claim's name, and its devices."""
    chance = steady("status" + name)
    results = []
    for index in range(chance.randint(1, 3)):
        shared = chance.random() < 0.25
        results.append(
            some(
                request="r0",
                driver=chance.choice(DRIVERS),
                pool="pool/a",
                device=f"d{index}",
                tolerations=maybe(chance, 0.2, lambda: _tolerations(chance)),
                bindingConditions=maybe(chance, 0.2, lambda: ["Bound"]),
                shareID=_SHARE if shared else None,
                consumedCapacity={"memory": "2Gi"} if shared else None,
            )
        )
        if "bindingConditions" in results[-1]:
            results[-1]["bindingFailureConditions"] = ["Failed"]
    node = {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    }
    config = {"source": chance.choice(("FromClass", "FromClaim")), **_opaque(chance)}
    allocation = some(
        devices=some(results=results, config=maybe(chance, 0.3, lambda: [config])),
        nodeSelector=maybe(chance, 0.7, lambda: node),
        allocationTimestamp=maybe(chance, 0.3, lambda: STAMP),
    )
    return allocation, results


def claim_status(chance: random.Random, name: str) -> Object:
    """No status, or the allocation of this claim with users and reports of devices."""
    if chance.random() < 0.15:
        return {}
    allocation, results = _allocation(name)
    users = [
        {"resource": "pods", "name": f"p{index}", "uid": UIDS[index]}
        for index in chance.sample((0, 1), chance.randint(1, 2))
    ]
    reports = [
        some(
            **{key: result[key] for key in ("driver", "pool", "device", "shareID") if key in result},
            conditions=maybe(chance, 0.5, lambda: _conditions(chance)),
            data=maybe(chance, 0.3, lambda: {"x": chance.randint(0, 2)}),
            networkData=maybe(
                chance,
                0.3,
                lambda: some(
                    interfaceName="eth0",
                    ips=maybe(chance, 0.5, lambda: ["192.0.2.5/24", "2001:db8::1/64"]),
                    hardwareAddress=maybe(chance, 0.5, lambda: "00:11:22:33:44:55"),
                ),
            ),
        )
        for result in chance.sample(results, chance.randint(1, len(results)))
    ]
    return some(
        allocation=allocation,
        reservedFor=maybe(chance, 0.6, lambda: users),
        devices=maybe(chance, 0.5, lambda: reports),
    )


def _attributes(chance: random.Random) -> Object:
    return {
        key: dict(value)
        for key, value in (
            ("model", {"string": chance.choice("ab")}),
            ("gpu.example.com/index", {"int": chance.randint(0, 3)}),
            ("fast", {"bool": chance.random() < 0.5}),
            ("version", {"version": "1.2.3"}),
            ("sizes", {"ints": [1, chance.randint(2, 3)]}),
        )
        if chance.random() < (0.1 if key == "sizes" else 0.5)
    }


def _taints(chance: random.Random) -> list[Object]:
    return [
        some(
            key="example.com/t",
            value=maybe(chance, 0.6, lambda: "v"),
            effect=chance.choice(("NoSchedule", "NoExecute")),
            timeAdded=maybe(chance, 0.5, lambda: STAMP),
        )
    ]


def _device(chance: random.Random, index: int, *, counted: bool) -> Object:
    many = chance.random() < 0.3
    policy = some(
        default="1Gi",
        validRange=some(min="1Gi", step=maybe(chance, 0.5, lambda: "1Gi")),
    )
    memory = some(
        value=chance.choice(("8Gi", "8192Mi", "16Gi")),
        requestPolicy=policy if many and chance.random() < 0.5 else None,
    )
    counters = some(
        counterSet="c0",
        counters={"slots": {"value": chance.choice(("1", "2"))}},
        compatibilityGroups=maybe(chance, 0.3, lambda: ["g1"]),
    )
    capacity = maybe(chance, 0.5, lambda: {"memory": memory})
    mapping = {
        "memory": {"mapping": {"capacityKey": "memory", "capacityMultiplier": chance.choice(("1", "2"))}}
    }
    bound = chance.random() < 0.2
    return some(
        name=f"d{index}",
        attributes=_attributes(chance) or None,
        capacity=capacity,
        nodeAllocatableResources=mapping if capacity and chance.random() < 0.1 else None,
        consumesCounters=[counters] if counted else None,
        taints=maybe(chance, 0.25, lambda: _taints(chance)),
        allowMultipleAllocations=True if many else None,
        bindsToNode=True if bound else None,
        bindingConditions=["Bound"] if bound else None,
        bindingFailureConditions=["Failed"] if bound else None,
    )


def resource_slice(chance: random.Random, name: str) -> Object:
    """A slice whose driver, pool and node belong to its name."""
    fixed = steady(name)
    where = fixed.choice(
        (
            {"nodeName": "n1"},
            {"nodeName": "n2"},
            {"allNodes": True},
            {
                "nodeSelector": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z1", "z2"]}]}
                    ]
                }
            },
        )
    )
    spec: Object = {
        "driver": fixed.choice(DRIVERS),
        "pool": {"name": "pool", "generation": chance.randint(0, 2), "resourceSliceCount": 1},
        **copy.deepcopy(where),
    }
    if chance.random() < 0.15:
        spec["sharedCounters"] = [{"name": "c0", "counters": {"slots": {"value": "4"}}}]
    else:
        counted = chance.random() < 0.2
        spec["devices"] = [_device(chance, index, counted=counted) for index in range(chance.randint(0, 3))]
        if spec["devices"] and counted and chance.random() < 0.3:
            spec["partitionTypeAttribute"] = "gpu.example.com/kind"
            for device in spec["devices"]:
                device.setdefault("attributes", {})["gpu.example.com/kind"] = {"string": "whole"}
    if chance.random() < 0.1:
        spec["skipNodeOperations"] = ["NodeUnprepareResources"]
    return {"spec": spec}


def device_class(chance: random.Random, _: str) -> Object:
    """A class with selectors and configuration."""
    spec = some(
        selectors=maybe(chance, 0.6, lambda: _selectors(chance)),
        config=maybe(chance, 0.4, lambda: [_opaque(chance) for _ in range(chance.randint(1, 2))]),
        extendedResourceName=maybe(chance, 0.3, lambda: "example.com/gpu"),
    )
    return {"spec": spec}


def taint_rule(chance: random.Random, _: str) -> Object:
    """A rule for a device, a pool, a driver or all."""
    selector = some(
        driver=maybe(chance, 0.5, lambda: DRIVERS[0]),
        pool=maybe(chance, 0.5, lambda: "pool"),
        device=maybe(chance, 0.5, lambda: "d0"),
    )
    return {"spec": some(deviceSelector=maybe(chance, 0.7, lambda: selector), taint=_taints(chance)[0])}


def rule_status(chance: random.Random, _: str) -> Object:
    """Conditions."""
    return some(conditions=maybe(chance, 0.8, lambda: _conditions(chance)))
