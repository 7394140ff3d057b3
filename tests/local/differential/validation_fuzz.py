"""Small random damage to an object, which keeps the JSON types of its values."""

from __future__ import annotations

import copy
import random
from typing import Any, Final

_TEXTS: Final = (
    "", "a", "A", "a_b", "a.b", "a/b", "a b", "-a", "ü", "a" * 63, "a" * 64, "a" * 254, "gpu.example.com", "1", "0",
    "-1", "1Gi", "500m", "1.5", "NoSchedule", "Exists", "Equal", "All", "true", "*",
)  # fmt: skip
_NUMBERS: Final = (0, 1, -1, 2, 33, 2**31 - 1, 2**63 - 1)


def fuzzed(chance: random.Random, value: Any) -> Any:
    """A copy in which one place is changed; whether the result is valid is for servers to say."""
    result = copy.deepcopy(value)
    places = [(node, key) for node, key in _places(result)]
    if places:
        node, key = chance.choice(places)
        _damage(chance, node, key)
    return result


def _places(node: Any) -> list[tuple[Any, Any]]:
    keys = node.keys() if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    found = [(node, key) for key in keys]
    return found + [place for key in keys for place in _places(node[key])]


def _damage(chance: random.Random, node: Any, key: Any) -> None:
    value = node[key]
    if chance.random() < 0.3:
        del node[key]
    elif isinstance(node, list) and chance.random() < 0.4:
        node.insert(key, copy.deepcopy(value))
    elif isinstance(value, bool):
        node[key] = not value
    elif isinstance(value, str):
        node[key] = chance.choice(_TEXTS)
    elif isinstance(value, int):
        node[key] = chance.choice(_NUMBERS)
    elif isinstance(value, list):
        node[key] = []
    elif isinstance(value, dict):
        node[key] = {}
