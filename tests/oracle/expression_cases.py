"""Random CEL expressions for random devices: lines of `drakit cel --jsonl`, some of them for derived attributes.

Expressions grow from a grammar with types, so that most of them compile. Now and then a hole gets another type or a
name that is not there, which makes the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from case_parts import Dice, attribute, capacity
from expression_grammar import DOMAIN, METHODS, NAMES, PRODUCTIONS

GATES = ("DRAConsumableCapacity", "DRAListTypeAttributes")
LISTS = ({"ints": [3, 1]}, {"bools": [True, False]}, {"versions": ["1.2.0", "1.10.0-rc.1"]})
_HOLE = re.compile(r"\{\{|\}\}|\{[a-z]+(?::[a-z]+)?\}")
_WRONG = 3
_BROKEN = 1
_DERIVED = 25
_SELECTOR_TYPES: dict[Any, float] = {"bool": 92, "dyn": 4, "int": 2, "string": 2}
_DERIVED_TYPES: dict[Any, float] = {
    "string": 8,
    "int": 6,
    "dyn": 6,
    "semver": 5,
    "bool": 4,
    "strings": 5,
    "ints": 4,
    "links": 4,
    "mixed": 6,
    **dict.fromkeys(("optional", "map", "quantity", "uint", "double", "duration", "timestamp", "bytes"), 1),
}
"""How many of a hundred lines are wrong somewhere, broken off, and for derived attributes; and what they result in."""


def cases(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """The lines of a seed."""
    for number in range(count):
        yield case(seed, number)


def case(seed: int, number: int) -> dict[str, Any]:
    """One line of a seed."""
    dice = Dice(f"cel {seed} {number}")
    derived = dice.chance(_DERIVED)
    wanted = dice.weighted(_DERIVED_TYPES if derived else _SELECTOR_TYPES)
    expression = _Grower(dice, dice.weighted({2: 2, 3: 4, 4: 4, 5: 3, 6: 1})).grow(wanted, {}, 0)
    if dice.chance(_BROKEN):
        place = dice.number(0, len(expression))
        expression = (
            expression[:place] + dice.pick("()[]'.&|?:, #\\") + expression[place + dice.number(0, 2) :]
        )
    device: dict[str, Any] = {"attributes": _attributes(dice), "capacity": capacity(dice, policies=False)}
    if dice.chance(40):
        device["allowMultipleAllocations"] = dice.chance(70)
    return {
        "expression": expression,
        "derived": derived,
        "driver": DOMAIN if dice.chance(90) else "other.example.com",
        **device,
        "featureGates": {name: dice.chance(60) for name in GATES if dice.chance(70)},
        "environment": "new" if dice.chance(50) else "stored",
    }


def _attributes(dice: Dice) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, kind in (("model", "string"), ("numa", "int"), ("ok", "bool"), ("ver", "version")):
        if dice.chance(80):
            found[f"{DOMAIN}/{name}" if dice.chance(30) else name] = attribute(dice, kind, dice.chance(15))
    if dice.chance(60):
        found["links"] = dice.pick(LISTS) if dice.chance(20) else {"strings": dice.some(("l0", "l1", "x"), 3)}
    if dice.chance(30):
        found["zone.example.com/zone"] = {"string": "east"}
    if dice.chance(1):
        found = {"model": dice.pick(({}, {"version": "1.x"}))}
    return found


class _Grower:
    """Grows one expression; what may still be nested gets less with the depth."""

    def __init__(self, dice: Dice, deepest: int) -> None:
        self.dice = dice
        self.deepest = deepest
        self.variables = 0

    def grow(self, kind: str, scope: dict[str, str], depth: int) -> str:
        dice = self.dice
        if depth and dice.chance(_WRONG):
            kind = dice.pick(tuple(PRODUCTIONS))
        known = [name for name, of in scope.items() if of == kind]
        if known and dice.chance(45):
            return str(dice.pick(known))
        options = PRODUCTIONS[kind]
        if depth >= self.deepest:
            options = tuple(each for each in options if "{" not in _HOLE.sub(_plain, each)) or options[:1]
        return self.fill(dice.pick(options), scope, depth)

    def fill(self, template: str, scope: dict[str, str], depth: int) -> str:
        inner = dict(scope)
        bound = template.startswith("cel.bind")

        def hole(found: re.Match[str]) -> str:
            text = found[0]
            if text in ("{{", "}}"):
                return text[0]
            name = text[1:-1]
            if name == "name":
                return str(self.dice.pick(NAMES))
            if name == "method":
                return self.fill(self.dice.pick(METHODS), inner, depth)
            if ":" in name:
                kind = name.partition(":")[2]
                self.variables += 1
                variable = f"v{self.variables}"
                value = f", {self.operand(kind, scope, depth)}" if bound else ""
                inner[variable] = kind
                return variable + value
            return self.operand(name, inner, depth)

        return _HOLE.sub(hole, template)

    def operand(self, kind: str, scope: dict[str, str], depth: int) -> str:
        text = self.grow(kind, scope, depth + 1)
        operators = (
            " && ",
            " || ",
            " ? ",
            " == ",
            " != ",
            " < ",
            " > ",
            " <= ",
            " >= ",
            " in ",
            " + ",
            " - ",
        )
        if text[0] in "-!" or any(operator in text for operator in (*operators, " * ", " / ", " % ")):
            return f"({text})" if self.dice.chance(95) else text
        return text


def _plain(found: re.Match[str]) -> str:
    """A template without holes but for names stays without braces."""
    return "" if found[0] in ("{{", "}}", "{name}") else found[0]
