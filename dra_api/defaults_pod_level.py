"""Requests and limits of a Pod as a whole: what is filled in from those of its containers, and its QoS class.

The API server fills them in when a Pod is created, after admission, and only where some are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .quantity import Quantity

Object = dict[str, Any]
_HUGEPAGES = "hugepages-"


def fill_in(spec: Object) -> None:
    """Complete `spec.resources` of a Pod, in place."""
    whole = spec.get("resources") or {}
    limits, requests = dict(whole.get("limits") or {}), dict(whole.get("requests") or {})
    if not limits and not requests:
        return
    for name, amount in _aggregate(spec, "limits").items():
        if name.startswith(_HUGEPAGES) and name not in requests:
            limits.setdefault(name, amount.canonical())
    if limits:
        # Resources that may be promised to more than can have them; hugepages may not.
        for name, amount in _aggregate(spec, "requests").items():
            if name in ("cpu", "memory"):
                requests.setdefault(name, amount.canonical())
        requests |= {
            name: amount for name, amount in limits.items() if _is_pod_level(name) and name not in requests
        }
    for field, amounts in (("limits", limits), ("requests", requests)):
        if amounts:
            whole[field] = amounts


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, by cpu and memory: the Pod's own if it has any, else all containers'."""
    whole = spec.get("resources") or {}
    if any(_is_pod_level(name) for field in ("requests", "limits") for name in whole.get(field) or {}):
        return _class_of(whole)
    containers = [
        container for group in ("initContainers", "containers") for container in spec.get(group) or []
    ]
    classes = {_class_of(container.get("resources") or {}) for container in containers} or {"BestEffort"}
    return classes.pop() if len(classes) == 1 else "Burstable"


def _class_of(resources: Mapping[str, Any]) -> str:
    requests, limits = (_positive(resources.get(field)) for field in ("requests", "limits"))
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if limits.keys() == {"cpu", "memory"} and requests == limits else "Burstable"


def _is_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith(_HUGEPAGES)


def _parsed(amounts: Mapping[str, Any] | None) -> dict[str, Quantity]:
    return {name: Quantity.parse(str(amount)) for name, amount in (amounts or {}).items()}


def _positive(amounts: Mapping[str, Any] | None) -> dict[str, Quantity]:
    return {
        name: amount
        for name, amount in _parsed(amounts).items()
        if name in ("cpu", "memory") and amount.sign > 0
    }


def _add(total: dict[str, Quantity], more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _aggregate(spec: Object, field: str) -> dict[str, Quantity]:
    """What containers and sidecars have together, or what initialization needs at once, whichever is more."""
    total: dict[str, Quantity] = {}
    sidecars: dict[str, Quantity] = {}
    most: dict[str, Quantity] = {}
    for container in spec.get("containers") or []:
        _add(total, _parsed((container.get("resources") or {}).get(field)))
    for container in spec.get("initContainers") or []:
        needed = _parsed((container.get("resources") or {}).get(field))
        if container.get("restartPolicy") == "Always":
            _add(total, needed)
            _add(sidecars, needed)
            needed = dict(sidecars)
        else:
            _add(needed, sidecars)
        most |= {name: amount for name, amount in needed.items() if name not in most or amount > most[name]}
    total |= {name: amount for name, amount in most.items() if name not in total or amount > total[name]}
    return {name: amount for name, amount in total.items() if _is_pod_level(name)}
