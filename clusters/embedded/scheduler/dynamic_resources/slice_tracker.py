"""ResourceSlices with the taints of DeviceTaintRules in them (components section 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusters.embedded.components.informer import Handler
from clusters.embedded.scheduler.framework.events import Object


class SliceTracker:
    """Shows each slice as one object that stays the same until the slice, or the taints in it, change."""

    def __init__(self) -> None:
        self._slices: dict[str, Object] = {}
        self._rules: dict[str, Object] = {}
        self._shown: dict[str, Object] = {}
        self._handlers: list[Handler] = []

    def add_handler(self, handler: Handler) -> None:
        """Be told of changes of what is shown."""
        self._handlers.append(handler)

    def slices(self) -> list[Object]:
        """All slices."""
        return list(self._shown.values())

    def on_slice(self, old: Object | None, new: Object | None) -> None:
        """The handler for the informer of slices."""
        if new is not None:
            name = new["metadata"]["name"]
            self._slices[name] = new
            self._show(name, self._tainted(new))
        elif old is not None:
            name = old["metadata"]["name"]
            self._slices.pop(name, None)
            shown = self._shown.pop(name, None)
            if shown is not None:
                self._tell(shown, None)

    def on_rule(self, old: Object | None, new: Object | None) -> None:
        """The handler for the informer of rules."""
        if new is not None:
            self._rules[new["metadata"]["name"]] = new
        elif old is not None:
            self._rules.pop(old["metadata"]["name"], None)
        affected = [rule for rule in (old, new) if rule is not None]
        for name, slice_ in list(self._slices.items()):
            if any(_concerns(rule, slice_) for rule in affected):
                tainted = self._tainted(slice_)
                if _taints(tainted) != _taints(self._shown[name]):
                    self._show(name, tainted)

    def _show(self, name: str, slice_: Object) -> None:
        old = self._shown.get(name)
        self._shown[name] = slice_
        self._tell(old, slice_)

    def _tell(self, old: Object | None, new: Object | None) -> None:
        for handler in self._handlers:
            handler(old, new)

    def _tainted(self, slice_: Object) -> Object:
        rules = [rule for rule in self._rules.values() if _concerns(rule, slice_)]
        if not rules:
            return slice_
        devices = []
        for device in slice_["spec"].get("devices") or ():
            added = [rule["spec"]["taint"] for rule in rules if _selects_device(rule, device)]
            devices.append({**device, "taints": [*(device.get("taints") or ()), *added]} if added else device)
        return {**slice_, "spec": {**slice_["spec"], "devices": devices}}


def _concerns(rule: Object, slice_: Object) -> bool:
    selector = _selector(rule)
    if selector is None:
        return False
    spec = slice_["spec"]
    wanted = ((selector.get("driver"), spec["driver"]), (selector.get("pool"), spec["pool"]["name"]))
    return all(want is None or want == have for want, have in wanted)


def _selects_device(rule: Object, device: Mapping[str, Any]) -> bool:
    wanted = (_selector(rule) or {}).get("device")
    return wanted is None or wanted == device["name"]


def _selector(rule: Object) -> Mapping[str, Any] | None:
    selector: Mapping[str, Any] | None = rule["spec"].get("deviceSelector")
    return selector


def _taints(slice_: Object) -> list[Any]:
    return [device.get("taints") or [] for device in slice_["spec"].get("devices") or ()]
