"""Hashes of templates for names and labels."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"
_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193
# Maps for which absent and empty are one thing; elsewhere an empty object is a value of its own (emptyDir: {}).
_EMPTY_IS_ABSENT: Final = ("labels", "annotations", "nodeSelector", "limits", "requests", "matchLabels")


def safe_encode(text: str) -> str:
    """The text in letters and digits that form no words."""
    return "".join(_SAFE[ord(letter) % len(_SAFE)] for letter in text)


def template_hash(template: Any, collisions: int | None = None) -> str:
    """A hash of a template for names and labels.

    FNV-32a in upstream's alphabet, over the template's canonical JSON (upstream: over Go's own printing of it, so the
    values differ). `collisions` is what the owner's status counted; it changes the hash.
    """
    data = canonical(template).encode()
    if collisions is not None:
        data += collisions.to_bytes(4, "little") + bytes(4)
    return safe_encode(str(fnv32(data)))


def fnv32(data: bytes) -> int:
    """FNV-1a, 32 bits."""
    value = _FNV_OFFSET
    for byte in data:
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFF
    return value


def canonical(value: Any) -> str:
    """JSON with sorted keys, without absent values: equal for objects that mean the same."""
    return json.dumps(_pruned(value), sort_keys=True, separators=(",", ":"))


def _pruned(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _pruned(item)
            for key, item in value.items()
            if item is not None and item != [] and not (item == {} and key in _EMPTY_IS_ABSENT)
        }
    if isinstance(value, list):
        return [_pruned(item) for item in value]
    return value
