"""Priority of pods (api-machinery section 20)."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from clusters.embedded.apiserver.admission.plugin import Plugin
from clusters.embedded.apiserver.admission.request import CREATE, UPDATE, Request

_GROUP: Final = "scheduling.k8s.io"
_PREEMPT: Final = "PreemptLowerPriority"
_SYSTEM_CLASSES: Final = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}


class Priority(Plugin):
    """Fills spec.priority and spec.preemptionPolicy from the priority class: 0 without any class."""

    name: ClassVar[str] = "Priority"

    def mutate(self, request: Request) -> None:
        """Compute on create, keep on update."""
        if not request.is_for("pods"):
            return
        spec = request.new.setdefault("spec", {})
        if request.operation == UPDATE:
            before = request.old.get("spec") or {}
            for key in ("priority", "preemptionPolicy"):
                if spec.get(key) is None and before.get(key) is not None:
                    spec[key] = before[key]
        elif request.operation == CREATE:
            self._compute(request, spec)

    def _compute(self, request: Request, spec: dict[str, Any]) -> None:
        name, value, policy = self._class(request, spec.get("priorityClassName", ""))
        if name:
            spec["priorityClassName"] = name
        for key, words, computed in (
            ("priority", "the integer value of priority", value),
            ("preemptionPolicy", "the string value of PreemptionPolicy", policy),
        ):
            given = spec.get(key)
            if given is not None and given != computed:
                raise request.refuse(
                    f"{words} ({given}) must not be provided in pod spec; "
                    f"priority admission controller computed {computed} from the given PriorityClass name"
                )
            spec[key] = computed

    def _class(self, request: Request, name: str) -> tuple[str, int, str]:
        reader = self.context.reader
        if name:
            found = reader.get(_GROUP, "priorityclasses", "", name)
            if found is None and name in _SYSTEM_CLASSES:
                return name, _SYSTEM_CLASSES[name], _PREEMPT
            if found is None:
                raise request.refuse(f"no PriorityClass with name {name} was found")
        else:
            defaults = [item for item in reader.list(_GROUP, "priorityclasses") if item.get("globalDefault")]
            if not defaults:
                return "", 0, _PREEMPT
            found = min(defaults, key=lambda item: int(item.get("value", 0)))
        metadata = found.get("metadata") or {}
        return metadata.get("name", ""), int(found.get("value", 0)), found.get("preemptionPolicy") or _PREEMPT
