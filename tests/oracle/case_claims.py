"""The claims of a random allocation case."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from case_parts import (
    DERIVED,
    FAILING_SELECTORS,
    LIST_SELECTORS,
    SELECTORS,
    Game,
    opaque,
    toleration,
    wanted_capacity,
)


class Claims(Game):
    """What a Pod asks for."""

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
