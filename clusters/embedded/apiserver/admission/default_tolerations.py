"""Pods tolerate failing nodes for a while (api-machinery section 20)."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from clusters.embedded.apiserver.admission.plugin import Plugin
from clusters.embedded.apiserver.admission.request import CREATE, UPDATE, Request

_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SECONDS: Final = 300


class DefaultTolerationSeconds(Plugin):
    """Adds NoExecute tolerations of 300 s for not-ready and unreachable nodes where the pod has none."""

    name: ClassVar[str] = "DefaultTolerationSeconds"

    def mutate(self, request: Request) -> None:
        """Add what is missing."""
        if not request.is_for("pods") or request.operation not in (CREATE, UPDATE):
            return
        spec = request.new.setdefault("spec", {})
        present: list[dict[str, Any]] = spec.get("tolerations") or []
        missing = [key for key in _TAINTS if not any(_tolerates(item, key) for item in present)]
        if missing:
            spec["tolerations"] = present + [
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
                for key in missing
            ]


def _tolerates(toleration: dict[str, Any], key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")
