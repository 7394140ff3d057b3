"""Parts of random clusters: devices, slices, selectors, what is in use. All randomness comes from one seeded source."""

from __future__ import annotations

from random import Random
from typing import Any

DRIVERS = ("a.example.com", "b.example.com")
POOLS = ("p0", "p1", "rack/p")
CLASSES = ("any", "picky", "wide", "tuned")
NODES = ("n0", "n1")
ZONES = ("east", "west")
SHARES = (
    "11111111-1111-1111-1111-111111111111",
    "22222222-2222-2222-2222-222222222222",
)
SELECTORS = (
    "true",
    "device.driver == 'a.example.com'",
    "device.driver.endsWith('example.com') || false",
    "!(device.driver in ['c.example.com'])",
    "device.attributes['a.example.com'].?model.orValue('') != 'x'",
    "device.attributes['a.example.com'].?numa.orValue(0) == 0",
    "'zone.example.com' in device.attributes || device.driver.startsWith('b')",
    "device.capacity['a.example.com'].?mem.orValue(quantity('1Gi')).compareTo(quantity('2Gi')) >= 0",
    "!has(device.attributes['b.example.com'].numa) || device.attributes['b.example.com'].numa < 2",
    "device.allowMultipleAllocations",
    "!device.allowMultipleAllocations",
    "device.attributes['a.example.com'].?ver.orValue(semver('1.0.0')).isGreaterThan(semver('1.1.0'))",
    "false",
)
LIST_SELECTORS = (
    "!has(device.attributes['a.example.com'].links) || device.attributes['a.example.com'].links.exists(x, x == 'l0')",
    "device.attributes['a.example.com'].?links.orValue([]).includes('l1')",
)
FAILING_SELECTORS = (
    "device.attributes['a.example.com'].absent == 1",
    "device.capacity['b.example.com'].absent.isGreaterThan(quantity('1'))",
    "device.attributes['a.example.com'].model",
    "device.nothing",
    "device.driver ==",
    "1 / 0 == 1",
    "device.attributes['b.example.com'].?numa.orValue('n') == 1 || dyn(1)",
    "device.attributes['a.example.com'].exists(x, x.startsWith('z')) || device.capacity['a.example.com'].mem",
)
DERIVED = (
    "device.driver",
    "device.attributes['a.example.com'].?model.orValue('none')",
    "device.attributes['a.example.com'].?numa.orValue(7) % 2",
    "has(device.capacity['a.example.com'].mem)",
    "['p', device.attributes['a.example.com'].?model.orValue('q')]",
    "device.attributes['a.example.com'].model",
    "[1, 2].filter(x, x > 2)",
)
AMOUNTS = (
    "1",
    "2",
    "3",
    "500m",
    "0.5",
    "1Gi",
    "2Gi",
    "1536Mi",
    "10",
    "0",
    "1000m",
    "4",
    "1.0",
    "2000m",
    "+1",
)


class Dice:
    """Random choices of a case."""

    def __init__(self, seed: str) -> None:
        self.random = Random(seed)

    def chance(self, percent: int) -> bool:
        return self.random.random() * 100 < percent

    def pick(self, options: Any) -> Any:
        return options[self.random.randrange(len(options))]

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def some(self, options: Any, most: int) -> list[Any]:
        return self.random.sample(list(options), self.number(0, min(most, len(options))))

    def weighted(self, options: dict[Any, float]) -> Any:
        return self.random.choices(list(options), list(options.values()))[0]


class Game:
    """A part of a case: its source of chance, and the features that the case plays with."""

    def __init__(self, dice: Dice, playing: set[str]) -> None:
        self.dice = dice
        self.playing = playing

    def plays(self, *names: str) -> bool:
        return any(name in self.playing for name in names)


def node_selector(dice: Dice, odd: bool) -> dict[str, Any]:
    """A selector with one term, rarely with two, or with something that cannot be read."""
    term: dict[str, Any] = {}
    if dice.chance(80):
        term["matchExpressions"] = [expression(dice, odd) for _ in range(dice.number(1, 2))]
    if dice.chance(30) or not term:
        operator = "In" if dice.chance(75) else "NotIn"
        term["matchFields"] = [
            {"key": "metadata.name", "operator": operator, "values": [dice.weighted({"n0": 4, "n1": 1})]}
        ]
    terms = [term]
    if odd and dice.chance(20):
        terms.append({"matchExpressions": [expression(dice, False)]})
    if odd and dice.chance(5):
        terms = []
    return {"nodeSelectorTerms": terms}


def expression(dice: Dice, odd: bool) -> dict[str, Any]:
    if odd and dice.chance(10):
        return {"key": "zone", "operator": dice.pick(("Near", "Gt")), "values": ["x"]}
    kind = dice.weighted({"In": 8, "NotIn": 2, "Exists": 3, "DoesNotExist": 2, "Gt": 2, "Lt": 1})
    if kind in ("In", "NotIn"):
        values = ["east", "west"] if dice.chance(40) else [dice.weighted({"east": 4, "west": 1})]
        return {"key": "zone", "operator": kind, "values": values}
    if kind in ("Gt", "Lt"):
        return {"key": "rack", "operator": kind, "values": [str(dice.number(3, 9))]}
    key = "zone" if kind == "Exists" else "absent"
    return {"key": dice.weighted({key: 5, "rack": 1}), "operator": kind}


def attribute(dice: Dice, kind: str, lists: bool) -> dict[str, Any]:
    """A value of few possible ones, so that devices have some in common."""
    values: dict[str, Any] = {
        "string": ("x", "y"),
        "int": (0, 1, 2),
        "bool": (True, False),
        "version": ("1.0.0", "1.2.0", "2.0.0-rc.1"),
    }
    if lists and dice.chance(50):
        return {f"{kind}s": dice.some(values[kind] + (("l0", "l1", "l2") if kind == "string" else ()), 3)}
    return {kind: dice.pick(values[kind])}


def attributes(dice: Dice, driver: str, lists: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, kind in (("model", "string"), ("numa", "int"), ("ok", "bool"), ("ver", "version")):
        if dice.chance(70):
            spelled = f"{driver}/{name}" if dice.chance(25) else name
            found[spelled] = attribute(dice, kind, lists and dice.chance(40))
    if dice.chance(30):
        found["zone.example.com/zone"] = attribute(dice, dice.weighted({"string": 5, "int": 1}), lists)
    if lists and dice.chance(60):
        found["links"] = {"strings": dice.some(("l0", "l1", "l2"), 2) or ["l0"]}
    return found


def policy(dice: Dice) -> dict[str, Any]:
    kind = dice.weighted({"range": 5, "values": 3, "default": 1})
    if kind == "values":
        values = dice.pick((["1", "2", "4"], ["1Gi", "2Gi"], ["500m", "1", "1500m"], ["2"]))
        result: dict[str, Any] = {"validValues": values}
        if dice.chance(70):
            result["default"] = dice.pick(values) if dice.chance(80) else dice.pick(AMOUNTS)
        return result
    if kind == "default":
        return {"default": dice.pick(AMOUNTS)}
    limits = {"min": dice.pick(("1", "500m", "0", "1Gi", "0.25", "100n"))}
    if dice.chance(50):
        limits["max"] = dice.pick(("2", "4", "2Gi", "10", "1500m", "1e20"))
    if dice.chance(65):
        limits["step"] = dice.pick(("1", "500m", "256Mi", "2", "0.1", "0.0001", "7", "1e1"))
    if dice.chance(4):
        limits.pop("min")
        limits.pop("step", None)
    result = {"validRange": limits}
    if dice.chance(70):
        result["default"] = limits.get("min", "1") if dice.chance(70) else dice.pick(AMOUNTS)
    return result


def capacity(dice: Dice, policies: bool) -> dict[str, Any]:
    """Capacities; only `mem` may have a policy, so that at most one can be wrong (upstream visits them at random)."""
    found: dict[str, Any] = {}
    if dice.chance(85):
        entry: dict[str, Any] = {"value": dice.pick(("4", "10", "2Gi", "4Gi", "2", "1500m", "1e31", "16Ei"))}
        if policies and dice.chance(60):
            entry["requestPolicy"] = policy(dice)
        found["mem"] = entry
    if dice.chance(35):
        entry = {"value": dice.pick(("2", "8"))}
        if policies:
            entry["requestPolicy"] = {"default": dice.pick(("0", "1"))}
        found["cores"] = entry
    return found


def wanted_capacity(dice: Dice, odd: bool) -> dict[str, Any]:
    requests = {}
    if dice.chance(80):
        requests["mem"] = dice.pick(AMOUNTS)
        if odd and dice.chance(25):
            requests["mem"] = dice.pick(
                ("-1", "9223372036854775807", "9e18", "9223372036854775808", "1e30", "1n")
            )
    if dice.chance(25):
        requests["cores"] = dice.pick(("0", "1", "2"))
    if dice.chance(4):
        requests[dice.pick(("a.example.com/mem", "absent"))] = "1"
    return {"requests": requests} if requests or dice.chance(50) else {}


def taint(dice: Dice) -> dict[str, Any]:
    found = {
        "key": dice.pick(("k0", "k1")),
        "effect": dice.weighted({"NoSchedule": 5, "NoExecute": 3, "None": 2, "Odd": 1}),
    }
    if dice.chance(60):
        found["value"] = dice.pick(("v0", "v1"))
    return found


def toleration(dice: Dice) -> dict[str, Any]:
    found: dict[str, Any] = {"operator": dice.weighted({"Exists": 6, "Equal": 5, "Odd": 1})}
    if dice.chance(75):
        found["key"] = dice.pick(("k0", "k1"))
    if dice.chance(40):
        found["effect"] = dice.pick(("NoSchedule", "NoExecute", "None"))
    if found["operator"] == "Equal" and dice.chance(80):
        found["value"] = dice.pick(("v0", "v1"))
    if dice.chance(5):
        del found["operator"]
    return found


def opaque(dice: Dice) -> dict[str, Any]:
    return {"opaque": {"driver": dice.pick(DRIVERS), "parameters": {"speed": dice.number(0, 9)}}}
