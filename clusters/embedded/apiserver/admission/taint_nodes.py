"""New nodes start tainted (api-machinery section 20)."""

from __future__ import annotations

from typing import ClassVar, Final

from clusters.embedded.apiserver.admission.plugin import Plugin
from clusters.embedded.apiserver.admission.request import CREATE, Request

NOT_READY: Final = "node.kubernetes.io/not-ready"


class TaintNodesByCondition(Plugin):
    """Taints each new node as not ready, until the node controller sees it ready."""

    name: ClassVar[str] = "TaintNodesByCondition"

    def mutate(self, request: Request) -> None:
        """Add the taint unless the node brings it."""
        if request.operation != CREATE or not request.is_for("nodes"):
            return
        spec = request.new.setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any((item.get("key"), item.get("effect")) == (NOT_READY, "NoSchedule") for item in taints):
            spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
