"""Taints of devices and who tolerates them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether the toleration covers the taint. An empty effect or key covers every one.

    Source: dynamic-resource-allocation v0.37.2 `resourceclaim/devicetoleration.go`.
    """
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Equal":
        return (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(operator == "Exists")


def all_tolerated(taints: Sequence[Mapping[str, Any]], tolerations: Sequence[Mapping[str, Any]]) -> bool:
    """Whether each taint is covered by some toleration."""
    return all(any(tolerates(toleration, taint) for toleration in tolerations) for taint in taints)
