"""Taints of nodes against tolerations of pods.

Source: api v0.37.2 `core/v1/toleration.go`, component-helpers v0.37.2 `scheduling/corev1/helpers.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

Taint = Mapping[str, Any]
_BLOCKING: Final = ("NoSchedule", "NoExecute")


def tolerated(taint: Taint, tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Whether one of the tolerations covers the taint."""
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def has_untolerated(taints: Iterable[Taint] | None, tolerations: Iterable[Mapping[str, Any]] | None) -> bool:
    """Whether a taint keeps the pod away."""
    wanted = list(tolerations or ())
    return any(taint["effect"] in _BLOCKING and not tolerated(taint, wanted) for taint in taints or ())


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    effect, key = toleration.get("effect"), toleration.get("key")
    if effect and effect != taint["effect"]:
        return False
    if key and key != taint["key"]:
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Equal":
        return (toleration.get("value") or "") == (taint.get("value") or "")
    # Lt and Gt need TaintTolerationComparisonOperators, an alpha gate.
    return bool(operator == "Exists")
