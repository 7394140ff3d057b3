"""What all drawn values share."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Any, Final

Object = dict[str, Any]

STAMP: Final = "2024-05-01T10:00:00Z"
MICRO: Final = "2024-05-01T10:00:00.123456Z"
UIDS: Final = ("5f1f4c3e-0000-4000-8000-000000000001", "5f1f4c3e-0000-4000-8000-000000000002")


def maybe(chance: random.Random, probability: float, value: Callable[[], Any], **into: Any) -> Any:
    """`value()` or None."""
    return value() if chance.random() < probability else None


def some(**fields: Any) -> Object:
    """The fields that are not None."""
    return {key: value for key, value in fields.items() if value is not None}


def steady(name: str) -> random.Random:
    """Chance that gives one name the same values always."""
    return random.Random(zlib.crc32(name.encode()))


def date_taints(value: Any) -> None:
    """Give taints a time: what a server adds is the current second, which is another one in some runs."""
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        date_taints(item)
    is_taint = isinstance(value, dict) and {"key", "effect"} <= value.keys()
    if is_taint and not {"operator", "tolerationSeconds"} & value.keys():
        value.setdefault("timeAdded", STAMP)
